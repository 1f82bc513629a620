"""Pure: the deadline of an operation.

Times are float seconds of the event loop's clock. A deadline is passed as a required positional argument to
everything below `_api` that awaits; nothing below `_api` reads a context variable.
"""

from __future__ import annotations

from math import inf
from typing import Final


class Deadline:
    """The time limits of an operation: the driver's own and the caller's cancel scope.

    `expires_at` is the driver's own limit (client-side operations timeout, `timeoutMS` and `motorlite.timeout`). When
    it passes, the operation raises. `scope_expires_at` is the deadline of the caller's cancel scope (anyio, trio). It
    only shortens `maxTimeMS` and stops retries that would not fit; the scope itself cancels the operation.
    """

    __slots__ = ("expires_at", "is_set", "scope_expires_at", "timeout")

    def __init__(
        self,
        expires_at: float = inf,
        scope_expires_at: float = inf,
        timeout: float = inf,
        *,
        is_set: bool | None = None,
    ) -> None:
        self.expires_at: float = expires_at
        self.scope_expires_at: float = scope_expires_at
        # The duration behind `expires_at`, in seconds: cursors renew it for each iteration and for close.
        self.timeout: float = timeout
        # Whether the rules of client-side operations timeout apply. They also apply to timeoutMS=0, which is no limit.
        self.is_set: bool = expires_at != inf if is_set is None else is_set

    def earliest(self) -> float:
        """The earlier of the two limits."""
        return self.expires_at if self.expires_at < self.scope_expires_at else self.scope_expires_at

    def __repr__(self) -> str:
        return f"Deadline(expires_at={self.expires_at}, scope_expires_at={self.scope_expires_at})"


GRACE: Final = 5.0
"""Seconds that operations in flight get when a client closes."""

NO_DEADLINE: Final = Deadline()
"""Shared by all operations without a limit, so that the hot path allocates nothing."""
