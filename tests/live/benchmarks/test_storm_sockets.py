"""Short runs of storms on real sockets."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.results import SERIES, Run
from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.sockets.bench import CLOSE_SECONDS, Bench
from benchmarks.storm.sockets.processes import Clients, ClientsFailedError
from benchmarks.storm.timeline import arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

# Loads are light: other tests may keep the machine busy.
SERVER = Server(work=200, admission_rate=5, handshake_cost=1)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as running:
        yield running


def outcomes(run: Run) -> Counter[str]:
    return Counter(request.outcome for request in run.requests)


def test_what_the_limiter_does_not_admit_is_rejected(bench: Bench) -> None:
    scenario = Scenario("test", "What?", Load(rate=20, clients=2, warm=2), 2.0, (SERVER,))
    steps: list[dict[str, float]] = []
    run = bench.run(scenario, ARMS["no-retry"], 3, lambda _, values: steps.append(values))
    due = [round(arrival.due, 6) for arrival in arrivals(scenario, 3)]
    assert [round(request.due, 6) for request in run.requests] == due
    assert outcomes(run).keys() == {"ok", "rejected"}
    # At most the rate for two seconds, and the burst; fewer where a busy machine sends requests in clusters.
    assert 3 < outcomes(run)["ok"] <= 13
    assert set(run.series) == set(SERIES)
    assert {len(run.series[name]) for name in SERIES} == {20}
    assert len(due) / 2 < sum(run.series["attempts"]) <= len(due)
    assert 0 < sum(run.series["rejected"]) <= outcomes(run)["rejected"]
    assert sum(run.series["capacity"]) == pytest.approx(10)
    assert steps
    assert run.cpu.keys() == {"client", "ingress", "mongod"}
    assert all(seconds > 0 for seconds in run.cpu.values())
    assert {"motorlite", "python", "mongod"} <= run.versions.keys()


def test_the_next_run_begins_with_nothing_of_the_last_one(bench: Bench) -> None:
    load = Load(rate=10, clients=1, patience=0.5, warm=2)
    scenario = Scenario("test", "What?", load, 1.0, (Server(mode="queue", work=1),))
    stuck = bench.run(scenario, ARMS["default"])
    assert set(outcomes(stuck)) == {"timed_out"}
    free = bench.run(Scenario("test", "What?", Load(rate=10, clients=1, warm=2), 1.0), ARMS["default"])
    assert set(outcomes(free)) == {"ok"}
    assert free.series["tokens"] == [1000.0] * 10


def test_pymongo_meets_the_same_server(bench: Bench) -> None:
    load = Load(rate=10, clients=1, patience=5.0, warm=2)
    scenario = Scenario("test", "What?", load, 2.5, (Server(admission_rate=0.5),))
    run = bench.run(scenario, ARMS["pymongo"])
    assert outcomes(run)["rejected"] > 0
    assert outcomes(run)["ok"] > 0
    assert run.series["tokens"] == []
    # It retries rejections.
    assert sum(run.series["attempts"]) > 1.1 * len(run.requests)


def test_a_server_that_goes_down_fails_over(bench: Bench) -> None:
    scenario = Scenario(
        "test",
        "What?",
        Load(rate=20, clients=1, patience=5.0, warm=2),
        6.0,
        (Server(),) * 3,
        changes=(Change(1.0, 3.0, servers=(0,), down=True),),
    )
    run = bench.run(scenario, ARMS["default"])
    assert set(outcomes(run)) == {"ok"}
    assert sum(run.series["goodput"][12:15]) == 0
    assert sum(run.series["goodput"][50:]) > 0


def test_a_process_that_fails_says_why_and_the_next_run_works(bench: Bench) -> None:
    broken = Scenario("test", "What?", Load(rate=10, clients=1, patience=-1.0, warm=2), 1.0)
    run = bench.run(broken, ARMS["default"])
    (reason,) = run.invalid
    assert re.match(r"the process of default: after .* timeoutMS", reason)
    assert not run.requests
    assert Run.from_json(run.to_json()) == run
    fine = bench.run(Scenario("test", "What?", Load(rate=10, clients=1, warm=2), 0.5), ARMS["default"])
    assert set(outcomes(fine)) == {"ok"}


def test_a_process_that_does_not_end_its_clients_is_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario("test", "What?", Load(rate=10, clients=1, warm=2), 0.5)
    bench.run(scenario, ARMS["default"])
    before = bench._clients["default"]
    receive = Clients.receive

    def silent(self: Clients, seconds: float = 60.0) -> object:
        if seconds == CLOSE_SECONDS:
            raise ClientsFailedError("did not answer")
        return receive(self, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(Clients, "receive", silent)
        assert set(outcomes(bench.run(scenario, ARMS["default"]))) == {"ok"}
    assert "default" not in bench._clients
    assert set(outcomes(bench.run(scenario, ARMS["default"]))) == {"ok"}
    assert bench._clients["default"] is not before
