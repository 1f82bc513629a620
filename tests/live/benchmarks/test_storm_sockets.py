"""Short runs of storms on real sockets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.arrivals import arrivals
from benchmarks.storm.results import SERIES, Run
from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.sockets import Bench, ProcessFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SERVER = Server(work=200, admission_rate=20, handshake_cost=1)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as running:
        yield running


def outcomes(run: Run) -> Counter[str]:
    return Counter(request.outcome for request in run.requests)


def test_what_the_limiter_does_not_admit_is_rejected(bench: Bench) -> None:
    scenario = Scenario("test", "What?", Load(rate=60, clients=2, warm=2), 2.0, (SERVER,))
    steps: list[dict[str, float]] = []
    run = bench.run(scenario, ARMS["no-retry"], 3, lambda _, values: steps.append(values))
    due = [round(arrival.due, 6) for arrival in arrivals(scenario, 3)]
    assert [round(request.due, 6) for request in run.requests] == due
    assert outcomes(run).keys() == {"ok", "rejected"}
    # The rate for two seconds, and the burst.
    assert outcomes(run)["ok"] == pytest.approx(42, abs=4)
    assert set(run.series) == set(SERIES)
    assert {len(run.series[name]) for name in SERIES} == {20}
    assert sum(run.series["attempts"]) == pytest.approx(len(due), abs=2)
    assert sum(run.series["rejected"]) == pytest.approx(outcomes(run)["rejected"], abs=2)
    assert sum(run.series["capacity"]) == pytest.approx(40)
    assert steps
    assert run.cpu.keys() == {"client", "ingress", "mongod"}
    assert all(seconds > 0 for seconds in run.cpu.values())
    assert {"motorlite", "python", "mongod"} <= run.versions.keys()


def test_the_next_run_begins_with_nothing_of_the_last_one(bench: Bench) -> None:
    load = Load(rate=10, clients=1, patience=0.5, warm=2)
    scenario = Scenario("test", "What?", load, 1.0, (Server(mode="queue", work=1),))
    stuck = bench.run(scenario, ARMS["seed"])
    assert set(outcomes(stuck)) == {"timed_out"}
    free = bench.run(Scenario("test", "What?", Load(rate=10, clients=1, warm=2), 1.0), ARMS["seed"])
    assert set(outcomes(free)) == {"ok"}
    assert free.series["tokens"] == [1000.0] * 10


def test_clients_begin_with_their_connections(bench: Bench) -> None:
    scenario = Scenario("test", "What?", Load(rate=40, clients=2, warm=15), 0.5, (Server(mode="queue", work=40),))
    run = bench.run(scenario, ARMS["seed"])
    assert len(run.requests) > 10
    # They wait for the server, all at the same time, and none for a connection.
    assert max(run.series["server_queue"]) > 2
    assert sum(run.series["connections"]) == 0
    assert max(run.series["client_queue"]) == 0


def test_pymongo_meets_the_same_server(bench: Bench) -> None:
    scenario = Scenario("test", "What?", Load(rate=60, clients=2, patience=2.0, warm=2), 1.5, (SERVER,))
    run = bench.run(scenario, ARMS["pymongo"])
    assert outcomes(run)["rejected"] > 0
    assert outcomes(run)["ok"] > 20
    assert run.series["tokens"] == []
    # It retries rejections.
    assert sum(run.series["attempts"]) > 1.3 * len(run.requests)


def test_a_server_that_goes_down_fails_over(bench: Bench) -> None:
    scenario = Scenario(
        "test",
        "What?",
        Load(rate=20, clients=1, patience=5.0, warm=2),
        6.0,
        (Server(),) * 3,
        changes=(Change(1.0, 3.0, servers=(0,), down=True),),
    )
    for _ in range(2):  # the first member is the primary again
        run = bench.run(scenario, ARMS["seed"])
        assert set(outcomes(run)) == {"ok"}
        assert sum(run.series["goodput"][12:15]) == 0
        assert sum(run.series["goodput"][50:]) > 0


def test_a_process_that_fails_says_why(bench: Bench) -> None:
    scenario = Scenario("test", "What?", Load(rate=10, patience=-1.0), 1.0)
    with pytest.raises(ProcessFailedError, match=r"the process of seed: after .* timeoutMS"):
        bench.run(scenario, ARMS["seed"])
