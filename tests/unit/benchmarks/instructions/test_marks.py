from __future__ import annotations

import asyncio
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.instructions.marks import REPEATS, Mark, Recorder, Target

if TYPE_CHECKING:
    from collections.abc import Iterator


def steps(recorder: Recorder) -> list[str]:
    return [mark.step or mark.what for mark in recorder.marks]


def test_a_function_is_marked_at_both_ends_and_keeps_its_result() -> None:
    recorder = Recorder()
    add = recorder.around("sum", lambda one, two=0: one + two)
    assert add(1, two=2) == 3
    assert recorder.marks == [Mark("enter", "sum", "function"), Mark("leave", "sum")]


def test_a_function_that_raises_is_left_too() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        recorder.around("div", lambda: 1 / 0)()
    assert steps(recorder) == ["function", "leave"]


def test_a_coroutine_is_marked_at_every_step() -> None:
    recorder = Recorder()

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return number

    marked = recorder.around("work", work)

    async def main() -> None:
        assert await marked(5) == 5

    asyncio.run(main())
    assert steps(recorder) == ["first", "leave", "again", "leave", "again", "leave"]


def test_a_cancellation_reaches_the_coroutine() -> None:
    recorder = Recorder()
    seen: list[BaseException] = []

    async def work() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError as error:
            seen.append(error)
        return "done"

    marked = recorder.around("work", work)

    async def main() -> None:
        async def call() -> Any:
            return await marked()

        task = asyncio.create_task(call())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "done"

    asyncio.run(main())
    assert len(seen) == 1


@pytest.fixture
def package() -> Iterator[tuple[types.ModuleType, types.ModuleType]]:
    one, other = types.ModuleType("subject.one"), types.ModuleType("subject.other")

    def work() -> int:
        return 7

    one.work = other.alias = work  # type: ignore[attr-defined]
    one.Thing = type("Thing", (), {"work": lambda self: 8})  # type: ignore[attr-defined]
    sys.modules.update({"subject": types.ModuleType("subject"), "subject.one": one, "subject.other": other})
    yield one, other
    for name in ("subject", "subject.one", "subject.other"):
        del sys.modules[name]


def test_functions_are_marked_wherever_their_package_refers_to_them(
    package: tuple[types.ModuleType, types.ModuleType],
) -> None:
    one, other = package
    recorder = Recorder()
    targets = [Target("a", "subject.one:work"), Target("b", "subject.one:Thing.work"), Target("c", "subject.one:gone")]
    assert recorder.install([*targets, Target("d", "subject.nowhere:work")]) == [
        "subject.one:gone",
        "subject.nowhere:work",
    ]
    assert (one.work(), other.alias(), one.Thing().work()) == (7, 7, 8)
    assert [mark.name for mark in recorder.marks if mark.what == "enter"] == ["a", "a", "b"]


def test_probes_call_each_kind_of_step_marked_and_not() -> None:
    recorder = Recorder()
    recorder.probe()
    names = [mark.name for mark in recorder.marks if mark.what == "probe"]
    assert len(names) == 7 * REPEATS + 1
    assert steps(recorder).count("first") == 2 * REPEATS  # once for each of the two coroutines
    assert steps(recorder).count("again") == REPEATS
