"""The parameters by the server's own names, and the command line."""

from __future__ import annotations

import pytest

from benchmarks.storm.ingress.__main__ import make_parser, ports_of, server_of
from benchmarks.storm.ingress.orders import with_parameters
from benchmarks.storm.scenario import Server


def test_parameters_have_the_servers_names() -> None:
    found = with_parameters(
        Server(),
        {
            "ingressRequestAdmissionRatePerSec": 300,
            "ingressRequestAdmissionBurstCapacitySecs": "0.25",
            "ingressConnectionEstablishmentRatePerSec": 20,
            "ingressConnectionEstablishmentBurstCapacitySecs": 2,
            "ingressConnectionEstablishmentMaxQueueDepth": 5,
        },
    )
    assert found == Server(
        admission_rate=300, admission_burst=0.25, connection_rate=20, connection_burst=2, connection_queue=5
    )


def test_limiters_can_be_switched_off() -> None:
    server = Server(connection_rate=10)
    found = with_parameters(
        server, {"ingressRequestRateLimiterEnabled": "false", "ingressConnectionEstablishmentRateLimiterEnabled": False}
    )
    assert (found.mode, found.connection_rate) == ("queue", None)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"ingressRate": 1}, "no parameter ingressRate"),
        ({"ingressRequestAdmissionRatePerSec": "many"}, "many"),
        ({"ingressRequestAdmissionRatePerSec": "nan"}, "'nan'"),
        ({"ingressRequestAdmissionRatePerSec": -1}, "at least 0"),
        ({"ingressRequestRateLimiterEnabled": 2}, "true or false"),
    ],
)
def test_wrong_parameters(parameters: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        with_parameters(Server(), parameters)


def test_the_command_line() -> None:
    line = "--server a:1=b:2 --setParameter ingressRequestAdmissionRatePerSec=5 --work 9 --base-backoff 0.05"
    arguments = make_parser().parse_args(line.split())
    assert server_of(arguments) == Server(admission_rate=5, work=9, base_backoff=0.05)
    (port,) = ports_of(arguments.server)
    assert (port.address, port.target) == (("a", 1), ("b", 2))


def test_a_server_without_a_target() -> None:
    with pytest.raises(ValueError, match="form A=B"):
        ports_of(["a:1"])
