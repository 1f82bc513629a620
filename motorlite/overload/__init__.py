"""Pure: how a client protects itself and its servers: the configuration of breakers and limits.

Everything is off unless the client has the option. docs/limits.md explains when to use which.
"""

from __future__ import annotations

from motorlite.overload.breaker import BreakerState, CircuitBreaker
from motorlite.overload.concurrency import ConcurrencyLimit
from motorlite.overload.rate_limit import RateLimit

__all__ = ["BreakerState", "CircuitBreaker", "ConcurrencyLimit", "RateLimit"]
