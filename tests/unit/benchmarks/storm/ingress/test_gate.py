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


# --- token buckets and work ---


def admitted(bucket: TokenBucket, times: list[float]) -> int:
    return sum(bucket.take(now) for now in times)


def test_a_full_bucket_admits_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(100, 0.5, 0.0)
    assert admitted(bucket, [0.0] * 80) == 50
    assert admitted(bucket, [index / 1000 for index in range(2001)]) == 200


def test_a_pause_fills_the_bucket_no_further_than_its_capacity() -> None:
    bucket = TokenBucket(100, 0.5, 0.0)
    assert admitted(bucket, [10.0] * 80) == 50
    assert bucket.tokens(10.1) == pytest.approx(10)


def test_a_bucket_holds_at_least_one_token() -> None:
    bucket = TokenBucket(2, 0.1, 0.0)
    assert admitted(bucket, [0.0, 0.0, 0.4, 0.5, 0.6, 1.0]) == 3


def test_borrowed_tokens_are_due_one_after_the_other() -> None:
    bucket = TokenBucket(10, 0.1, 5.0)
    assert [bucket.borrow(5.0) for _ in range(4)] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert bucket.borrow(5.0, at_most=0.3) is None
    assert bucket.borrow(5.3, at_most=0.3) == pytest.approx(0.1)


def test_a_bucket_without_a_rate_admits_its_tokens_and_nothing_more() -> None:
    bucket = TokenBucket(0, 1, 0.0)
    assert bucket.take(0.0)
    assert bucket.borrow(1e9) is None


def test_a_change_keeps_the_tokens_that_fit() -> None:
    bucket = TokenBucket(100, 1, 0.0)
    bucket.change(50, 1, 0.0)
    assert bucket.tokens(0.0) == 50
    assert admitted(bucket, [0.0] * 60) == 50
    bucket.change(200, 1, 0.5)
    assert bucket.tokens(0.5) == pytest.approx(25)
    assert bucket.tokens(0.6) == pytest.approx(45)


def test_work_is_done_in_order_at_the_speed_of_the_server() -> None:
    queue: WorkQueue[str] = WorkQueue(10, 0.0)
    for name, units in (("a", 1.0), ("b", 0.5), ("c", 1.0)):
        queue.push(name, units, 0.0)
    assert queue.next_at() == pytest.approx(0.1)
    assert queue.finished(0.0999) == []
    assert queue.finished(0.1) == ["a"]
    assert queue.finished(0.25) == ["b", "c"]
    assert queue.next_at() is None


def test_work_begins_when_it_arrives_at_an_idle_server() -> None:
    queue: WorkQueue[str] = WorkQueue(10, 0.0)
    queue.push("a", 1, 7.0)
    assert queue.next_at() == pytest.approx(7.1)


def test_another_speed_applies_to_the_work_under_way() -> None:
    queue: WorkQueue[str] = WorkQueue(10, 0.0)
    queue.push("a", 1, 0.0)
    queue.change(5, 0.05)
    assert queue.next_at() == pytest.approx(0.15)
    queue.change(0, 0.1)
    assert queue.next_at() is None
    assert queue.finished(100.0) == []
    queue.change(inf, 100.0)
    assert queue.finished(100.0) == ["a"]


def test_a_server_without_limits_does_everything_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue(inf, 0.0)
    queue.push("a", 5, 1.0)
    queue.push("b", 0, 1.0)
    assert queue.next_at() == 1.0
    assert queue.finished(1.0) == ["a", "b"]


def test_the_backlog_is_integrated_over_time() -> None:
    queue: WorkQueue[str] = WorkQueue(10, 0.0)
    queue.push("a", 10, 0.0)
    assert queue.backlog(0.5) == pytest.approx(5)
    # From 10 units to 0 in one second, then nothing.
    assert queue.area(3.0) == pytest.approx(5)


def test_the_area_is_the_same_however_often_one_looks() -> None:
    looked: WorkQueue[int] = WorkQueue(7, 0.0)
    unseen: WorkQueue[int] = WorkQueue(7, 0.0)
    for step in range(100):
        if step % 10 == 0:
            looked.push(step, 3, step / 10)
            unseen.push(step, 3, step / 10)
        looked.finished(step / 10)
    assert looked.area(20.0) == pytest.approx(unseen.area(20.0))


def test_dropped_work_is_gone() -> None:
    queue: WorkQueue[str] = WorkQueue(10, 0.0)
    queue.push("a", 10, 0.0)
    queue.drop(0.5)
    assert len(queue) == 0
    assert queue.backlog(0.5) == 0
    queue.push("b", 1, 1.0)
    assert queue.next_at() == pytest.approx(1.1)


def test_a_clock_that_steps_back_does_no_harm() -> None:
    bucket, queue = TokenBucket(10, 1, 5.0), WorkQueue[str](10, 5.0)
    queue.push("a", 1, 5.0)
    assert bucket.tokens(4.0) == 10
    assert queue.finished(4.0) == []
    assert queue.finished(5.1) == ["a"]
