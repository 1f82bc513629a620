"""Shell: virtual time on asyncio, and real clients in it: nothing waits, and connections are streams in memory."""

from __future__ import annotations

import asyncio
import logging
import selectors
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from motorlite import AsyncMongoClient
from motorlite._client.core import Core
from motorlite._options.options import client_options

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from motorlite._client.dependencies import Dependencies
    from motorlite._options.keywords import ClientKeywords

T = TypeVar("T")
# Not zero, to expose code that mistakes a deadline or a time of 0.0 for "none".
START: Final = 1000.0
# Ends a program whose background work keeps it waiting forever.
LIMIT: Final = START + 86_400.0


class DeadlockError(RuntimeError):
    """All tasks wait, and nothing scheduled could wake one (or a whole virtual day has passed)."""

    def __init__(self) -> None:
        super().__init__("deadlock: every task waits for something that will not happen")


class _JumpSelector(selectors.DefaultSelector):
    """Advances the loop's clock instead of sleeping when nothing is ready."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None or self.loop.time() > LIMIT:
            raise DeadlockError
        self.loop.advance(timeout)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while every task waits."""

    def __init__(self) -> None:
        self._now = START
        selector = _JumpSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the clock, exactly to the next timer: a sum of floats may miss it by a rounding error."""
        target = self._now + seconds
        timers: list[asyncio.TimerHandle] = getattr(self, "_scheduled")  # noqa: B009  # not in the stubs
        if timers and abs(timers[0].when() - target) < 1e-6:
            target = timers[0].when()
        self._now = target


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program in virtual time, without the driver's warnings: its servers are overloaded on purpose."""
    with _quiet(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


@contextmanager
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("motorlite")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def client(uri: str, world: Dependencies, **options: Unpack[ClientKeywords]) -> AsyncMongoClient[dict[str, Any]]:
    """A client with other connections, and other randomness, than those of this machine."""
    chosen = client_options(uri, **options)
    made: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient.__new__(AsyncMongoClient)
    super(AsyncMongoClient, made).__init__(Core(chosen, world), chosen)
    return made
