"""Shell: lets other tasks run during long computations, and before a refused call raises."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeVar

from motorlite.errors import no_time_left

if TYPE_CHECKING:
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._operations.slices import Slices
    from motorlite.errors import PyMongoError

T = TypeVar("T")

# Seconds that a call computes before it yields to other tasks. Including work that cannot be split (one document, one
# message), the loop should wait less than 50 ms.
TURN: Final = 0.01
# Where other tasks hold the loop for long, short turns help none of them, and a call waits for all of them after each
# turn. Eight tasks that each parse a file and insert it would all parse before the first one sends anything. So a turn
# may take a share of the time that the others took when a call yielded, seconds at most; known for so many seconds.
_SHARE: Final = 0.5
_LONGEST: Final = 0.1
_KNOWN_FOR: Final = 5.0
# Seconds of a turn while a call waits for the server. Each turn also delays the call's own message and reply.
_MEANWHILE: Final = 0.002

# The error of a call that is refused now, until `refused` raises it.
_refusal: ContextVar[PyMongoError | None] = ContextVar("motorlite.refusal", default=None)


async def give_way() -> None:
    """Let other tasks run, which a caller that tries again in a loop would otherwise stop.

    The event loop may not be the client's, and the client may have none yet.
    """
    from anyio.lowlevel import checkpoint

    # Without a running event loop (a coroutine that is driven by hand, or a loop from before a fork), no task waits.
    with suppress(RuntimeError):
        await checkpoint()


def refuse(error: PyMongoError) -> None:
    """Keep the error of a call that cannot begin, for `refused`."""
    _refusal.set(error)


async def refused() -> NoReturn:
    """Let other tasks run, then raise the error of `refuse`.

    Raises:
        PyMongoError: The error.
    """
    error = _refusal.get()
    _refusal.set(None)
    assert error is not None
    try:
        await give_way()
        raise error
    finally:
        del error  # its traceback references this frame


class Turns:
    """The turns of one call. A long computation takes several turns, a short one takes one."""

    __slots__ = ("_core", "_deadline", "_ends_at")

    def __init__(self, core: Core, deadline: Deadline) -> None:
        self._core = core
        self._deadline = deadline
        self.restart()

    def restart(self) -> None:
        """Start a new turn, after the call has waited for something."""
        now, (length, known_until) = self._core.now(), self._core.turn
        self._ends_at = now + (length if now < known_until else TURN)

    async def compute(self, slices: Slices[T], *, is_limited: bool = True) -> T:
        """Run a computation and return its result. `is_limited`: stop at the deadline.

        Raises:
            ExecutionTimeout: The deadline passed.
        """
        while True:
            try:
                next(slices)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.take(is_limited=is_limited)

    async def take(self, *, is_limited: bool = True) -> None:
        """Continue the turn, or begin another one if it is over. `is_limited`: stop at the deadline.

        Raises:
            ExecutionTimeout: The deadline passed.
        """
        core = self._core
        ended = core.now()
        if ended >= self._ends_at:
            await core.checkpoint()
            now = core.now()
            if is_limited and now >= self._deadline.expires_at:
                raise no_time_left(self._deadline.timeout)
            length = max(TURN, min((now - ended) * _SHARE, _LONGEST))
            core.turn = length, now + _KNOWN_FOR
            self._ends_at = now + length


class Meanwhile:
    """A context manager: while its block waits for something, a computation goes on in turns, as far as it gets.

    It begins with a call of `begin`.
    """

    __slots__ = ("_context", "_core", "_slices")

    def __init__(self, core: Core, slices: Slices[None]) -> None:
        self._core = core
        self._slices: Slices[None] | None = slices
        # User types may be encoded, and their encoders may read context variables.
        self._context = copy_context()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._slices = None

    def begin(self) -> None:
        """Take the first turn soon."""
        self._core.run_soon(self._take_turn)

    def _take_turn(self) -> None:
        if self._slices is not None and self._context.run(self._compute, self._slices):
            self._core.run_soon(self._take_turn)

    def _compute(self, slices: Slices[None]) -> bool:
        """Run slices for one turn. Return whether some are left."""
        ends_at = self._core.now() + _MEANWHILE
        return any(self._core.now() >= ends_at for _ in slices)
