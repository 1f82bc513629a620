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
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence


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

    what: str  # "enter", "leave" or "sample"
    part: str = ""


class Recorder:
    """The marks of one program, in order."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def sample(self) -> None:
        """Mark the beginning and end of a sample."""
        self._mark(Mark("sample"))

    def _mark(self, mark: Mark) -> None:
        self.marks.append(mark)
        _getppid()

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with a mark at its beginning and at its end; if it is a coroutine, at each step."""
        mark, enter, leave = self._mark, Mark("enter", part), Mark("leave", part)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            mark(enter)
            try:
                return function(*args, **kwargs)
            finally:
                mark(leave)

        @types.coroutine
        def coroutine_wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            coroutine = function(*args, **kwargs)
            step, value = coroutine.send, None
            while True:
                mark(enter)
                try:
                    waits_for = step(value)
                except StopIteration as stop:
                    return stop.value
                finally:
                    mark(leave)
                try:
                    value = yield waits_for
                except BaseException as error:
                    step, value = coroutine.throw, error
                else:
                    step = coroutine.send

        return coroutine_wrapper if inspect.iscoroutinefunction(function) else wrapper

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
    Target(LOOP, "motorlite._net.on_asyncio.stream:AsyncioStream.start_exchange"),
    Target(LOOP, "motorlite._net.on_trio.epoll:EpollStream._exchange"),
)


class Part(NamedTuple):
    """Instructions per operation, and the marks within them."""

    counted: float
    marks: float


def by_part(marks: Sequence[Mark], spans: Sequence[int], count: int) -> dict[str, Part]:
    """The parts of `count` operations, between the first and the last mark of a sample.

    `spans` are the instructions before each mark. Each call's marks count for its part and for its caller.
    """
    at = [number for number, mark in enumerate(marks) if mark.what == "sample"]
    counted: defaultdict[str, float] = defaultdict(float)
    number: defaultdict[str, int] = defaultdict(int)
    stack = [LOOP]
    for mark, instructions in list(zip(marks, spans, strict=True))[at[0] + 1 : at[-1] + 1]:
        counted[stack[-1]] += instructions
        if mark.what == "enter":
            number[stack[-1]] += 1
            number[mark.part] += 1
            stack.append(mark.part)
        elif mark.what == "leave":
            stack.pop()
    return {part: Part(counted[part] / count, number[part] / count) for part in ORDER if part in counted}


def without_marks(parts: Mapping[str, Part], total: float) -> dict[str, float]:
    """The parts without the marks, so that they add up to the total of a run without any: all marks cost the same."""
    marks = sum(part.marks for part in parts.values())
    cost = (sum(part.counted for part in parts.values()) - total) / marks if marks else 0.0
    return {name: part.counted - part.marks * cost for name, part in parts.items()}
