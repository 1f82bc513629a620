"""The decisions at the door of a server, in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.storm.ingress.gate import Gate, Verdict
from benchmarks.storm.scenario import Server


def verdicts(gate: Gate, rate: float, seconds: float, start: float = 0.0) -> Counter[Verdict]:
    return Counter(gate.request(start + index / rate) for index in range(round(rate * seconds)))


def test_without_limits_everything_is_admitted_for_nothing_and_not_counted() -> None:
    gate = Gate(None, 0, 0.0)
    assert verdicts(gate, 10_000, 1) == {Verdict.ADMIT: 10_000}
    assert gate.cost(Verdict.ADMIT) == gate.handshake_cost == 0
    assert gate.connect(0.0) == 0
    assert not any(gate.figures(1.0).values())


def test_three_times_the_rate_is_admitted_to_a_third() -> None:
    gate = Gate(Server(admission_rate=500, admission_burst=0.1), 0, 0.0)
    found = verdicts(gate, 1500, 10)
    assert found[Verdict.ADMIT] == pytest.approx(5050, abs=2)
    assert found[Verdict.REJECT] == 15_000 - found[Verdict.ADMIT]
    assert gate.counts.attempts == 15_000
    assert gate.counts.rejected == found[Verdict.REJECT]


def test_without_shedding_everything_is_admitted() -> None:
    assert verdicts(Gate(Server(mode="queue"), 0, 0.0), 10_000, 1) == {Verdict.ADMIT: 10_000}


def test_costs() -> None:
    gate = Gate(Server(rejection_cost=0.2, handshake_cost=7), 0, 0.0)
    assert [gate.cost(verdict) for verdict in (Verdict.ADMIT, Verdict.FAIL, Verdict.REJECT)] == [1, 1, 0.2]
    assert gate.handshake_cost == 7


def test_failures_by_chance_are_those_of_the_seed() -> None:
    server = Server(mode="queue", failure_rate=0.3)
    first, again, other = (_sequence(server, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert Counter(first)[Verdict.FAIL] == pytest.approx(300, abs=45)


def _sequence(server: Server, seed: int) -> list[Verdict]:
    gate = Gate(server, seed, 0.0)
    return [gate.request(index / 100) for index in range(1000)]


def test_half_of_the_capacity_admits_half_and_works_at_half_the_speed() -> None:
    gate = Gate(Server(work=750, admission_rate=500, admission_burst=0.1), 0, 0.0)
    gate.change(0.0, capacity=0.5)
    assert verdicts(gate, 1500, 2)[Verdict.ADMIT] == pytest.approx(525, abs=2)
    assert gate.queue.speed == 375
    gate.change(2.0)
    assert verdicts(gate, 1500, 2, 2.0)[Verdict.ADMIT] == pytest.approx(1000, abs=2)
    assert gate.queue.speed == 750


def test_a_change_of_the_failure_rate_ends_with_the_change() -> None:
    gate = Gate(Server(mode="queue", failure_rate=0.0), 0, 0.0)
    gate.change(0.0, failure_rate=1.0)
    assert gate.request(0.0) is Verdict.FAIL
    gate.change(1.0)
    assert gate.request(1.0) is Verdict.ADMIT


def test_an_unreachable_host_answers_for_the_cost_of_a_rejection_until_the_change_ends() -> None:
    gate = Gate(Server(mode="shed", admission_rate=1, rejection_cost=0.25), 0, 0.0)
    gate.change(0.0, unreachable=True)
    assert [gate.request(0.0) for _ in range(5)] == [Verdict.UNREACHABLE] * 5
    assert gate.cost(Verdict.UNREACHABLE) == 0.25
    assert (gate.counts.attempts, gate.counts.rejected) == (5, 5)
    gate.change(1.0)
    assert gate.request(1.0) is Verdict.ADMIT


def test_connections_beyond_the_rate_are_refused() -> None:
    gate = Gate(Server(connection_rate=10, connection_burst=0.5), 0, 0.0)
    assert [gate.connect(0.0) for _ in range(7)] == [0, 0, 0, 0, 0, None, None]
    assert (gate.counts.connections, gate.counts.refused) == (5, 2)
    assert gate.connect(0.1) == 0


def test_connections_wait_in_the_limiters_queue_and_no_more_than_it_holds() -> None:
    gate = Gate(Server(connection_rate=10, connection_burst=0.1, connection_queue=2), 0, 0.0)
    assert [gate.connect(0.0) for _ in range(4)] == [0, pytest.approx(0.1), pytest.approx(0.2), None]
    assert gate.counts.connections == 1
    gate.connected()
    assert gate.counts.connections == 2
    assert gate.connect(0.1) == pytest.approx(0.2)
    gate.gone()
    assert gate.connect(0.1) == pytest.approx(0.3)
