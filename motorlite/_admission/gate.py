"""Pure: the breaker and the concurrency limit of one server, which the server holds; and all gates of a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from motorlite._admission.circuit_breaker import Breaker, Outcome
from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite.overload.breaker import BreakerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._admission.circuit_breaker import Change, Visit
    from motorlite._base.values import Address
    from motorlite.overload.breaker import CircuitBreaker
    from motorlite.overload.concurrency import ConcurrencyLimit


@dataclass(eq=False)
class Gate:
    """What attempts on one server pass."""

    address: Address
    breaker: Breaker | None
    # The pool also reads it.
    limit: AdaptiveLimit | None
    on_change: Callable[[Gate, Change], None]
    on_gone: Callable[[Gate], None]
    # Called when the breaker opens, with the seconds until the next probe: refuses the operations that wait for a
    # connection and that the breaker stops, and returns their number. The pool sets it.
    refuse_waiting: Callable[[float], int] | None = None

    def enter(self, breaker: Breaker, now: float, *, is_retry: bool, is_admitted: bool = False) -> Visit | None:
        """Ask the breaker for an attempt. Returns None if it refuses."""
        visit, change = breaker.enter(now, is_retry=is_retry, is_admitted=is_admitted)
        if change is not None:
            self.on_change(self, change)
        return visit

    def leave(self, visit: Visit, outcome: Outcome, now: float) -> None:
        """Tell the breaker the outcome of an attempt that it let pass."""
        assert self.breaker is not None
        change = self.breaker.leave(visit, outcome, now)
        if change is None:
            return
        self.on_change(self, change)
        if change.state is BreakerState.OPEN and self.refuse_waiting is not None:
            for _ in range(self.refuse_waiting(change.retry_after)):
                self.breaker.count_refusal(change.retry_after)

    def refuse_now(self, now: float) -> float | None:
        """If the breaker is open, count a refusal, and return after how many seconds to try again; else None."""
        breaker = self.breaker
        if breaker is None or breaker.state is not BreakerState.OPEN:
            return None
        retry_after = breaker.retry_after(now)
        breaker.count_refusal(retry_after)
        return retry_after

    def gone(self) -> None:
        """Learn that the server has left the deployment. Its last operations may leave the gate afterwards."""
        self.on_gone(self)

    def stops(self, *, is_retry: bool, is_admitted: bool) -> bool:
        """Whether the breaker, when it opens, refuses these operations while they wait for a connection."""
        return self.breaker is not None and not is_admitted and self.breaker.gates(is_retry=is_retry)


@dataclass(eq=False)
class Gates:
    """The gates of a client's servers."""

    _breaker: CircuitBreaker | None
    _limit: ConcurrencyLimit | None
    # Called with each change of a breaker's state.
    _on_change: Callable[[Address, Change], None]
    # The gates by address. A server that has left the deployment may still have operations, which leave its own
    # gate.
    _current: dict[Address, Gate] = field(default_factory=dict)
    # The breakers that are not closed, so that selection has nothing to do while all are.
    broken: dict[Address, Breaker] = field(default_factory=dict)

    def make(self, address: Address) -> Gate | None:
        """Return the gate of a new server; None if nothing is configured. A server that returns starts afresh."""
        self.broken.pop(address, None)
        if self._breaker is None and self._limit is None:
            return None
        gate = self._current[address] = Gate(
            address,
            None if self._breaker is None else Breaker(self._breaker),
            None if self._limit is None else AdaptiveLimit(self._limit),
            self._changed,
            self._forget,
        )
        return gate

    def _forget(self, gate: Gate) -> None:
        if self._current.get(gate.address) is gate:
            del self._current[gate.address]
            self.broken.pop(gate.address, None)

    def avoided(self, now: float) -> tuple[Address, ...]:
        """The servers that operations with a choice should avoid."""
        return tuple(address for address, breaker in self.broken.items() if breaker.avoids(now))

    def _changed(self, gate: Gate, change: Change) -> None:
        if self._current.get(gate.address) is not gate:
            return
        if change.state is BreakerState.CLOSED:
            del self.broken[gate.address]
        else:
            assert gate.breaker is not None
            self.broken[gate.address] = gate.breaker
        self._on_change(gate.address, change)
