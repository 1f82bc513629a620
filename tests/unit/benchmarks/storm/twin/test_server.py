"""A simulated server against the formulas of queueing theory, and its limiters."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.timeline import Timeline
from benchmarks.storm.twin.clock import Clock
from benchmarks.storm.twin.server import Limiter, SimulatedServer


def server(spec: Server, *changes: Change, clock: Clock | None = None) -> SimulatedServer:
    scenario = Scenario("s", "?", Load(rate=1.0), 100.0, servers=(spec,), changes=changes)
    return SimulatedServer(scenario, 0, Random(1), clock or Clock())


def queue(work: float = 100.0, latency: float = 0.0) -> Server:
    return Server(work=work, mode="queue", latency=latency)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_random_arrivals_wait_as_long_as_the_formula_for_constant_service_times_says(load: float) -> None:
    subject, dice, now, waited, count = server(queue()), Random(7), 0.0, 0.0, 40_000
    for _ in range(count):
        now += dice.expovariate(100 * load)
        waited += subject.request(now)[0] - now - 0.01
    expected = load / (2 * (1 - load)) / 100
    assert waited / count == pytest.approx(expected, rel=0.08)


def test_requests_are_answered_in_order_one_service_time_apart() -> None:
    subject = server(queue(latency=0.5))
    assert [subject.request(1.0)[0] for _ in range(3)] == pytest.approx([1.51, 1.52, 1.53])
    assert subject.backlog(1.0) == pytest.approx(3)
    assert subject.backlog(1.02) == pytest.approx(1)
    assert subject.backlog(9.0) == 0


def test_work_under_way_goes_on_at_the_speed_of_the_moment() -> None:
    subject = server(queue(), Change(1.0, 2.0, capacity=0.5))
    # Half of the unit at full speed until 1.0, the other half at half the speed.
    assert subject.request(0.995)[0] == pytest.approx(1.01)
    assert subject.request(1.995)[0] == pytest.approx(2.0075)


def test_a_stopped_server_answers_when_it_works_again() -> None:
    subject = server(queue(), Change(1.0, 2.0, capacity=0.0))
    assert subject.request(1.5)[0] == pytest.approx(2.01)


def test_the_limiter_admits_its_rate_and_its_burst() -> None:
    subject = server(Server(work=1e9, admission_rate=100.0, admission_burst=0.1, latency=0.0))
    admitted = [subject.request(0.0)[1] for _ in range(20)]
    assert admitted == [True] * 10 + [False] * 10
    # Ten times as many as it admits, for ten seconds.
    admitted = [subject.request(number / 1000)[1] for number in range(10_000)]
    assert sum(admitted) == pytest.approx(1000, abs=1)


def test_rejections_and_handshakes_cost_work() -> None:
    subject = server(Server(work=100.0, admission_rate=1.0, rejection_cost=0.25, handshake_cost=4.0, latency=0.0))
    assert [subject.request(0.0)[1] for _ in range(2)] == [True, False]
    assert subject.backlog(0.0) == pytest.approx(1.25)
    assert subject.handshake(0.0) == pytest.approx(0.0525)


def test_failures_at_random_do_their_work() -> None:
    subject = server(Server(work=100.0, mode="queue", failure_rate=0.25, latency=0.0))
    outcomes = [subject.request(float(now)) for now in range(2000)]
    assert sum(succeeds for _, succeeds in outcomes) == pytest.approx(1500, abs=60)
    assert outcomes[-1][0] == pytest.approx(1999.01)


def test_connections_wait_for_their_tokens_in_order_or_are_closed() -> None:
    clock, begun = Clock(), list[tuple[str, float]]()
    spec = Server(connection_rate=2.0, connection_burst=1.0, connection_queue=2)
    subject = server(spec, clock=clock)
    accepted = [
        subject.connect(lambda name: begun.append((name, clock.now)), name) for name in ("a", "b", "c", "d", "e")
    ]
    assert accepted == [True, True, True, True, False]
    clock.run(10.0)
    assert begun == [("a", 0.0), ("b", 0.0), ("c", pytest.approx(0.5)), ("d", pytest.approx(1.0))]


def test_a_crash_forgets_the_work() -> None:
    subject = server(queue())
    for _ in range(50):
        subject.request(1.0)
    subject.crash(1.1)
    assert subject.backlog(1.1) == 0
    assert subject.request(1.1)[0] == pytest.approx(1.11)


def test_tokens_are_never_negative_nor_above_the_burst() -> None:
    rates, dice, now = Timeline([0.0, 5.0, 8.0], [10.0, 0.0, 20.0]), Random(3), 0.0
    limiter = Limiter(rates, 1.0)
    while now < 20:
        now += dice.expovariate(15)
        limiter.take(now)
        assert 0 <= limiter.tokens <= 20
