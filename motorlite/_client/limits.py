"""Shell: the limits of a client: made from its options, published when breakers change, and shown as statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite import monitoring as events
from motorlite._admission.gate import Gates
from motorlite._admission.rate_limiter import RateLimiter
from motorlite._execution.admission import AdmissionSteps
from motorlite._net.waking import Waking
from motorlite.overload.breaker import BreakerState
from motorlite.stats import RateLimitStats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._admission.circuit_breaker import Change
    from motorlite._base.values import Address
    from motorlite._net.runtime import Runtime
    from motorlite._options.options import ClientOptions


class Limits:
    """Rate limits, breakers and concurrency limits of one client, which has at least one of them."""

    __slots__ = ("_publish", "gates", "rates")

    def __init__(self, options: ClientOptions, publish: Callable[[events.CircuitBreakerEvent], None] | None) -> None:
        self._publish = publish
        self.rates: RateLimiter = RateLimiter(options.rate_limit or {})
        self.gates: Gates = Gates(options.circuit_breaker, options.concurrency_limit, self._changed)

    def admission(self, runtime: Runtime) -> AdmissionSteps:
        """Return what the executor asks before each attempt."""
        wake = Waking(runtime).wake
        return AdmissionSteps(self.rates, self.gates, now=runtime.now, new_waiter=runtime.waiter, wake=wake)

    def _changed(self, address: Address, change: Change) -> None:
        if not self._publish:
            return
        event: events.CircuitBreakerEvent
        if change.state is BreakerState.OPEN:
            event = events.CircuitBreakerOpenedEvent(address, change.operations, change.failures, change.retry_after)
        elif change.state is BreakerState.HALF_OPEN:
            event = events.CircuitBreakerHalfOpenedEvent(address)
        else:
            event = events.CircuitBreakerClosedEvent(address, change.operations)
        self._publish(event)

    def rate_stats(self, now: float) -> Mapping[str, RateLimitStats]:
        """Return the statistics of the rate limits, by namespace."""
        return {
            name: RateLimitStats(bucket.tokens(now), queue.depth, sum(queue.rejected.values()), queue)
            for name, bucket in self.rates.buckets.items()
            for queue in (bucket.stats(),)
        }
