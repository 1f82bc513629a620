"""Pure: the answer of calls that the client refuses to send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from motorlite.errors import AdmissionError
from motorlite.read_preferences import ServerMode

__all__ = ["CallBlock", "Fallback"]

Fallback: TypeAlias = ServerMode | Callable[[AdmissionError], Any | Awaitable[Any]]
"""A read preference to use instead, or a function of the error that returns the answer."""


class CallBlock:
    """What became of the calls in a `motorlite.call_options` block.

    Attributes:
        fallback: The fallback that the block sets, or None.
        degraded: How many calls were answered by that fallback.
    """

    __slots__ = ("_answer", "degraded", "fallback")

    def __init__(
        self, fallback: Fallback | None = None, answer: Callable[[AdmissionError], Awaitable[Any]] | None = None
    ) -> None:
        self.fallback: Fallback | None = fallback
        # Calls the fallback if it is a function.
        self._answer = answer
        self.degraded: int = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} fallback={self.fallback!r}, degraded={self.degraded}>"

    @property
    def is_degraded(self) -> bool:
        """Whether a call was answered by the fallback of this block."""
        return self.degraded > 0
