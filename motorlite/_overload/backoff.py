"""Pure: the backoff before a retry (client backpressure specification, rule 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from motorlite.errors import PyMongoError
    from motorlite.retry import OverloadRetry

# Seconds that an application should wait when neither the server nor its recent operations say more.
DEFAULT_RETRY_AFTER: Final = 1.0


def delay(policy: OverloadRetry, earlier_retries: int, jitter: float, error: PyMongoError) -> float:
    """Return the seconds to wait before the next retry after the overload error `error`.

    `earlier_retries` counts all retries of the operation so far, for any reason; `jitter` is in [0, 1).
    """
    base = server_base_backoff(error)
    if base is None:
        base = policy.base_backoff
    # 2 ** 1024 would overflow. The delay reaches its maximum at a far smaller exponent.
    exponent = min(earlier_retries + policy.first_exponent, 64)
    return jitter * min(policy.max_backoff, float(base * 2**exponent))


def server_base_backoff(error: PyMongoError) -> float | None:
    """Return the server's own base backoff in seconds (`baseBackoffMS` in the error), or None."""
    details: Any = getattr(error, "details", None)
    value = details.get("baseBackoffMS") if hasattr(details, "get") else None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return value / 1000
    return None
