"""The plan of faults: drawn from the seed alone, one fault at a time in each lane."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from motorlite import AsyncMongoClient
from tests.torture.faults import Injector
from tests.torture.plan import CALM, CLIENTS, FIRST, LANES, MEMBERS, PAUSES, PRIMARY, SECOND, client_options, plan
from tests.torture.workload import OPTIONS

TEN_MINUTES = 600
KINDS = {card.kind for cards in LANES.values() for card in cards}


def test_a_seed_has_one_plan() -> None:
    assert plan(7, 60) == plan(7, 60)
    assert plan(7, 60) != plan(8, 60)


def test_clients_differ_in_their_options() -> None:
    options = [client_options(seed) for seed in range(50)]
    assert options == [client_options(seed) for seed in range(50)]
    assert {name for each in options for name in each} == {"maxPoolSize", "compressors", "killAbandoned", "timeoutMS"}
    for each in options:
        AsyncMongoClient("mongodb://localhost", **OPTIONS, **each)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    """So that what fails late can be looked for in a shorter run."""
    short, long = plan(7, 60), plan(7, TEN_MINUTES)
    assert [fault for fault in long if fault in short] == short


@pytest.mark.parametrize("seed", range(20))
def test_one_fault_at_a_time_in_each_lane(seed: int) -> None:
    faults = plan(seed, TEN_MINUTES)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    assert all(0 < fault.at <= fault.until <= TEN_MINUTES for fault in faults)
    for lane in LANES:
        of_lane = [fault for fault in faults if fault.lane == lane]
        for one, following in pairwise(of_lane):
            # Times are rounded.
            assert PAUSES[0] - 0.02 <= following.at - one.until <= PAUSES[1] + 0.02


def test_ten_minutes_have_all_kinds_several_times() -> None:
    counts = Counter(fault.kind for fault in plan(1, TEN_MINUTES))
    assert counts.keys() == KINDS
    assert min(counts.values()) >= 5


def test_a_minute_has_faults_of_all_lanes_on_all_members() -> None:
    faults = plan(1, 60)
    assert {fault.lane for fault in faults} == set(LANES)
    assert {fault.details["member"] for fault in faults if "member" in fault.details} == set(MEMBERS)


@pytest.mark.parametrize("seed", range(20))
def test_partitions_name_each_host_once(seed: int) -> None:
    for fault in plan(seed, TEN_MINUTES):
        if fault.kind == "partition":
            hosts = [host for group in fault.details["groups"] for host in group]
            assert len(hosts) == len(set(hosts)) >= 2
            assert {*hosts} <= {*MEMBERS, CLIENTS}
            assert len(fault.details["groups"]) == 2


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_leave_primaries_alone_with_their_clients(seed: int) -> None:
    """Long enough for an election, and sometimes by themselves: a frozen primary writes nothing that could be lost."""
    faults = plan(seed, TEN_MINUTES)
    frozen = [fault for fault in faults if fault.lane == "process" and fault.details["member"] == PRIMARY]
    found = [
        fault
        for fault in faults
        if fault.details.get("groups") == [[PRIMARY, CLIENTS], [FIRST, SECOND]] and fault.until - fault.at > 2
    ]
    assert [each for each in found if not any(each.at < other.until and other.at < each.until for other in frozen)]


@pytest.mark.parametrize("seed", range(20))
def test_two_minutes_lose_replies_of_commits(seed: int) -> None:
    """All for some seconds, because the first retry of a commit asks nothing of with_transaction."""
    found = [fault for fault in plan(seed, 120) if fault.details.get("commands") == ["commitTransaction"]]
    assert sum(fault.until - fault.at for fault in found) > 20
    assert all(fault.details["times"] is None for fault in found)


def test_at_first_only_replies_are_lost() -> None:
    faults = [fault for seed in range(20) for fault in plan(seed, 60) if fault.at < CALM]
    assert {fault.lane for fault in faults} == {"replies"}
    assert len(faults) >= 20


def test_every_kind_can_be_injected() -> None:
    assert Injector.acts.keys() == KINDS


def test_a_fault_is_one_line() -> None:
    (first, *_) = plan(1, 60)
    assert str(first) == "   4.92 to    7.84  replies  lose replies commands=['commitTransaction'], times=None"
