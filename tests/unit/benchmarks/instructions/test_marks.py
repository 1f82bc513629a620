from __future__ import annotations

import asyncio
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.instructions.marks import (
    DECODE,
    LOOP,
    TARGETS,
    Mark,
    Part,
    Recorder,
    Target,
    by_part,
    find,
    without_marks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_function_is_marked_at_both_ends_and_keeps_its_result() -> None:
    recorder = Recorder()
    add = recorder.around("sum", lambda one, two=0: one + two)
    assert add(1, two=2) == 3
    assert recorder.marks == [Mark("enter", "sum"), Mark("leave", "sum")]


def test_a_function_that_raises_is_left_too() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        recorder.around("div", lambda: 1 / 0)()
    assert [mark.what for mark in recorder.marks] == ["enter", "leave"]


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
    assert [mark.what for mark in recorder.marks] == ["enter", "leave"] * 3


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
    assert [mark.part for mark in recorder.marks if mark.what == "enter"] == ["a", "a", "b"]


ENTER, LEAVE, SAMPLE = Mark("enter", DECODE), Mark("leave", DECODE), Mark("sample")


@pytest.mark.parametrize(
    ("marks", "spans", "operations", "expected"),
    [
        # Spans belong to the innermost part.
        (
            [SAMPLE, ENTER, LEAVE, ENTER, LEAVE, SAMPLE],
            [999, 10, 200, 30, 400, 50],
            2,
            {DECODE: Part(300, 1), LOOP: Part(45, 1)},
        ),
        # What lies outside of the samples does not count.
        ([ENTER, LEAVE, SAMPLE, SAMPLE, ENTER, LEAVE], [1, 2, 3, 40, 5, 6], 1, {LOOP: Part(40, 0)}),
    ],
)
def test_parts(marks: list[Mark], spans: list[int], operations: int, expected: dict[str, Part]) -> None:
    assert by_part(marks, spans, operations) == expected


def test_parts_add_up_to_the_total_whatever_the_marks_cost() -> None:
    assert without_marks({DECODE: Part(300, 3), LOOP: Part(200, 1)}, 420) == {DECODE: 240, LOOP: 180}
    assert without_marks({LOOP: Part(7, 0)}, 7) == {LOOP: 7}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.path.rpartition(":")[2])
def test_every_part_names_a_function_of_this_version(target: Target) -> None:
    assert find(target) is not None
