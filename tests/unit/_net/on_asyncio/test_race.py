"""Several attempts, each begun a moment after the one before: who wins, who is closed; in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._net.on_asyncio.runtime import first_of
from tests.support.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Attempts:
    """What was begun when, and what was closed."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.begin = self.loop.time()
        self.begun: list[float] = []
        self.made: list[str] = []
        self.closed: list[str] = []
        self.running = 0

    @property
    def now(self) -> float:
        return round(self.loop.time() - self.begin, 6)

    async def attempt(self, seconds: float, result: str | BaseException) -> str:
        self.begun.append(self.now)
        self.running += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.running -= 1
        if isinstance(result, BaseException):
            raise result
        self.made.append(result)
        return result

    async def race(self, *attempts: tuple[float, str | BaseException]) -> str:
        try:
            return await first_of([partial(self.attempt, *each) for each in attempts], self.closed.append)
        finally:
            assert self.running == 0, "all have ended"


def run(main: Callable[[Attempts], Awaitable[None]]) -> None:
    async def outer() -> None:
        await main(Attempts())

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(outer())


def test_the_second_begins_a_moment_later_and_the_first_is_cancelled() -> None:
    async def main(attempts: Attempts) -> None:
        assert await attempts.race((100, "a"), (0.1, "b"), (0, "c")) == "b"
        assert (attempts.now, attempts.begun, attempts.closed) == (0.35, [0, 0.25], [])

    run(main)


def test_the_first_may_still_win() -> None:
    async def main(attempts: Attempts) -> None:
        assert await attempts.race((0.3, "a"), (1, "b")) == "a"
        assert (attempts.now, attempts.begun) == (0.3, [0, 0.25])

    run(main)


def test_after_a_failure_the_next_begins_at_once() -> None:
    async def main(attempts: Attempts) -> None:
        assert await attempts.race((0.1, OSError()), (0, TimeoutError()), (0.05, "c")) == "c"
        assert (attempts.now, attempts.begun) == (0.15, [0, 0.1, 0.1])

    run(main)


def test_the_first_failure_is_told() -> None:
    async def main(attempts: Attempts) -> None:
        with pytest.raises(OSError, match="first"):
            await attempts.race((0.3, OSError("second")), (0, OSError("first")), (1, OSError("third")))
        assert attempts.now == 1.25

    run(main)


def test_a_bug_is_raised_at_once() -> None:
    async def main(attempts: Attempts) -> None:
        with pytest.raises(ZeroDivisionError):
            await attempts.race((100, "a"), (0, ZeroDivisionError()), (0, "c"))
        assert attempts.begun == [0, 0.25]

    run(main)


def test_of_two_that_are_done_at_once_one_is_closed() -> None:
    async def main(attempts: Attempts) -> None:
        winner = await attempts.race((0.5, "a"), (0.25, "b"))
        await asyncio.sleep(0)
        assert sorted([winner, *attempts.closed]) == sorted(attempts.made)

    run(main)


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("times", [1, 2])
def test_cancelled_at_any_moment_everything_is_closed(turns: int, times: int) -> None:
    async def main(attempts: Attempts) -> None:
        async def stubborn(seconds: float, result: str) -> str:
            """Done, although it was cancelled."""
            try:
                return await attempts.attempt(seconds, result)
            except asyncio.CancelledError:
                attempts.made.append(result)
                return result

        makers: list[Any] = [partial(stubborn, 0.5, "a"), partial(attempts.attempt, 0.25, "b")]
        task = asyncio.ensure_future(first_of(makers, attempts.closed.append))
        await asyncio.sleep(0.5 if turns else 0.4)
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        await asyncio.sleep(1)
        kept = [] if task.cancelled() else [task.result()]
        assert sorted(kept + attempts.closed) == sorted(attempts.made)
        assert attempts.made

    run(main)


def test_an_interrupt_of_an_attempt_leaves_the_loop_once() -> None:
    """The attempt's task raises it. From the task that waits, it would end what the program runs to clean up."""
    races: list[asyncio.Task[str]] = []

    async def main() -> None:
        races.append(asyncio.create_task(Attempts().race((0.1, KeyboardInterrupt()))))
        await asyncio.sleep(60)

    async def clean_up() -> None:
        with pytest.raises(InterruptedError):
            await races[0]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        with pytest.raises(KeyboardInterrupt):
            runner.run(main())
        runner.run(clean_up())
