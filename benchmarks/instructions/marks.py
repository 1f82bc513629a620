"""Shell: marks in a program that runs under callgrind, the functions that they are put around, and what they add up to.

A mark calls `os.getppid`, before which callgrind has been told to write down the instructions since the mark before
(`--dump-before=getppid`). Nothing else in these programs calls that function.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import types
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence


PROBED = "probed"
REPEATS = 9

_getppid = os.getppid


class Target(NamedTuple):
    """A function whose instructions count as a part of the whole."""

    part: str
    path: str  # "module:name" or "module:Class.name"


def find(target: Target) -> tuple[Any, str] | None:
    """The module or class of a function, and its name there; None if there is no such function."""
    module_name, _, name = target.path.partition(":")
    class_name, _, attribute = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(module_name)
        if class_name:
            owner = getattr(owner, class_name)
        vars(owner)[attribute]
    except (ImportError, AttributeError, KeyError):
        return None
    return owner, attribute


class Mark(NamedTuple):
    """What the program did at a mark."""

    what: str  # "enter", "leave", "sample" or "probe"
    name: str = ""  # of the part or of the probe
    step: str = ""  # of "enter": "function", "first" or "again" (a step of a coroutine)


class Recorder:
    """The marks of one program, in order."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def sample(self) -> None:
        """Mark the beginning and end of a sample."""
        self.marks.append(Mark("sample"))
        _getppid()

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` with a mark at its beginning and at its end; if it is a coroutine, at each step."""
        wrap = self._around_coroutine if inspect.iscoroutinefunction(function) else self._around_function
        return wrap(part, function)

    def _around_function(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        add, enter, leave = self.marks.append, Mark("enter", part, "function"), Mark("leave", part)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            add(enter)
            _getppid()
            try:
                return function(*args, **kwargs)
            finally:
                add(leave)
                _getppid()

        return wrapper

    def _around_coroutine(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        add, first, again = self.marks.append, Mark("enter", part, "first"), Mark("enter", part, "again")
        leave = Mark("leave", part)

        @types.coroutine
        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            coroutine = function(*args, **kwargs)
            step, value, enter = coroutine.send, None, first
            while True:
                add(enter)
                _getppid()
                try:
                    waits_for = step(value)
                except StopIteration as stop:
                    return stop.value
                finally:
                    add(leave)
                    _getppid()
                enter = again
                try:
                    value = yield waits_for
                except BaseException as error:
                    step, value = coroutine.throw, error
                else:
                    step = coroutine.send

        return wrapper

    def install(self, targets: Iterable[Target]) -> list[str]:
        """Put marks around the functions, wherever a module of their package refers to them.

        Returns:
            The paths of functions that do not exist in this version; they count as a part of their callers.
        """
        missing = []
        for target in targets:
            place = find(target)
            if place is None:
                missing.append(target.path)
                continue
            owner, attribute = place
            function = vars(owner)[attribute]
            wrapper = self.around(target.part, function)
            setattr(owner, attribute, wrapper)
            package = target.path.partition(".")[0]
            for module in [one for key, one in sys.modules.items() if key.partition(".")[0] == package]:
                for key, value in list(vars(module).items()):
                    if value is function:
                        setattr(module, key, wrapper)
        return missing

    def probe(self) -> None:
        """Call functions that do nothing, with marks and without, to learn what the marks themselves cost."""
        wrapped_function, wrapped_once, wrapped_twice = (self.around(PROBED, one) for one in (_nothing, _once, _twice))
        probes: dict[str, Callable[[], Any]] = {
            "empty": lambda: None,
            "function": lambda: _nothing(1, 2, 3),
            "function, marked": lambda: wrapped_function(1, 2, 3),
            "first": lambda: _drive(_once(1, 2, 3)),
            "first, marked": lambda: _drive(wrapped_once(1, 2, 3)),
            "again": lambda: _drive(_twice(1, 2, 3)),
            "again, marked": lambda: _drive(wrapped_twice(1, 2, 3)),
        }
        for name, call in probes.items():
            for _ in range(REPEATS):
                self.marks.append(Mark("probe", name))
                _getppid()
                call()
        self.marks.append(Mark("probe"))
        _getppid()


def _nothing(_one: int, _two: int, _three: int) -> None:
    return None


async def _once(_one: int, _two: int, _three: int) -> None:
    return None


@types.coroutine
def _pause() -> Iterator[None]:
    yield


async def _twice(_one: int, _two: int, _three: int) -> None:
    await _pause()


def _drive(coroutine: Any) -> None:
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        return


# --- parts ---


METHOD, EXECUTE, POOL, SEND, BUILD, ENCODE, ROUND_TRIP, DECODE, LOOP = (
    "method: arguments, operation, call",
    "execute: run, attempt, parse",
    "selection and check-out",
    "send: limits, events, cluster time",
    "build: command and session",
    "encode",
    "round_trip: parse and check the reply",
    "decode",
    "loop, future and framing",
)
ORDER = (METHOD, EXECUTE, POOL, SEND, BUILD, ENCODE, ROUND_TRIP, DECODE, LOOP)

_READS = "motorlite._api.collection.reads:AsyncCollection."
_WRITES = "motorlite._api.collection.writes:AsyncCollection."
# What is outside of all of these is the loop's.
TARGETS = (
    *(Target(METHOD, _READS + name) for name in ("find_one", "find")),
    *(Target(METHOD, _WRITES + name) for name in ("insert_one", "update_one", "replace_one")),
    Target(METHOD, "motorlite._api.collection.bulk:AsyncCollection.insert_many"),
    Target(METHOD, "motorlite._api.cursors.base:CursorBase.to_list"),
    Target(EXECUTE, "motorlite._execution.executor:Executor.execute"),
    Target(EXECUTE, "motorlite._execution.executor:Executor.open"),
    Target(POOL, "motorlite._topology.topology:Topology.select_now"),
    Target(POOL, "motorlite._pool.pool:Pool.check_out_now"),
    Target(POOL, "motorlite._pool.pool:Pool.check_in"),
    Target(SEND, "motorlite._execution.sender:Sender.send"),
    Target(BUILD, "motorlite._execution.building:CommandBuilder.build"),
    Target(ENCODE, "motorlite._connection.messages:encode_command"),
    Target(ENCODE, "motorlite._connection.messages:encoded_fields"),
    Target(ENCODE, "motorlite._connection.messages:encode_parts"),
    Target(ROUND_TRIP, "motorlite._connection.connection:Connection.round_trip"),
    Target(DECODE, "motorlite._connection.connection:decode_reply"),
    Target(LOOP, "motorlite._net.on_asyncio.stream:AsyncioStream.exchange"),
    Target(LOOP, "motorlite._net.on_trio.stream:TrioStream._exchange"),
)


class Overhead(NamedTuple):
    """Instructions that the marks around one step of a function add to its own spans and to those of its caller."""

    inner: float
    outer: float


def overheads(marks: Sequence[Mark], spans: Sequence[int]) -> dict[str, Overhead]:
    """The cost of the marks for each kind of step, from `Recorder.probe`. `spans` are those before each mark."""
    inner: defaultdict[str, list[int]] = defaultdict(list)
    outer: defaultdict[str, list[int]] = defaultdict(list)
    probe, within, inside, outside = "", False, 0, 0
    for mark, instructions in zip(marks, spans, strict=True):
        if within:
            inside += instructions
        else:
            outside += instructions
        within = mark.what == "enter" and mark.name == PROBED
        if mark.what == "probe":
            if probe:
                inner[probe].append(inside)
                outer[probe].append(outside)
            probe, inside, outside = mark.name, 0, 0
    found = {}
    for step in ("function", "first", "again"):
        real = median(outer[step]) - median(outer["empty"])
        marked = f"{step}, marked"
        found[step] = Overhead(median(inner[marked]) - real, median(outer[marked]) - median(outer["empty"]))
    first, both = found["first"], found["again"]  # the probe of "again" begins with a first step
    found["again"] = Overhead(both.inner - first.inner, both.outer - first.outer)
    return found


class Part(NamedTuple):
    """Instructions per operation."""

    counted: float
    marks: float  # of those, what the marks cost


def by_part(marks: Sequence[Mark], spans: Sequence[int], cost: Mapping[str, Overhead], count: int) -> dict[str, Part]:
    """Instructions per operation by part, between the first and the last mark of a sample.

    Args:
        marks: All marks.
        spans: The instructions before each of them.
        cost: What the marks themselves cost.
        count: The number of operations.
    """
    at = [number for number, mark in enumerate(marks) if mark.what == "sample"]
    counted: defaultdict[str, float] = defaultdict(float)
    overhead: defaultdict[str, float] = defaultdict(float)
    stack = [LOOP]
    for mark, instructions in list(zip(marks, spans, strict=True))[at[0] + 1 : at[-1] + 1]:
        counted[stack[-1]] += instructions
        if mark.what == "enter":
            overhead[stack[-1]] += cost[mark.step].outer
            overhead[mark.name] += cost[mark.step].inner
            stack.append(mark.name)
        elif mark.what == "leave":
            stack.pop()
    return {part: Part(counted[part] / count, overhead[part] / count) for part in ORDER if part in counted}


def without_marks(parts: Mapping[str, Part], total: float) -> dict[str, float]:
    """The parts without the marks, so that they add up to the total of a run without any.

    Among other code the marks cost more than in the probes (about 1.3 times), by the same factor wherever they are.
    """
    overhead = sum(part.marks for part in parts.values())
    factor = (sum(part.counted for part in parts.values()) - total) / overhead if overhead else 0.0
    return {name: part.counted - part.marks * factor for name, part in parts.items()}
