"""Pure: events of circuit breakers and their listener (motorlite's own).

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._events.base import Event, Public

if TYPE_CHECKING:
    from motorlite._base.values import Address


class CircuitBreakerEvent(Event):
    """The base class of all circuit breaker events; `address` is the address of the breaker's server."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address: Address = address


class CircuitBreakerOpenedEvent(CircuitBreakerEvent):
    """A breaker opened: the server kept failing, or a probe failed.

    Attributes:
        operations: The attempts that led to it: those of the window, or the probes.
        failures: How many of them failed.
        retry_after: Seconds until the breaker lets probes pass.
    """

    __slots__ = ("failures", "operations", "retry_after")

    def __init__(self, address: Address, operations: int, failures: int, retry_after: float) -> None:
        super().__init__(address)
        self.operations: int = operations
        self.failures: int = failures
        self.retry_after: float = retry_after


class CircuitBreakerHalfOpenedEvent(CircuitBreakerEvent):
    """A breaker became half-open, because an operation arrived after its time: that operation is the first probe."""

    __slots__ = ()


class CircuitBreakerClosedEvent(CircuitBreakerEvent):
    """A breaker closed: all probes, `operations` in number, succeeded."""

    __slots__ = ("operations",)

    def __init__(self, address: Address, operations: int) -> None:
        super().__init__(address)
        self.operations: int = operations


class CircuitBreakerListener(Public):
    """A listener for circuit breakers. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def breaker_opened(self, event: CircuitBreakerOpenedEvent) -> None:
        """Called when a breaker opened."""

    def breaker_half_opened(self, event: CircuitBreakerHalfOpenedEvent) -> None:
        """Called when a breaker became half-open."""

    def breaker_closed(self, event: CircuitBreakerClosedEvent) -> None:
        """Called when a breaker closed."""
