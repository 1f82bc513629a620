"""By priority with age, and the two modes of the adaptive order."""

from __future__ import annotations

import pytest

from motorlite._admission.bounded_queue import Adaptive, ByPriority


class Waiter:
    """What the orders read of a request."""

    def __init__(self, name: str, entered: float = 0.0, priority: int = 50, *, is_admitted: bool = False) -> None:
        self.name = name
        self.entered = entered
        self.priority = priority
        self.is_admitted = is_admitted
        self.rank = (0.0, 0)
        self.since = entered
        self.size = 0

    def refuse(self, error: object) -> None:
        raise AssertionError(error)


def by_priority(*waiters: Waiter, timeout: float = 2.0) -> ByPriority[Waiter]:
    order: ByPriority[Waiter] = ByPriority(timeout)
    for waiter in waiters:
        order.push(waiter)
    return order


def names(order: ByPriority[Waiter] | Adaptive[Waiter], now: float = 0.0) -> str:
    found = ""
    while order.count:
        found += order.pop(now).name
    return found


# --- by priority ---


def test_waiting_for_half_of_the_timeout_is_worth_a_hundred_priorities() -> None:
    # With a timeout of 2 s: 100 priorities in a second.
    before, after = Waiter("b", 0.99, priority=100), Waiter("a", 1.01, priority=100)
    assert names(by_priority(Waiter("0", priority=0), before, after)) == "b0a"


@pytest.mark.parametrize("timeout", [0.1, 5.0, 60.0])
def test_the_lowest_priority_is_served_within_the_bound(timeout: float) -> None:
    """Under a constant load of priority 100, as fast as the server serves."""
    order = by_priority(*(Waiter("x", 0.0, 100) for _ in range(20)), timeout=timeout)
    lowest = Waiter("0", 0.0, 0)
    order.push(lowest)
    served, now, step = None, 0.0, timeout / 1000
    while served is not lowest:
        now += step
        order.push(Waiter("x", now, 100))
        served = order.pop(now)
    # Half a timeout, and the time to serve those that waited before.
    assert now == pytest.approx(timeout / 2 + 21 * step, abs=2 * step)


def test_leaving() -> None:
    waiters = [Waiter("a", priority=1), Waiter("b", priority=2)]
    order = by_priority(*waiters)
    order.discard(waiters[0])
    order.discard(waiters[0])
    assert order.victim(Waiter("n")) is waiters[1]
    assert names(order) == "b"


# --- adaptive ---

TARGET, INTERVAL, ROUND = 0.005, 0.1, 3


class Queue:
    """An adaptive queue, and the time."""

    def __init__(self) -> None:
        self.order: Adaptive[Waiter] = Adaptive(TARGET, INTERVAL)
        self.now = 0.0
        self.numbers = 0

    def arrive(self, count: int = 1) -> None:
        for _ in range(count):
            self.order.push(Waiter(str(self.numbers), self.now))
            self.numbers += 1

    def serve(self) -> str:
        return self.order.pop(self.now).name

    def drop(self) -> list[str]:
        overdue = list(self.order.overdue(self.now, ROUND))
        for waiter in overdue:
            self.order.discard(waiter)
        return [waiter.name for waiter in overdue]


def standing() -> Queue:
    """Two arrive for each that is served, ten milliseconds apart, until the queue stands."""
    queue = Queue()
    while not queue.order.is_standing:
        queue.arrive(2)
        queue.now += 0.01
        queue.serve()
    return queue


def test_first_in_first_out_while_the_queue_drains() -> None:
    queue = Queue()
    for _ in range(100):
        queue.arrive(3)
        queue.now += 0.004
        first = queue.numbers - 3
        assert [queue.serve() for _ in range(3)] == [str(first), str(first + 1), str(first + 2)]
        queue.now += 0.05
    assert not queue.order.is_standing


def test_a_queue_that_stands_for_an_interval_is_served_from_its_end() -> None:
    queue = Queue()
    served = []
    while not queue.order.is_standing:
        queue.arrive(2)
        queue.now += 0.01
        served.append(queue.serve())
    # The first service that sees the target exceeded begins the interval.
    assert queue.now == pytest.approx(0.01 + INTERVAL, abs=0.011)
    assert served[:-1] == [str(number) for number in range(len(served) - 1)]
    assert served[-1] == str(queue.numbers - 1)
    queue.arrive()
    assert next(iter(queue.order)).name == str(queue.numbers - 1)


def test_one_short_wait_begins_the_interval_anew() -> None:
    queue = Queue()
    for _ in range(10):
        queue.arrive(2)
        queue.now += 0.04
        queue.serve()
        queue.now += 0.04
        queue.serve()  # above the target for 80 ms
        queue.arrive()
        queue.now += 0.001
        queue.serve()  # below it
    assert not queue.order.is_standing


def test_those_that_have_waited_for_an_interval_are_dropped_but_for_one_round() -> None:
    queue = standing()
    waiting = sorted(int(waiter.name) for waiter in queue.order)
    queue.now += INTERVAL
    assert queue.drop() == [str(number) for number in waiting[:-ROUND]]
    assert queue.order.count == ROUND
    assert queue.drop() == []


def test_those_that_have_waited_for_less_stay() -> None:
    queue = standing()
    queue.now += INTERVAL
    queue.drop()
    queue.arrive(10)
    queue.now += INTERVAL
    assert len(queue.drop()) == ROUND
    assert queue.order.count == 10


# --- what was admitted before ---


def test_adaptive_drops_others_instead_and_serves_it_before_it_would_be_dropped() -> None:
    order: Adaptive[Waiter] = Adaptive(0.005, 0.1)
    for number in range(4):
        order.push(Waiter(str(number), 0.0, is_admitted=number == 2))
    for number in range(3):
        order.push(Waiter(f"n{number}", 0.2))
    assert order.pop(0.05).name == "0"
    assert [waiter.name for waiter in order] == ["1", "2", "3", "n0", "n1", "n2"]
    assert order.pop(0.16).name == "2"
    assert order.is_standing
    assert [waiter.name for waiter in order.overdue(0.2, 1)] == ["1", "3"]
    assert order.pop(0.2).name == "n2"
