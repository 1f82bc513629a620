"""A strategy is asked: whatever it does, the answer is an action or a sentence about what is wrong."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import anyio
import pytest

from motorlite._retry.consultation import consult
from motorlite._retry.decision import Ask, StrategyFault
from motorlite.retry import RetryAction, RetryReason, RetryRequest, RetryStrategy

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REQUEST = RetryRequest(
    command_name="find",
    namespace="db.coll",
    idempotent=True,
    retry_attempts=0,
    retry_reasons=frozenset(),
    elapsed=0.0,
    remaining=None,
    address=None,
    server_hint=None,
    error_labels=frozenset(),
    jitter=0.5,
    context={},
)
ACTION = RetryAction.with_duration(0.25)


class Answers(RetryStrategy):
    """Calls a function for its answer."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> Any:
        assert (request, reason) == (REQUEST, RetryReason.OVERLOAD)
        return self.function()


async def asked(function: Any, limit: float = 10.0) -> RetryAction | StrategyFault:
    ask = Ask(Answers(function), REQUEST, RetryReason.OVERLOAD)
    return await consult(ask, anyio.current_time() + limit)


@dataclass(frozen=True, slots=True)
class Explained(RetryAction):
    """An application's own action."""

    why: str = ""


class Later:
    """Any awaitable."""

    def __await__(self) -> Any:
        yield from anyio.sleep(3).__await__()
        return ACTION


async def later() -> RetryAction:
    await anyio.sleep(3)
    return ACTION


@pytest.mark.parametrize(("function", "seconds"), [(lambda: ACTION, 0), (later, 3), (Later, 3)])
async def test_an_answer(function: Any, seconds: float) -> None:
    begin = anyio.current_time()
    assert await asked(function) == ACTION
    assert anyio.current_time() == begin + seconds
    # One that takes no time is never too late.
    expected = StrategyFault("did not answer in time") if seconds else ACTION
    assert await asked(function, limit=0) == expected


async def test_an_action_can_be_extended() -> None:
    action = replace(Explained.with_duration(0.25), why="the index is being built")
    assert await asked(lambda: action) == RetryAction(0.25)
    assert (type(action), action.duration, Explained.no_retry().duration) == (Explained, 0.25, None)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "returned None instead of a RetryAction"),
        (0.5, "returned 0.5 instead of a RetryAction"),
        (True, "returned True instead of a RetryAction"),
        (RetryAction, "returned <class 'motorlite.retry.strategy.RetryAction'> instead of a RetryAction"),
        ("x" * 1000, f"returned '{'x' * 199}... instead of a RetryAction"),
    ],
)
async def test_nonsense(answer: object, text: str) -> None:
    async def later() -> object:
        return answer

    assert await asked(lambda: answer) == StrategyFault(text)
    assert await asked(later) == StrategyFault(text)


@pytest.mark.parametrize("duration", [math.nan, math.inf, -1.0, "1", True])
async def test_an_action_of_ones_own_with_nonsense(duration: Any) -> None:
    class Mine(RetryAction):
        def __post_init__(self) -> None:
            """Check nothing."""

    fault = await asked(lambda: Mine(duration))
    assert isinstance(fault, StrategyFault)
    assert "duration must be a non-negative number of seconds" in fault.text


class Broken:
    def __repr__(self) -> str:
        raise ValueError("cannot be shown")


def boom() -> RetryAction:
    raise LookupError("no such tenant")


async def late_boom() -> RetryAction:
    await anyio.sleep(1)
    return boom()


async def stubborn() -> RetryAction:
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("instead of the cancellation")


@pytest.mark.parametrize(
    ("function", "text", "trace"),
    [
        (boom, "raised LookupError: no such tenant", "in boom"),
        (late_boom, "raised LookupError: no such tenant", "in boom"),
        (Broken, "raised ValueError: cannot be shown", "in __repr__"),
        # The time is over.
        (anyio.sleep_forever, "did not answer in time", ""),
        (stubborn, "raised ValueError: instead of the cancellation", "in stubborn"),
    ],
)
async def test_an_exception(function: Any, text: str, trace: str) -> None:
    begin = anyio.current_time()
    fault = await asked(function, limit=2)
    assert isinstance(fault, StrategyFault)
    assert fault.text == text
    assert trace in fault.trace
    assert anyio.current_time() - begin <= 2


async def test_the_exception_is_not_kept() -> None:
    class Mine(Exception):
        pass

    kept: list[ref[Mine]] = []

    def boom() -> RetryAction:
        error = Mine()
        kept.append(ref(error))
        try:
            raise error
        finally:
            del error

    gc.disable()
    try:
        fault = await asked(boom)
        assert isinstance(fault, StrategyFault)
        assert kept[0]() is None
    finally:
        gc.enable()


async def test_cancellation_passes_through() -> None:
    async def forever() -> RetryAction:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.move_on_after(1) as scope:
        await asked(forever)
    assert scope.cancelled_caught


async def test_the_cancellation_of_another_task_is_no_cancellation() -> None:
    kind = anyio.get_cancelled_exc_class()

    def of_another_task() -> RetryAction:
        raise kind._create() if hasattr(kind, "_create") else kind  # trio's has no public constructor

    fault = await asked(of_another_task)
    assert isinstance(fault, StrategyFault)
    assert fault.text.startswith("raised ")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_what_is_no_exception_passes_through(kind: type[BaseException]) -> None:
    def leave() -> RetryAction:
        raise kind

    with pytest.raises(kind):
        await asked(leave)
