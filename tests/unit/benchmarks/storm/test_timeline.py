"""Rates that change, and what changes mean for servers."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.timeline import ELECTION, Timeline, capacity_at, condition, elections, readers


def scenario(*changes: Change, members: int = 3, read_preference: str = "primary") -> Scenario:
    servers = (Server(work=100.0, mode="queue"),) * members
    return Scenario("s", "?", Load(rate=1.0), 60.0, servers, read_preference, changes)


@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=5),
    st.lists(st.floats(0.5, 100), min_size=6, max_size=6),
    st.lists(st.floats(0, 60), min_size=1, max_size=20),
)
def test_when_is_the_reverse_of_total(gaps: list[float], rates: list[float], times: list[float]) -> None:
    starts = [0.0]
    for gap in gaps:
        starts.append(starts[-1] + gap)
    subject = Timeline(starts, rates[: len(starts)])
    for time in times:
        assert subject.when(subject.total(time)) == pytest.approx(time, abs=1e-6)


def test_a_rate_of_zero() -> None:
    subject = Timeline([0.0, 1.0, 3.0], [10.0, 0.0, 10.0])
    assert subject.total(2.0) == 10
    assert subject.when(11.0) == pytest.approx(3.1)
    assert Timeline([0.0, 1.0], [10.0, 0.0]).when(11.0) == inf


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
