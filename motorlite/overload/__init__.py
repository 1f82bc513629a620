"""Pure: how a client protects itself and its servers: wait queue, breakers and limits, and fallbacks.

Everything is off unless the client has the option. docs/overload.md and docs/limits.md explain when to use which.
"""

from __future__ import annotations

from motorlite.overload.breaker import BreakerState, CircuitBreaker
from motorlite.overload.concurrency import ConcurrencyLimit
from motorlite.overload.fallback import CallBlock, Fallback
from motorlite.overload.rate_limit import RateLimit
from motorlite.overload.wait_queue import WaitQueue

__all__ = ["BreakerState", "CallBlock", "CircuitBreaker", "ConcurrencyLimit", "Fallback", "RateLimit", "WaitQueue"]
