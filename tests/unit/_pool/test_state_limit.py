"""A pool whose concurrency limit is below maxPoolSize: requests above it wait in the same queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pool_queue import Request
from motorlite.overload import ConcurrencyLimit
from tests.support.pool_state import StateDriver, answer, give_up


def limited(value: int = 2, **options: Any) -> StateDriver:
    subject = StateDriver(**{"max_size": 10, "max_connecting": 10, **options})
    subject.state.limit = AdaptiveLimit(ConcurrencyLimit(initial=value, minimum=1))
    return subject


def set_limit(subject: StateDriver, value: int) -> None:
    assert subject.state.limit is not None
    subject.state.limit.value = value


def test_requests_above_the_limit_wait() -> None:
    subject = limited()
    used = subject.checked_out(2)
    assert subject.state.take(0) is None
    request = subject.ask()
    # Not even a connection is established for it.
    assert subject.started() == []
    subject.state.put(used[0], 0)
    assert answer(request) is used[0]


def test_the_error_of_a_request_that_waits_in_vain_names_the_limit() -> None:
    subject = limited(2)
    subject.checked_out(2)
    request = subject.ask()
    error = subject.state.expire(request, 1.5)
    assert str(error).startswith("Timeout waiting for connection")
    assert "1.500 s; the concurrency limit allows 2 operations at once, and 2 are running (" in str(error)


def test_a_higher_limit_serves_several_with_the_next_check_in() -> None:
    subject = limited(4)
    subject.idle(4)
    set_limit(subject, 1)
    connection = subject.state.take(0)
    assert connection is not None
    requests = [subject.ask() for _ in range(4)]
    set_limit(subject, 3)
    subject.state.put(connection, 0)
    assert [answer(request) is not None for request in requests] == [True, True, True, False]


def test_min_pool_size_is_not_limited() -> None:
    subject = limited(1, min_size=4)
    subject.state.populate()
    assert len(subject.started()) == 4


def test_pending_replies_count_until_they_are_overdue() -> None:
    subject = limited(1)
    (used,) = subject.checked_out()
    used.owed, used.owed_until = 7, 100.0
    subject.state.put(used, 0)
    subject.effects()
    assert subject.state.running == 1
    request = subject.ask()
    assert subject.started() == []
    subject.state.overdue(used, 1.0)
    assert subject.state.running == 0
    (establishment,) = subject.started()
    assert subject.finish(establishment) is answer(request)


STEP = st.one_of(
    st.tuples(st.sampled_from(["ask", "return", "leave", "finish"]), st.integers(0, 100)),
    st.tuples(st.just("limit"), st.integers(1, 8)),
)


@given(st.lists(STEP, max_size=200))
def test_whatever_happens_nobody_waits_for_nothing(steps: list[tuple[str, int]]) -> None:
    """The limit holds for each one served, and while it leaves room, nobody waits for an idle connection."""
    subject = limited(3, max_size=5)
    state, waiting, used = subject.state, list[Request](), list[Any]()
    establishing: list[Any] = []
    for action, number in steps:
        before = set(state.in_use)
        # A higher limit has its effect with the next thing that happens to the pool.
        happened = True
        if action == "ask":
            waiting.append(subject.ask())
        elif action == "return" and used:
            connection = used.pop(number % len(used))
            before.discard(connection)
            state.put(connection, 0)
        elif action == "leave" and waiting:
            give_up(subject, waiting.pop(number % len(waiting)))
        elif action == "finish" and establishing:
            subject.finish(establishing.pop(number % len(establishing)))
        else:
            happened = False
            if action == "limit":
                set_limit(subject, number)
        establishing += subject.started()
        assert state.limit is not None
        if set(state.in_use) - before:
            assert len(state.in_use) <= state.limit.value
        for request in [request for request in waiting if answer(request) is not None]:
            waiting.remove(request)
            used.append(answer(request))
        assert set(used) == state.in_use
        if happened and waiting and state.may_use():
            assert not state.idle
            assert establishing
    # All are served in the end.
    set_limit(subject, 8)
    for _ in range(1000):
        if not waiting:
            break
        if used:
            state.put(used.pop(), 0)
        elif establishing:
            subject.finish(establishing.pop())
        else:
            state.serve(0)
        establishing += subject.started()
        for request in [request for request in waiting if answer(request) is not None]:
            waiting.remove(request)
            used.append(answer(request))
    assert not waiting
