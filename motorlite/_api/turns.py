"""Shell: long computations that give the event loop its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from motorlite.errors import no_time_left

if TYPE_CHECKING:
    from motorlite._api.core import CoreLike
    from motorlite._operations.slices import Slices
    from motorlite.deadline import Deadline

T = TypeVar("T")

# For how long a call computes before other tasks get their turn, seconds. With what cannot be cut (one document, one
# message) the loop is to wait less than 50 ms for it.
TURN: Final = 0.01


class Turns:
    """The turns of one call, which takes several of them when it has much to compute; short calls take one."""

    __slots__ = ("_core", "_deadline", "_ends_at")

    def __init__(self, core: CoreLike, deadline: Deadline) -> None:
        self._core = core
        self._deadline = deadline
        self._ends_at = core.now() + TURN

    def restart(self) -> None:
        """Begin another turn: the call has waited for something."""
        self._ends_at = self._core.now() + TURN

    async def compute(self, slices: Slices[T], *, is_limited: bool = True) -> T:
        """The result of a computation; `is_limited`: not after the deadline.

        Raises:
            ExecutionTimeout: The deadline passed.
        """
        now = self._core.now
        while True:
            try:
                next(slices)
            except StopIteration as end:
                result: T = end.value
                return result
            if now() >= self._ends_at:
                await self._core.checkpoint()
                if is_limited and now() >= self._deadline.expires_at:
                    raise no_time_left()
                self._ends_at = now() + TURN
