"""The decisions at the door of a server, its token buckets and its queue of work."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest

from benchmarks.storm.ingress.gate import Gate, TokenBucket, Verdict, WorkQueue
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
    assert (gate.counts.attempts, gate.counts.rejected) == (15_000, found[Verdict.REJECT])
    assert verdicts(Gate(Server(mode="queue"), 0, 0.0), 10_000, 1) == {Verdict.ADMIT: 10_000}


def test_costs() -> None:
    gate = Gate(Server(rejection_cost=0.2, handshake_cost=7), 0, 0.0)
    costs = {Verdict.ADMIT: 1, Verdict.FAIL: 1, Verdict.REJECT: 0.2, Verdict.UNREACHABLE: 0.2}
    assert {verdict: gate.cost(verdict) for verdict in Verdict} == costs
    assert gate.handshake_cost == 7


def test_failures_by_chance_are_those_of_the_seed() -> None:
    server = Server(mode="queue", failure_rate=0.3)
    gates = (Gate(server, seed, 0.0) for seed in (1, 1, 2))
    first, again, other = ([gate.request(index / 100) for index in range(1000)] for gate in gates)
    assert first == again != other
    assert Counter(first)[Verdict.FAIL] == pytest.approx(300, abs=45)


def test_changes_last_until_the_next_one() -> None:
    gate = Gate(Server(work=750, admission_rate=500, admission_burst=0.1), 0, 0.0)
    gate.change(0.0, capacity=0.5)
    assert verdicts(gate, 1500, 2)[Verdict.ADMIT] == pytest.approx(525, abs=2)
    assert gate.queue.speed == 375
    gate.change(2.0)
    assert verdicts(gate, 1500, 2, 2.0)[Verdict.ADMIT] == pytest.approx(1000, abs=2)
    assert gate.queue.speed == 750
    for change, verdict in (({"failure_rate": 1.0}, Verdict.FAIL), ({"unreachable": True}, Verdict.UNREACHABLE)):
        gate = Gate(Server(mode="queue"), 0, 0.0)
        gate.change(0.0, **change)
        assert gate.request(0.0) is verdict
        assert (gate.counts.attempts, gate.counts.rejected) == (1, 1)
        gate.change(1.0)
        assert gate.request(1.0) is Verdict.ADMIT


def test_connections_beyond_the_rate_wait_in_the_limiters_queue_and_no_more_than_it_holds() -> None:
    gate = Gate(Server(connection_rate=10, connection_burst=0.5), 0, 0.0)
    assert [gate.connect(0.0) for _ in range(7)] == [0, 0, 0, 0, 0, None, None]
    assert (gate.counts.connections, gate.counts.refused) == (5, 2)
    assert gate.connect(0.1) == 0
    gate = Gate(Server(connection_rate=10, connection_burst=0.1, connection_queue=2), 0, 0.0)
    assert [gate.connect(0.0) for _ in range(4)] == [0, pytest.approx(0.1), pytest.approx(0.2), None]
    assert gate.counts.connections == 1
    gate.connected()
    assert gate.counts.connections == 2
    assert gate.connect(0.1) == pytest.approx(0.2)
    gate.gone()
    assert gate.connect(0.1) == pytest.approx(0.3)


# --- token buckets and work ---


@pytest.mark.parametrize(
    ("rate", "burst", "times", "admitted"),
    [
        (100, 0.5, [0.0] * 80, 50),
        (100, 0.5, [0.0] * 80 + [index / 1000 for index in range(2001)], 250),
        # A pause fills it no further than its capacity.
        (100, 0.5, [10.0] * 80, 50),
        # It holds at least one token.
        (2, 0.1, [0.0, 0.0, 0.4, 0.5, 0.6, 1.0], 3),
        (0, 1, [0.0, 1e9], 1),
    ],
)
def test_a_bucket_admits_its_burst_and_then_its_rate(
    rate: float, burst: float, times: list[float], admitted: int
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    assert sum(bucket.take(now) for now in times) == admitted


def test_borrowed_tokens_are_due_one_after_the_other() -> None:
    bucket = TokenBucket(10, 0.1, 5.0)
    assert [bucket.borrow(5.0) for _ in range(4)] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert bucket.borrow(5.0, at_most=0.3) is None
    assert bucket.borrow(5.3, at_most=0.3) == pytest.approx(0.1)
    assert TokenBucket(0, 1, 0.0).borrow(0.0) == 0.0


def test_a_change_keeps_the_tokens_that_fit() -> None:
    bucket = TokenBucket(100, 1, 0.0)
    bucket.change(50, 1, 0.0)
    assert sum(bucket.take(0.0) for _ in range(60)) == 50
    bucket.change(200, 1, 0.5)
    assert bucket.tokens(0.5) == pytest.approx(25)
    assert bucket.tokens(0.6) == pytest.approx(45)


def queue(speed: float = 10, *items: tuple[str, float]) -> WorkQueue[str]:
    made: WorkQueue[str] = WorkQueue(speed, 0.0)
    for name, units in items:
        made.push(name, units, 0.0)
    return made


def test_work_is_done_in_order_at_the_speed_of_the_server() -> None:
    work = queue(10, ("a", 1.0), ("b", 0.5), ("c", 1.0))
    assert work.next_at() == pytest.approx(0.1)
    assert work.finished(0.0999) == []
    assert work.finished(0.1) == ["a"]
    assert work.finished(0.25) == ["b", "c"]
    assert work.next_at() is None
    work.push("late", 1, 7.0)
    assert work.next_at() == pytest.approx(7.1)


def test_another_speed_applies_to_the_work_under_way() -> None:
    work = queue(10, ("a", 1))
    work.change(5, 0.05)
    assert work.next_at() == pytest.approx(0.15)
    work.change(0, 0.1)
    assert work.next_at() is None
    assert work.finished(100.0) == []
    work.change(inf, 100.0)
    assert work.finished(100.0) == ["a"]


def test_a_server_without_limits_does_everything_at_once() -> None:
    work = queue(inf, ("a", 5), ("b", 0))
    assert work.next_at() == 0.0
    assert work.finished(0.0) == ["a", "b"]


def test_the_backlog_is_integrated_over_time_however_often_one_looks() -> None:
    # From 10 units to 0 in one second, then nothing.
    assert queue(10, ("a", 10)).area(3.0) == pytest.approx(5)
    looked, unseen = queue(7), queue(7)
    for step in range(100):
        if step % 10 == 0:
            looked.push("a", 3, step / 10)
            unseen.push("a", 3, step / 10)
        looked.finished(step / 10)
    assert looked.area(20.0) == pytest.approx(unseen.area(20.0))


def test_dropped_work_is_gone() -> None:
    work = queue(10, ("a", 10))
    work.drop(0.5)
    assert work.next_at() is None
    work.push("b", 1, 1.0)
    assert work.next_at() == pytest.approx(1.1)


def test_a_clock_that_steps_back_does_no_harm() -> None:
    bucket, work = TokenBucket(10, 1, 5.0), WorkQueue[str](10, 5.0)
    work.push("a", 1, 5.0)
    assert bucket.tokens(4.0) == 10
    assert work.finished(4.0) == []
    assert work.finished(5.1) == ["a"]
