"""Public tests of server selection: logic, round-trip times and the choice within the latency window."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from motorlite._topology.round_trip import RoundTripTimes
from motorlite._topology.selection import WRITABLE, Selector, choose, suitable_servers
from motorlite._topology.server_description import parse_address
from tests.spec.topology_data import Preference, addresses, cases, topology

if TYPE_CHECKING:
    from motorlite.values import Address

FOLDER = "server-selection/tests"
LOCAL_THRESHOLD = 0.015


@pytest.mark.parametrize("test", cases(FOLDER, "server_selection"))
def test_logic(test: dict[str, Any]) -> None:
    selector: Selector = WRITABLE if test["operation"] == "write" else Preference(test["read_preference"])
    description = topology(test["topology_description"])
    for window, threshold in (("suitable_servers", float("inf")), ("in_latency_window", LOCAL_THRESHOLD)):
        found = suitable_servers(
            description,
            selector,
            deprioritized=frozenset(addresses(test.get("deprioritized_servers", ()))),
            local_threshold=threshold,
            heartbeat_frequency=10.0,
        )
        assert sorted(server.address for server in found) == addresses(test[window]), window


@pytest.mark.parametrize("test", cases(FOLDER, "rtt"))
def test_round_trip_time(test: dict[str, Any]) -> None:
    times = RoundTripTimes()
    if test["avg_rtt_ms"] != "NULL":
        times.add(test["avg_rtt_ms"])
    times.add(test["new_rtt_ms"])
    assert times.average == pytest.approx(test["new_avg_rtt"])


class Server(NamedTuple):
    address: Address
    operation_count: int


@pytest.mark.parametrize("test", cases(FOLDER, "in_window"))
def test_in_window(test: dict[str, Any]) -> None:
    description = topology(test["topology_description"])
    counts = {parse_address(state["address"]): state["operation_count"] for state in test["mocked_topology_state"]}
    candidates = suitable_servers(
        description,
        Preference({"mode": "Nearest"}),
        local_threshold=LOCAL_THRESHOLD,
        heartbeat_frequency=10.0,
    )
    servers = [Server(candidate.address, counts[candidate.address]) for candidate in candidates]
    generator = random.Random(test["description"])
    size, iterations = len(servers), test["iterations"]
    chosen = Counter(
        choose(servers, generator.randrange(size), generator.randrange(size - 1)).address for _ in range(iterations)
    )
    tolerance = test["outcome"]["tolerance"]
    for text, expected in test["outcome"]["expected_frequencies"].items():
        observed = chosen[parse_address(text)] / iterations
        if expected in (0, 1):
            assert observed == expected
        else:
            assert observed == pytest.approx(expected, abs=tolerance)
