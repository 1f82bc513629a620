"""What the doctor says about facts: values in, findings out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite._connection.handshake import parse_hello
from motorlite._net.probe import Reached
from motorlite._options.options import client_options
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyDescription
from motorlite.doctor import _access as access
from motorlite.doctor import _configuration as configuration
from motorlite.doctor import _deployment as deployment
from motorlite.doctor import _network as network
from motorlite.doctor._finding import Finding, Secrets, Severity, Step, exit_status
from motorlite.errors import ConfigurationError, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Iterable

SERVER = "a:1"
PRIMARY = {
    "ok": 1,
    "setName": "rs",
    "hosts": [SERVER],
    "me": SERVER,
    "isWritablePrimary": True,
    "minWireVersion": 0,
    "maxWireVersion": 17,
    "tags": {"dc": "x"},
}


def errors(findings: Iterable[Finding]) -> list[str]:
    return [each.text for each in findings if each.severity is Severity.ERROR]


def warnings_of(uri: str) -> str:
    found = configuration.judge_options(client_options(uri), [])
    return "\n".join(f"{each.text}; {each.advice}" for each in found if each.severity is Severity.WARNING)


# --- findings ---


def test_the_status_is_that_of_the_first_step_that_fails() -> None:
    late = Finding(Step.SELECTION, Severity.ERROR, "a")
    early = Finding(Step.TLS, Severity.ERROR, "b")
    warning = Finding(Step.URI, Severity.WARNING, "c")
    assert exit_status([]) == 0
    assert exit_status([warning]) == 0
    assert exit_status([late, warning, early]) == Step.TLS.value


def test_secrets_are_hidden_everywhere() -> None:
    finding = Finding(
        Step.URI, Severity.OK, "a hunter2", "b hunter2", "hunter2:1", {"a": ["hunter2"], "b": {"c": "hunter2"}}
    )
    cleaned = Secrets(("hunter2",)).cleaned(finding)
    assert "hunter2" not in repr(cleaned)
    assert cleaned.facts == {"a": ["***"], "b": {"c": "***"}}
    assert "hunter2" not in repr(Secrets(("hunter2",)))


# --- the connection string ---


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://localhost", ""),
        ("mongodb://u:p@localhost/shop", "add authSource=admin"),
        ("mongodb://u:p@localhost/shop?authSource=shop", ""),
        ("mongodb://u:p@db.example.com", "without TLS"),
        ("mongodb://a/?tls=true&tlsAllowInvalidCertificates=true", "pretend to be the server"),
        ("mongodb://a/?tls=true&tlsAllowInvalidHostnames=true", "connect to a name in the certificate"),
        ("mongodb://a/?maxPoolSize=0", "set maxPoolSize"),
        ("mongodb://a/?connectTimeoutMS=0", "without a limit"),
        ("mongodb://a/?w=0", "nothing reports a write that fails"),
        ("mongodb://a/?socketTimeoutMS=1000", "pile up"),
    ],
)
def test_doubtful_options(uri: str, expected: str) -> None:
    found = warnings_of(uri)
    assert expected in found
    assert bool(found) is bool(expected)


def test_the_parts_are_shown_without_the_password() -> None:
    text = configuration.describe_options(client_options("mongodb://u:hunter2@a,b:2/shop?replicaSet=rs&tls=true"))
    assert text == (
        "hosts a:27017, b:2; user 'u', password ***, authSource 'shop', mechanism by negotiation; TLS; "
        "database 'shop'; replicaSet 'rs'; read preference primary"
    )


@pytest.mark.parametrize(
    ("name", "host", "expected"),
    [
        ("x.cluster.example.com", "a.example.com", "such as 'cluster.example.com'"),
        ("y.x.cluster.example.com", "a.cluster.example.com", "such as 'x.cluster.example.com'"),
        ("cluster.example.com", "a.other.com", "may only point below 'example.com'"),
    ],
)
def test_records_outside_the_domain(name: str, host: str, expected: str) -> None:
    srv = client_options(f"mongodb+srv://{name}/").srv
    assert srv is not None
    (finding,) = configuration.judge_records(srv, [(host, 27017)], None)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


# --- addresses ---


def reached(error: str | None, ip: str = "127.0.0.1") -> Reached:
    return Reached(ip, "IPv6" if ":" in ip else "IPv4", 0.25, error)


def test_one_address_of_two_is_a_warning_but_for_localhost() -> None:
    both = [reached("refused", "::1"), reached(None)]
    for server, expected in (("localhost:1", Severity.NOTE), ("db.example.com:1", Severity.WARNING)):
        good, other = network.judge_addresses(server, both, is_from_set=False, is_in_container=False)
        assert (good.severity, other.severity) == (Severity.OK, expected)
        assert good.facts == {"addresses": {"::1": "refused", "127.0.0.1": 250.0}}


@pytest.mark.parametrize("is_in_container", [True, False])
def test_localhost_in_a_container(is_in_container: bool) -> None:
    (finding,) = network.judge_addresses(
        "localhost:1", [reached("refused")], is_from_set=False, is_in_container=is_in_container
    )
    assert ("the container itself" in finding.advice) is is_in_container


@pytest.mark.parametrize(("is_from_set", "expected"), [(True, "rs.conf()"), (False, "spelling")])
def test_a_name_without_an_address(is_from_set: bool, expected: str) -> None:
    finding = network.unresolved(SERVER, "no such name", is_from_set=is_from_set)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


# --- servers ---


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, "replicaSet=rs", None),
        ({}, "replicaSet=other", "the set is called 'rs'"),
        ({"setName": None}, "replicaSet=rs", "no member of a replica set"),
        ({"isreplicaset": True}, "", "not initiated"),
        ({"maxWireVersion": 2}, "", "requires"),
    ],
)
def test_hello(changes: dict[str, Any], options: str, expected: str | None) -> None:
    reply = {**PRIMARY, **changes}
    facts = parse_hello(("a", 1), reply, False, check_versions=False).facts
    found = list(deployment.judge_hello(("a", 1), reply, facts, client_options(f"mongodb://a/?{options}"), (), "7.0.1"))
    assert found[0].facts["version"] == "7.0.1"
    assert bool(errors(found)) is (expected is not None)
    assert (expected or "") in "".join(errors(found))


def test_compressors() -> None:
    facts = parse_hello(("a", 1), PRIMARY, False).facts
    options = client_options("mongodb://a")
    for offered, severities in ((["zlib"], ["ok"]), ([], ["ok", "warning"])):
        reply = {**PRIMARY, "compression": offered}
        found = deployment.judge_hello(("a", 1), reply, facts, options, ("zlib",), "")
        assert [each.severity.value for each in found] == severities


@pytest.mark.parametrize(
    ("mechanisms", "extra", "problem", "code", "expected"),
    [
        (["SCRAM-SHA-1"], "", OperationFailure("no", 18), 18, "the password is wrong"),
        ([], "", OperationFailure("no", 18), 18, "knows no user 'u' in 'admin'"),
        (["SCRAM-SHA-1"], "authMechanism=SCRAM-SHA-256", OperationFailure("no", 18), 18, "change authMechanism"),
        (None, "", ConfigurationError("no"), None, "correct the options"),
        (None, "", OperationFailure("no", 1), 1, "log says why"),
    ],
)
def test_refused_authentication(
    mechanisms: list[str] | None, extra: str, problem: Exception, code: int | None, expected: str
) -> None:
    options = client_options(f"mongodb://u:p@a/?{extra}")
    finding = deployment.judge_authentication(SERVER, mechanisms, options, problem, code)
    assert finding.severity is Severity.ERROR
    assert expected in finding.advice


def test_refused_write() -> None:
    reply = {"ok": 1, "writeErrors": [{"code": 13, "errmsg": "not authorized"}]}
    finding = access.judge_command(SERVER, "write", "shop.c", reply, ["read on 'shop'"])
    assert finding.severity is Severity.ERROR
    assert finding.advice.startswith("the connection has read on 'shop': grant the role readWrite on 'shop'")


@pytest.mark.parametrize(("share", "expected"), [(0.01, 1), (0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10)])
def test_percentiles(share: float, expected: int) -> None:
    assert deployment.percentile(list(range(1, 11)), share) == expected


@pytest.mark.parametrize(("timeout", "count"), [(1000, 1), (100, 2)])
def test_slow_round_trips(timeout: int, count: int) -> None:
    options = client_options(f"mongodb://a/?timeoutMS={timeout}")
    assert len(list(deployment.judge_round_trips(SERVER, [0.06] * 20, options))) == count


@pytest.mark.parametrize(
    ("difference", "uncertainty", "severity"),
    [(1.0, 0.0, "ok"), (-9.0, 1.0, "warning"), (9.0, 1.0, "warning"), (6.0, 2.0, "ok")],
)
def test_clocks(difference: float, uncertainty: float, severity: str) -> None:
    assert deployment.judge_clock(SERVER, difference, uncertainty).severity.value == severity


@pytest.mark.parametrize(
    ("pool", "limit", "severity"), [(100, 1024, "ok"), (500, 1024, "warning"), (500, None, "ok"), (0, None, "warning")]
)
def test_open_files(pool: int, limit: int | None, severity: str) -> None:
    options = client_options(f"mongodb://a/?maxPoolSize={pool}")
    assert deployment.judge_files(options, 3, limit).severity.value == severity


@pytest.mark.parametrize(
    ("connections", "severity"),
    [(None, "note"), ({"current": 1, "available": 100}, "ok"), ({"current": 1, "available": 99}, "warning")],
)
def test_connections_of_the_server(connections: dict[str, int] | None, severity: str) -> None:
    options = client_options("mongodb://a")
    assert deployment.judge_connections(SERVER, connections, options).severity.value == severity


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, [], []),
        ({}, ["readPreference=secondary"], ["reads"]),
        ({}, ["readPreference=nearest", "readPreferenceTags=dc:y"], ["reads"]),
        ({}, ["readPreference=nearest", "readPreferenceTags=dc:x"], []),
        ({"isWritablePrimary": False, "secondary": True}, ["readPreference=secondary"], ["writes"]),
    ],
)
def test_selection(changes: dict[str, Any], options: list[str], expected: list[str]) -> None:
    seen = ServerDescription.from_hello(
        ("a", 1), {**PRIMARY, **changes}, round_trip_time=0.1, min_round_trip_time=0.1, now=0.0
    )
    topology = TopologyDescription.initial(
        [("a", 1)], direct_connection=False, replica_set="rs", load_balanced=False
    ).apply(seen)
    uri = "mongodb://a:1/?" + "&".join(["replicaSet=rs", *options])
    found = deployment.judge_selection(topology, client_options(uri))
    assert [name for each in found if each.severity is Severity.ERROR for name in each.facts] == expected
