"""Shell: marks in a program that runs under callgrind, and wrappers that put them around functions.

A mark calls `os.getppid`, before which callgrind has been told to write down the instructions since the mark before
(`--dump-before=getppid`). Nothing else in these programs calls that function.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
        def wrapper(*args: Any, **kwargs: Any) -> Iterator[Any]:
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
