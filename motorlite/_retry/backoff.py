"""Pure: the backoff before retries that the driver decides itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from motorlite.errors import PyMongoError


CONTROLLED_BACKOFF: Final = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0)
"""Seconds before each retry for a reason with `always_retry`, and before each ordinary retry but the first."""
# Seconds that an application should wait when neither the server nor its recent operations say more.
DEFAULT_RETRY_AFTER: Final = 1.0


def server_base_backoff(error: PyMongoError) -> float | None:
    """Return the server's own base backoff in seconds (`baseBackoffMS` in the error), or None."""
    details: Any = getattr(error, "details", None)
    value = details.get("baseBackoffMS") if hasattr(details, "get") else None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < inf:
        return value / 1000
    return None
