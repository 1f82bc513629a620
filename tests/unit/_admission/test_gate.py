"""The gates of a client's servers: which are broken, and which changes are reported."""

from __future__ import annotations

from motorlite._admission.circuit_breaker import Change, Outcome
from motorlite._admission.gate import Gate, Gates
from motorlite.overload import BreakerState, CircuitBreaker, ConcurrencyLimit

CLOSED, OPEN, HALF_OPEN = BreakerState
A, B = ("a", 1), ("b", 1)


def gates() -> tuple[Gates, list[tuple[str, BreakerState]]]:
    seen: list[tuple[str, BreakerState]] = []

    def note(address: tuple[str, int | None], change: Change) -> None:
        seen.append((address[0], change.state))

    return Gates(CircuitBreaker(min_operations=1), None, note), seen


def make(subject: Gates, address: tuple[str, int]) -> Gate:
    gate = subject.make(address)
    assert gate is not None
    return gate


def attempt(gate: Gate, outcome: Outcome, now: float = 0.0) -> None:
    assert gate.breaker is not None
    visit = gate.enter(gate.breaker, now, is_retry=True)
    assert visit is not None
    gate.leave(visit, outcome, now)


def test_without_configuration_there_is_no_gate() -> None:
    assert Gates(None, None, lambda *_: None).make(A) is None


def test_a_gate_has_what_is_configured() -> None:
    with_limit = make(Gates(None, ConcurrencyLimit(initial=7), lambda *_: None), A)
    assert with_limit.breaker is None
    assert with_limit.limit is not None
    assert with_limit.limit.value == 7
    with_breaker = make(gates()[0], A)
    assert with_breaker.breaker is not None
    assert with_breaker.limit is None


def test_broken_servers_are_avoided_until_they_may_be_probed() -> None:
    subject, seen = gates()
    a, _ = make(subject, A), make(subject, B)
    assert not subject.broken
    attempt(a, Outcome.FAILURE)
    assert subject.avoided(1.0) == (A,)
    assert subject.avoided(5.0) == ()
    attempt(a, Outcome.SUCCESS, 5.0)
    assert not subject.broken
    assert seen == [("a", OPEN), ("a", HALF_OPEN), ("a", CLOSED)]


def test_a_server_that_returns_starts_afresh() -> None:
    subject, seen = gates()
    old = make(subject, A)
    attempt(old, Outcome.FAILURE)
    new = make(subject, A)
    assert not subject.broken
    # Operations on the server that left end later.
    attempt(old, Outcome.FAILURE, 5.0)
    assert not subject.broken
    assert new.breaker is not None
    assert new.breaker.state is CLOSED
    assert seen == [("a", OPEN)]
