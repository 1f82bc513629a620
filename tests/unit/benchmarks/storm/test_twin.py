"""Whole simulated runs: nothing is lost or counted twice, and what can be calculated comes out as calculated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.storm.arms import ARMS, Arm
from benchmarks.storm.results import OUTCOMES, STEP
from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.scenarios import find
from benchmarks.storm.summary import summarize
from benchmarks.storm.timeline import arrivals
from benchmarks.storm.twin import simulate

if TYPE_CHECKING:
    from benchmarks.storm.results import Run

# Without limits of its own, and with connections enough for all.
CALM = Scenario("calm", "?", Load(rate=100.0, clients=4, warm=10), 14.0, servers=(Server(work=1e4, mode="queue"),))
SHED = Scenario(
    "shed",
    "?",
    Load(rate=70.0, clients=10, patience=1.0, warm=10),
    30.0,
    servers=(Server(work=150.0, admission_rate=100.0, handshake_cost=0.0),),
    changes=(Change(2.0, 26.0, load=3 / 0.7),),
)


# The same for as long as it takes to see that two runs are alike.
SHORT = replace(SHED, seconds=1.5, changes=(replace(SHED.changes[0], start=0.3, end=1.2),))


def failing(rate: float, **load: Any) -> Scenario:
    servers = (replace(CALM.servers[0], failure_rate=rate),)
    return replace(CALM, load=Load(**{"rate": 200.0, "clients": 10, "warm": 4, **load}), servers=servers)


def total(run: Run, name: str) -> float:
    return sum(run.series[name])


def check(run: Run, load: Load) -> None:
    """What must hold after any run."""
    outcomes = Counter(request.outcome for request in run.requests)
    assert not run.invalid
    assert set(outcomes) <= set(OUTCOMES)
    assert len(run.requests) == total(run, "offered")
    # What ends after the run is in no series.
    in_time = Counter(request.outcome for request in run.requests if request.ended < run.seconds - 1e-6)
    assert in_time["ok"] <= total(run, "goodput") <= outcomes["ok"]
    assert in_time["timed_out"] <= total(run, "timed_out") <= outcomes["timed_out"]
    assert in_time["cancelled"] <= total(run, "cancelled") <= outcomes["cancelled"]
    assert total(run, "goodput") <= total(run, "attempts") - total(run, "rejected")
    for request in run.requests:
        assert request.due <= request.ended
        if load.patience is not None:
            # The application tries again until its patience is over, and each operation has that time once more.
            assert request.ended <= request.due + load.patience * (2 if load.application_retries else 1) + 1e-6
    assert not any(value < 0 for values in run.series.values() for value in values)


# --- conservation ---

LOADS = st.builds(
    Load,
    rate=st.floats(20, 100),
    clients=st.integers(1, 5),
    warm=st.integers(0, 5),
    patience=st.floats(0.02, 1.5),
    application_retries=st.integers(0, 3),
    cancelled=st.sampled_from([0.0, 0.2]),
)
SERVERS = st.builds(
    Server,
    work=st.floats(20, 300),
    mode=st.sampled_from(["shed", "queue"]),
    admission_rate=st.floats(20, 200),
    connection_rate=st.one_of(st.none(), st.floats(1, 50)),
    connection_queue=st.integers(0, 3),
    base_backoff=st.one_of(st.none(), st.floats(0.01, 0.2)),
    handshake_cost=st.floats(0, 5),
    latency=st.floats(0.001, 0.05),
    failure_rate=st.sampled_from([0.0, 0.1]),
)
CHANGES = st.builds(
    lambda start, length, **changes: Change(start, start + length, **changes),
    st.floats(0.1, 2.0),
    st.floats(0.1, 2.0),
    load=st.sampled_from([0.0, 1.0, 5.0]),
    capacity=st.sampled_from([0.0, 0.5, 1.0]),
    servers=st.sampled_from([(), (0,)]),
    down=st.booleans(),
)
POLICIES = st.builds(
    Arm,
    st.just("any"),
    st.just(""),
    driver=st.sampled_from(["motorlite", "motorlite", "pymongo"]),
    retries=st.integers(0, 5),
    backoff=st.sampled_from(["seed", "revision", "fixed", "none"]),
    budget=st.sampled_from(["client", "server", "shared", "published", "none"]),
    tokens=st.sampled_from([0.0, 3.0, 1000.0]),
    breaker=st.booleans(),
    queue=st.booleans(),
    adaptive_limit=st.booleans(),
    max_pool_size=st.sampled_from([1, 4, 100]),
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    LOADS,
    st.lists(SERVERS, min_size=1, max_size=3),
    st.lists(CHANGES, max_size=2),
    POLICIES,
    st.sampled_from(["primary", "nearest", "secondaryPreferred"]),
)
def test_each_request_has_one_outcome(
    load: Load, servers: list[Server], changes: list[Change], arm: Arm, read_preference: str
) -> None:
    scenario = Scenario("any", "?", load, 2.0, tuple(servers), read_preference, tuple(changes))
    check(simulate(scenario, arm, 1), load)


def test_the_same_seed_yields_the_same_run_and_the_same_requests_for_all_arms() -> None:
    first, again, other = (simulate(SHORT, ARMS["default"], seed) for seed in (1, 1, 2))
    assert first == again
    assert first.series["goodput"] != other.series["goodput"]
    due = [arrival.due for arrival in arrivals(SHORT, 1)]
    for run in (first, simulate(SHORT, ARMS["no-retry"], 1), simulate(SHORT, ARMS["pymongo"], 1)):
        assert [request.due for request in run.requests] == due


# --- what can be calculated ---


@pytest.mark.parametrize(
    ("rate", "arm", "application_retries", "most"),
    [
        (0.05, "three", 0, 4),
        (0.2, "three", 0, 4),
        (0.5, "three", 0, 4),
        (0.3, "no-retry", 0, 1),
        (0.5, "no-retry", 3, 4),
    ],
)
def test_fixed_retries_multiply_the_load_as_calculated(
    rate: float, arm: str, application_retries: int, most: int
) -> None:
    """Of the driver, or of the application, in at most so many attempts."""
    run = simulate(failing(rate, application_retries=application_retries), ARMS[arm])
    assert total(run, "attempts") / len(run.requests) == pytest.approx((1 - rate**most) / (1 - rate), rel=0.05)
    assert total(run, "goodput") / len(run.requests) == pytest.approx(1 - rate**most, abs=0.03)


@pytest.mark.parametrize("rate", [0.5, 0.7])
def test_a_bucket_limits_retries_to_what_successes_bring(rate: float) -> None:
    # What a success brings: 0.1 tokens. What a retry costs on balance: 1, unless it succeeds, and then nothing.
    income = 0.1 * (1 - rate)
    for arm, expected in (("bucket", income / (rate - income)), ("published-bucket", income / (1 - income))):
        run = simulate(failing(rate), ARMS[arm])
        retries = total(run, "attempts") - len(run.requests)
        initial = ARMS[arm].tokens * failing(rate).load.clients
        assert (retries - initial) / len(run.requests) == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_an_empty_bucket_holds_the_amplification_of_an_overload_to_what_was_calculated(factor: int) -> None:
    changes = (replace(SHED.changes[0], load=factor / 0.7),)
    run = simulate(replace(SHED, changes=changes), ARMS["small-budget"])
    # r retries and factor first attempts share one capacity: r * (1 - 1 / (factor + r)) = 0.1.
    retries = 0.0
    for _ in range(50):
        retries = 0.1 / (1 - 1 / (factor + retries))
    figures = summarize(run)
    assert figures.settled == pytest.approx(1 + retries / factor, abs=0.02)
    assert figures.share == pytest.approx(1.0, abs=0.02)


# --- timeouts, cancellations, failover ---

LATE = replace(
    CALM,
    load=Load(rate=60.0, clients=4, warm=10, patience=0.1),
    # Every reply is 50 ms late.
    servers=(Server(work=1e4, mode="queue", latency=0.15),),
)


def test_a_late_reply_does_not_cost_motorlite_a_connection() -> None:
    ours, theirs = simulate(LATE, ARMS["default"]), simulate(LATE, ARMS["pymongo"])
    for run in (ours, theirs):
        assert {request.outcome for request in run.requests} == {"timed_out"}
        assert all(request.ended - request.due == pytest.approx(0.1, abs=1e-3) for request in run.requests)
    assert total(ours, "connections") < 60
    assert total(theirs, "connections") > 10 * total(ours, "connections")


def test_cancelled_requests_end_at_once_and_are_no_failures() -> None:
    load = replace(LATE.load, cancelled=1.0, patience=None)
    run = simulate(replace(LATE, load=load), ARMS["default"])
    assert {request.outcome for request in run.requests} == {"cancelled"}
    assert max(request.ended - request.due for request in run.requests) < 0.1
    assert total(run, "connections") < 60


def test_reads_from_the_primary_wait_for_its_successor() -> None:
    scenario = replace(
        CALM,
        load=Load(rate=60.0, clients=4, warm=10, patience=3.0),
        servers=CALM.servers * 3,
        changes=(Change(5.0, 12.0, servers=(0,), down=True),),
    )
    run = simulate(scenario, ARMS["default"])
    assert {request.outcome for request in run.requests} == {"ok"}
    latencies = {request.due: request.ended - request.due for request in run.requests}
    waiting = [latency for due, latency in latencies.items() if 5.0 < due < 5.9]
    assert waiting
    assert all(0.1 < latency < 1.05 for latency in waiting)
    assert max(latency for due, latency in latencies.items() if due > 6.1) < 0.05
    # The other members take over reads from any of them.
    anywhere = simulate(replace(scenario, read_preference="nearest"), ARMS["default"])
    assert {request.outcome for request in anywhere.requests} == {"ok"}
    assert max(request.ended - request.due for request in anywhere.requests) < 0.1


def test_an_unreachable_primary_gets_no_storm_but_from_peers() -> None:
    (scenario,) = find(["unreachable"])
    start, end = scenario.overload
    runs = {name: simulate(scenario, ARMS[name]) for name in ("default", "revision", "small-budget", "pymongo")}
    overload = slice(round(start / STEP), round(end / STEP))
    attempts = {name: sum(run.series["attempts"][overload]) for name, run in runs.items()}
    offered = sum(runs["default"].series["offered"][overload])
    # Two at once, then about one after each step of the backoff, until the two seconds are over.
    assert 3 * offered < attempts["default"] < 9 * offered
    # Without a budget the backoff alone does it.
    assert attempts["revision"] == pytest.approx(attempts["default"], rel=0.1)
    # Two for each, and the tokens of all clients.
    budget = ARMS["small-budget"].tokens * scenario.load.clients
    assert attempts["small-budget"] <= 2 * offered + budget + 10
    # As many as the server can answer.
    assert attempts["pymongo"] > 2 * attempts["default"]
    assert summarize(runs["default"]).errors == 0


def test_a_server_that_is_down_closes_everything_until_it_is_found_again() -> None:
    scenario = replace(
        CALM, load=Load(rate=60.0, clients=4, warm=10, patience=0.5), changes=(Change(5.0, 8.0, down=True),)
    )
    run = simulate(scenario, ARMS["default"])
    by_due = [(request.due, request.outcome) for request in run.requests]
    assert {outcome for due, outcome in by_due if 5.05 < due < 7.4} == {"timed_out"}
    assert {outcome for due, outcome in by_due if due < 4.9 or due > 8.6} == {"ok"}


def test_what_is_unfinished_when_a_run_ends_timed_out() -> None:
    scenario = replace(
        CALM, load=Load(rate=100.0, clients=1, warm=100), servers=(Server(work=10.0, mode="queue", handshake_cost=0.0),)
    )
    run = simulate(scenario, ARMS["default"])
    outcomes = Counter(request.outcome for request in run.requests)
    assert set(outcomes) == {"ok", "timed_out"}
    assert outcomes["ok"] == pytest.approx(190, abs=5)
    assert len(run.requests) == total(run, "offered")


def test_drivers_that_are_not_modelled() -> None:
    with pytest.raises(ValueError, match="mongojet is not modelled"):
        simulate(CALM, ARMS["mongojet"])
