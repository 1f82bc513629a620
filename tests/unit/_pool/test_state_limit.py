"""A pool whose concurrency limit is below maxPoolSize: requests above it wait in the same queue."""

from __future__ import annotations

from typing import Any

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite.overload import ConcurrencyLimit
from tests.support.pool_state import StateDriver, answer


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


def test_idle_connections_above_the_limit_stay_idle() -> None:
    subject = limited(4)
    subject.idle(4)
    set_limit(subject, 2)
    assert [subject.state.take(0) is not None for _ in range(3)] == [True, True, False]
    request = subject.ask()
    assert answer(request) is None
    assert len(subject.state.idle) == 2


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
