"""The gates of a client's servers: which are broken, and which changes are reported."""

from __future__ import annotations

from motorlite._admission.circuit_breaker import Change, Outcome
from motorlite._admission.gate import Gate, Gates
from motorlite.overload import BreakerState, CircuitBreaker

A, B = ("a", 1), ("b", 1)


def attempt(gate: Gate, outcome: Outcome, now: float = 0.0) -> None:
    assert gate.breaker is not None
    visit = gate.enter(gate.breaker, now, is_retry=True)
    assert visit is not None
    gate.leave(visit, outcome, now)


def test_without_configuration_there_is_no_gate() -> None:
    assert Gates(None, None, lambda *_: None).make(A) is None


def test_a_server_that_returns_starts_afresh() -> None:
    seen: list[tuple[str, BreakerState]] = []

    def note(address: tuple[str, int | None], change: Change) -> None:
        seen.append((address[0], change.state))

    subject = Gates(CircuitBreaker(min_operations=1), None, note)
    old, _ = subject.make(A), subject.make(B)
    assert old is not None
    attempt(old, Outcome.FAILURE)
    assert (subject.avoided(1.0), subject.avoided(5.0)) == ((A,), ())
    new = subject.make(A)
    assert not subject.broken
    # Operations on the server that left end later.
    attempt(old, Outcome.FAILURE, 5.0)
    assert not subject.broken
    assert new is not None
    assert new.breaker is not None
    assert new.breaker.state is BreakerState.CLOSED
    assert seen == [("a", BreakerState.OPEN)]
