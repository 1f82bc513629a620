"""Server selection: logic, round-trip times, and the choice within the latency window.

The formats are "server-selection", "round-trip-time" and "in-window".
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite._topology.monitor import RoundTripTimes
from motorlite._topology.selection import WRITABLE, Selector, choose, suitable_servers
from motorlite._topology.server_description import parse_address
from tests.spec.formats.base import Format, equal
from tests.spec.formats.topology_data import Preference, addresses, topology
from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address
    from motorlite._topology.topology_description import TopologyDescription

LOCAL_THRESHOLD: Final = 0.015
# The two lists of a test, and how much slower than the fastest server one in it may be, in seconds.
WINDOWS: Final = {"suitable_servers": math.inf, "in_latency_window": LOCAL_THRESHOLD}


def check_window(
    test: Mapping[str, Any],
    window: str,
    description: TopologyDescription,
    selector: Selector,
    *,
    heartbeat_frequency: float = 10.0,
) -> None:
    """Compare one of the two lists of servers."""
    found = suitable_servers(
        description,
        selector,
        deprioritized=frozenset(addresses(test.get("deprioritized_servers", ()))),
        local_threshold=WINDOWS[window],
        heartbeat_frequency=heartbeat_frequency,
    )
    equal(addresses(test[window]), sorted(server.address for server in found), window)


def check_logic(test: Mapping[str, Any]) -> None:
    """Compare the suitable servers, and those of them in the latency window."""
    selector: Selector = WRITABLE if test["operation"] == "write" else Preference(test["read_preference"])
    for window in WINDOWS:
        check_window(test, window, topology(test["topology_description"]), selector)


def check_round_trip_time(test: Mapping[str, Any]) -> None:
    """Compare the moving average."""
    times = RoundTripTimes()
    if test["avg_rtt_ms"] != "NULL":
        times.add(test["avg_rtt_ms"])
    times.add(test["new_rtt_ms"])
    if times.average is None or not math.isclose(times.average, test["new_avg_rtt"], rel_tol=1e-6):
        raise Failed(f"average: expected {test['new_avg_rtt']!r}, found {times.average!r}")


class Server(NamedTuple):
    """What the choice looks at."""

    address: Address
    operation_count: int


def check_in_window(test: Mapping[str, Any]) -> None:
    """Compare how often each server is chosen; the random numbers are the same in every run."""
    counts = {parse_address(state["address"]): state["operation_count"] for state in test["mocked_topology_state"]}
    candidates = suitable_servers(
        topology(test["topology_description"]),
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
    for text, expected in test["outcome"]["expected_frequencies"].items():
        observed = chosen[parse_address(text)] / iterations
        tolerance = 0.0 if expected in (0, 1) else test["outcome"]["tolerance"]
        if abs(observed - expected) > tolerance:
            raise Failed(f"frequency of {text}: expected {expected!r} within {tolerance!r}, found {observed!r}")


SERVER_SELECTION: Final = Format(
    "server-selection",
    check_logic,
    lambda content: "topology_description" in content and "operation" in content,
    is_extended=True,
)
ROUND_TRIP_TIME: Final = Format(
    "round-trip-time", check_round_trip_time, lambda content: "new_avg_rtt" in content, is_extended=True
)
IN_WINDOW: Final = Format(
    "in-window", check_in_window, lambda content: "mocked_topology_state" in content, is_extended=True
)
