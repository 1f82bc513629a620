"""When requests are due, and what changes mean for the load and the servers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest

from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.timeline import ELECTION, arrivals, capacity_at, condition, elections, load_at, readers


def scenario(*changes: Change, members: int = 3, read_preference: str = "primary") -> Scenario:
    servers = (Server(work=100.0, mode="queue"),) * members
    return Scenario("s", "?", Load(rate=1.0), 60.0, servers, read_preference, changes)


def test_changes_multiply_and_concern_their_servers() -> None:
    subject = scenario(
        Change(1, 3, capacity=0.5),
        Change(2, 4, capacity=0.5, servers=(1,), failure_rate=0.2),
        Change(5, 6, down=True),
        Change(6, 7, servers=(1,), unreachable=True),
    )
    assert [condition(subject, 1, time) for time in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)] == [
        (1.0, 0.0, False, False),
        (0.5, 0.0, False, False),
        (0.25, 0.2, False, False),
        (0.5, 0.2, False, False),
        (1.0, 0.0, False, False),
        (1.0, 0.0, True, False),
        (1.0, 0.0, False, True),
    ]
    assert condition(subject, 0, 2.0) == (0.5, 0.0, False, False)
    assert not condition(subject, 0, 6.0).is_unreachable


def test_the_first_member_that_is_up_succeeds_the_primary() -> None:
    subject = scenario(Change(5, 10, servers=(0,), down=True), Change(20, 30, servers=(0, 1), down=True))
    assert elections(subject) == [(0.0, 0), (5, None), (5 + ELECTION, 1), (20, None), (20 + ELECTION, 2)]
    assert [capacity_at(subject, time) for time in (4, 5.5, 7, 20.5, 22)] == [100, 0, 100, 0, 100]
    assert elections(scenario(Change(5, 10, down=True), members=1)) == [(0.0, 0)]


@pytest.mark.parametrize(
    ("mode", "with_primary", "without"),
    [
        ("primary", (1,), ()),
        ("primaryPreferred", (1,), (0, 1, 2)),
        ("secondary", (0, 2), (0, 1, 2)),
        ("secondaryPreferred", (0, 2), (0, 1, 2)),
        ("nearest", (0, 1, 2), (0, 1, 2)),
    ],
)
def test_who_reads_from_whom(mode: str, with_primary: tuple[int, ...], without: tuple[int, ...]) -> None:
    assert readers(mode, 3, 1) == with_primary
    assert readers(mode, 3, None) == without


# --- requests ---

SCENARIO = Scenario(
    "s", "?", Load(rate=200.0, clients=4), 40.0, changes=(Change(10, 20, load=3.0), Change(15, 30, load=0.5))
)


def test_the_rate_follows_the_load_and_clients_share_it() -> None:
    found = list(arrivals(SCENARIO, 1))
    due = [arrival.due for arrival in found]
    assert all(before < after for before, after in pairwise(due))
    counts = [sum(start <= time < start + 5 for time in due) for start in range(0, 40, 5)]
    expected = [200 * 5 * load_at(SCENARIO, start) for start in range(0, 40, 5)]
    assert expected == [1000, 1000, 3000, 1500, 500, 500, 1000, 1000]
    assert counts == pytest.approx(expected, rel=0.12)
    shares = Counter(arrival.client for arrival in found)
    assert set(shares) == {0, 1, 2, 3}
    assert max(shares.values()) < 1.1 * min(shares.values())
    quiet = replace(SCENARIO, changes=(Change(10, 20, load=0.0),))
    due = [arrival.due for arrival in arrivals(quiet, 1)]
    assert not [time for time in due if 10 <= time < 20]
    assert [time for time in due if 20 <= time < 21]


def test_what_comes_before_a_change_does_not_depend_on_it() -> None:
    calm = replace(SCENARIO, changes=())
    before = [arrival for arrival in arrivals(SCENARIO, 5) if arrival.due < 10]
    assert before == [arrival for arrival in arrivals(calm, 5) if arrival.due < 10]
    assert before != [arrival for arrival in arrivals(calm, 6) if arrival.due < 10]


def test_the_application_cancels_a_share_within_its_patience() -> None:
    load = replace(SCENARIO.load, cancelled=0.25, patience=2.0)
    found = [arrival.cancelled_after for arrival in arrivals(replace(SCENARIO, load=load), 1)]
    cancelled = [after for after in found if after != inf]
    assert len(cancelled) / len(found) == pytest.approx(0.25, abs=0.02)
    assert all(0 <= after < 2 for after in cancelled)
    assert max(cancelled) > 1.9
