"""The wait queue: first in, first out; those with too little time left step aside."""

from __future__ import annotations

from math import inf

import pytest

from motorlite._admission.pace import Pace, urgency
from motorlite._admission.pool_queue import PoolQueue, Request
from tests.support.pool_state import FakeWaiter

# Of the requests in here, which all have waited for callers whose operations took as long.
LIMITS = (0.01, 0.02, 0.029, 0.034, 0.1, 1.0)


class Subject:
    def __init__(self, *, takes: float = 0.03, patience: float | None = None) -> None:
        pace = Pace()
        for limit in (*LIMITS, inf):
            for _ in range(4):
                pace.worked(takes, 0.0, urgency(limit))
        if patience is not None:
            for _ in range(4):
                pace.left(patience, 0.0)
        self.pace = pace
        self.queue = PoolQueue(pace)
        self.names: dict[Request, str] = {}

    def push(self, name: str, since: float = 0.0, until: float = inf) -> Request:
        request = Request(FakeWaiter(), since, until=until)
        self.names[request] = name
        self.queue.push(request)
        return request

    def pop(self, now: float) -> str:
        return self.names[self.queue.pop(now)]

    def pops(self, now: float) -> str:
        return "".join(self.pop(now) for _ in range(len(self.queue)))

    @property
    def waiting(self) -> str:
        return "".join(self.names[request] for request in self.queue)


def test_first_in_is_first_out() -> None:
    subject = Subject()
    assert not subject.queue
    for name in "cab":
        subject.push(name)
    assert len(subject.queue) == 3
    assert subject.waiting == "cab"
    assert subject.pops(100.0) == "cab", "however long they have waited: no caller has given up"
    assert not subject.queue


def test_a_request_that_gives_up_leaves_and_the_order_stays() -> None:
    subject = Subject()
    requests = [subject.push(name) for name in "abcd"]
    subject.queue.discard(requests[1])
    subject.queue.discard(requests[1])
    assert subject.pop(0.0) == "a"
    subject.queue.discard(requests[0])
    assert subject.waiting == "cd"


def test_too_little_time_left_steps_aside() -> None:
    subject = Subject(takes=0.03)
    subject.push("a", until=0.029)
    subject.push("b", until=0.02)
    subject.push("c", until=0.034)
    assert subject.pop(0.0) == "c"
    assert subject.waiting == "ab"
    assert len(subject.queue) == 2
    subject.push("d")
    assert subject.pops(0.0) == "dba", "of those with too little, the last has the best chance"


@pytest.mark.parametrize("left", [None, 0.034, 0.1, inf], ids=["exactly enough", "34 ms", "100 ms", "no limit"])
def test_enough_time_left_keeps_its_turn(left: float | None) -> None:
    subject = Subject(takes=0.03)
    subject.push("a", until=subject.pace.needed(0.0, urgency(0.034)) if left is None else left)
    subject.push("b", until=1.0)
    assert subject.pops(0.0) == "ab"


def test_a_usual_patience_that_is_exactly_enough_keeps_its_turn() -> None:
    subject = Subject(takes=0.03, patience=1.1 * 0.03)
    assert subject.pace.patience(0.0) == subject.pace.needed(0.0, None)
    subject.push("a")
    subject.push("b", until=1.0)
    assert subject.pops(0.0) == "ab"


def test_nothing_steps_aside_before_a_duration_is_known() -> None:
    queue = PoolQueue(Pace())
    requests = [Request(FakeWaiter(), 0.0, until=0.001), Request(FakeWaiter(), 0.0)]
    for request in requests:
        queue.push(request)
    assert [queue.pop(0.0), queue.pop(0.0)] == requests


def test_what_callers_with_other_limits_do_says_nothing() -> None:
    subject = Subject(takes=0.03)
    for _ in range(31):
        subject.pace.worked(10.0, 0.0, urgency(60.0))
    for name, until in (("a", 5.0), ("b", 0.1), ("c", 60.0), ("d", inf)):
        subject.push(name, until=until)
    assert subject.pops(0.0) == "abcd", "nothing is known of the first; the others have time enough"


def test_where_no_limit_is_seen_the_usual_patience_counts() -> None:
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=0.015)
    assert subject.pop(0.03) == "b", "the first has some 20 ms left, the second 35"
    assert subject.waiting == "a"
    assert subject.pop(0.03) == "a", "rather than none"


def test_a_request_that_outlives_the_usual_patience_has_its_place_again() -> None:
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=0.02)
    assert subject.pop(0.03) == "b"
    for number in range(5):
        subject.push("c", since=0.02 + 0.01 * number)
        assert subject.pop(0.03 + 0.005 * number) == "c"
    subject.push("d", since=0.06)
    assert subject.pop(0.064) == "a"
    assert subject.pop(0.064) == "d"


def test_of_those_that_outlive_the_usual_patience_the_first_is_served_first() -> None:
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=0.001)
    subject.push("c", since=0.02)
    assert subject.pop(0.03) == "c"
    assert subject.pops(0.07) == "ab"


def test_a_quarter_more_than_the_usual_patience_proves_nothing_yet() -> None:
    limit = 1.25 * 0.05
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=limit)
    assert subject.pop(limit) == "b"
    subject.push("c", since=limit)
    assert subject.pop(limit) == "c"


def test_one_that_was_patient_before_it_came_to_its_turn_is_served() -> None:
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=0.9)
    assert subject.pops(0.9) == "ab"


def test_when_callers_have_stopped_giving_up_the_order_is_the_queues_again() -> None:
    subject = Subject(takes=0.03, patience=0.05)
    subject.push("a", since=0.0)
    subject.push("b", since=0.02)
    assert subject.pop(0.03) == "b"
    for _ in range(60):
        subject.pace.worked(0.03, 0.04, None)
    subject.push("c", since=0.035)
    assert subject.pops(0.04) == "ac"


def test_a_scope_that_was_extended_has_its_place_again() -> None:
    subject = Subject(takes=0.03)
    subject.push("a", until=0.01)
    subject.push("b")
    assert subject.pop(0.0) == "b"
    subject.push("c")
    subject.push("d")
    assert subject.pop(0.01) == "c"
    assert subject.pop(0.011) == "a"


def test_one_that_stepped_aside_can_leave() -> None:
    subject = Subject(takes=0.03)
    aside = subject.push("a", until=0.01)
    subject.push("b")
    assert subject.pop(0.0) == "b"
    subject.queue.discard(aside)
    assert not subject.queue
