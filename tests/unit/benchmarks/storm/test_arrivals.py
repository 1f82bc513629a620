"""When requests are due."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest

from benchmarks.storm.arrivals import arrivals, load_at
from benchmarks.storm.scenario import Change, Load, Scenario

SCENARIO = Scenario(
    "s", "?", Load(rate=200.0, clients=4), 40.0, changes=(Change(10, 20, load=3.0), Change(15, 30, load=0.5))
)


def test_the_rate_follows_the_load() -> None:
    due = [arrival.due for arrival in arrivals(SCENARIO, 1)]
    assert all(before < after for before, after in pairwise(due))
    counts = [sum(start <= time < start + 5 for time in due) for start in range(0, 40, 5)]
    expected = [200 * 5 * load_at(SCENARIO, start) for start in range(0, 40, 5)]
    assert expected == [1000, 1000, 3000, 1500, 500, 500, 1000, 1000]
    assert counts == pytest.approx(expected, rel=0.12)


def test_what_comes_before_a_change_does_not_depend_on_it() -> None:
    calm = replace(SCENARIO, changes=())
    before = [arrival for arrival in arrivals(SCENARIO, 5) if arrival.due < 10]
    assert before == [arrival for arrival in arrivals(calm, 5) if arrival.due < 10]
    assert before != [arrival for arrival in arrivals(calm, 6) if arrival.due < 10]


def test_clients_share_the_load() -> None:
    shares = Counter(arrival.client for arrival in arrivals(SCENARIO, 1))
    assert set(shares) == {0, 1, 2, 3}
    assert max(shares.values()) < 1.1 * min(shares.values())


def test_a_pause_has_no_arrivals() -> None:
    quiet = replace(SCENARIO, changes=(Change(10, 20, load=0.0),))
    due = [arrival.due for arrival in arrivals(quiet, 1)]
    assert not [time for time in due if 10 <= time < 20]
    assert [time for time in due if 20 <= time < 21]


def test_the_application_cancels_a_share_within_its_patience() -> None:
    load = replace(SCENARIO.load, cancelled=0.25, patience=2.0)
    found = [arrival.cancelled_after for arrival in arrivals(replace(SCENARIO, load=load), 1)]
    cancelled = [after for after in found if after != inf]
    assert len(cancelled) / len(found) == pytest.approx(0.25, abs=0.02)
    assert all(0 <= after < 2 for after in cancelled)
    assert max(cancelled) > 1.9
