from __future__ import annotations

import asyncio
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.instructions.marks import (
    DECODE,
    LOOP,
    PROBED,
    REPEATS,
    TARGETS,
    Mark,
    Overhead,
    Part,
    Recorder,
    Target,
    by_part,
    find,
    overheads,
    without_marks,
)

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


ENTER, AGAIN, LEAVE = Mark("enter", DECODE, "function"), Mark("enter", DECODE, "again"), Mark("leave", DECODE)
SAMPLE = Mark("sample")
FREE = {"function": Overhead(0, 0), "again": Overhead(0, 0)}


def test_spans_belong_to_the_innermost_part() -> None:
    marks = [SAMPLE, ENTER, LEAVE, ENTER, LEAVE, SAMPLE]
    found = by_part(marks, [999, 10, 200, 30, 400, 50], FREE, 2)
    assert found == {DECODE: Part(300, 0), LOOP: Part(45, 0)}


def test_what_lies_outside_of_the_samples_does_not_count() -> None:
    marks = [ENTER, LEAVE, SAMPLE, SAMPLE, ENTER, LEAVE]
    assert by_part(marks, [1, 2, 3, 40, 5, 6], FREE, 1) == {LOOP: Part(40, 0)}


def test_marks_are_subtracted_from_the_part_and_from_its_caller() -> None:
    marks = [SAMPLE, ENTER, LEAVE, AGAIN, LEAVE, SAMPLE]
    cost = {"function": Overhead(5, 3), "again": Overhead(20, 10)}
    found = by_part(marks, [0, 100, 100, 100, 100, 100], cost, 1)
    assert found == {DECODE: Part(200, 25), LOOP: Part(300, 13)}
    assert without_marks(found, 500 - 38) == {DECODE: 175, LOOP: 287}


def test_parts_add_up_to_the_total_whatever_the_marks_cost() -> None:
    found = without_marks({DECODE: Part(300, 30), LOOP: Part(200, 10)}, 420)
    assert found == {DECODE: 240, LOOP: 180}


def test_parts_without_marks_stay_as_they_are() -> None:
    assert without_marks({LOOP: Part(7, 0)}, 7) == {LOOP: 7}


def probe(name: str, *inner: int, outer: int) -> list[tuple[Mark, int]]:
    """A probe whose marked function has so many steps, and after which `outer` is counted at once."""
    steps = [
        (mark, count)
        for instructions in inner
        for mark, count in ((Mark("enter", PROBED, "first"), 0), (Mark("leave", PROBED), instructions))
    ]
    return [*steps, (Mark("probe", name), outer)]


def test_the_cost_of_marks_is_what_they_add_to_a_function_that_does_nothing() -> None:
    # The mark after a probe carries the name of the next one.
    rows = [
        *probe("empty", outer=0),
        *probe("function", outer=100),
        *probe("function, marked", outer=150),
        *probe("first", 80, outer=120),
        *probe("first, marked", outer=170),
        *probe("again", 100, outer=140),
        *probe("again, marked", outer=200),
        *probe("", 110, 110, outer=190),
    ]
    found = overheads([mark for mark, _ in rows], [count for _, count in rows])
    # A call takes 50, with marks 80 inside and 20 outside; a coroutine 70, 100 and 40; with two steps 100, 220, 90.
    assert found["function"] == Overhead(80 - 50, 20)
    assert found["first"] == Overhead(100 - 70, 40)
    assert found["again"] == Overhead((220 - 100) - 30, 90 - 40)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.path.rpartition(":")[2])
def test_every_part_names_a_function_of_this_version(target: Target) -> None:
    assert find(target) is not None
