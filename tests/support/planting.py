"""Plants bugs in the driver, so that tests can show that they would find them.

A bug is a function or method of the driver with a small change of its source, compiled and put in its place.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any
from unittest import mock

import motorlite

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug to plant.

    Attributes:
        name: What it is known by.
        breaks: What is wrong with it, in one line.
        where: The function, as "module:qualified.name".
        change: What is replaced in its source, and by what. It must occur exactly once.
        found_by: What reports it: invariants of the simulation, or state machines; empty: only the account can.
    """

    name: str
    breaks: str
    where: str
    change: tuple[str, str]
    found_by: tuple[str, ...] = ()


@contextmanager
def plant(bug: Bug) -> Iterator[None]:
    """Plant a bug for this block.

    Raises:
        ValueError: The source of the driver has changed, so the bug does not fit any more.
    """
    for found in walk_packages(motorlite.__path__, "motorlite."):
        if found.name.startswith("motorlite._"):
            import_module(found.name)  # one that is imported later would keep the bug
    module_name, _, path = bug.where.partition(":")
    owner: Any = import_module(f"motorlite.{module_name}")
    *outer, last = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = inspect.getattr_static(owner, last)
    broken = _broken(bug, original)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(owner, last, broken))
        for module in _importers(last, original) if not outer else ():
            if module is not owner:
                stack.enter_context(mock.patch.object(module, last, broken))
        _forget_commands()
        try:
            yield
        finally:
            _forget_commands()


def _forget_commands() -> None:
    """Empty the caches of encoded commands, which would outlive a bug or hide it."""
    for module in [module for key, module in list(sys.modules.items()) if key.startswith("motorlite._operations.")]:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _broken(bug: Bug, original: Any) -> Any:
    """Return what replaces `original`: the same with the change of `bug`."""
    if isinstance(original, property):
        return original.getter(_changed(bug, original.fget).fget)
    return _changed(bug, original.__func__ if isinstance(original, classmethod | staticmethod) else original)


def _changed(bug: Bug, original: Any) -> Any:
    """Return the function of the driver with the change of `bug`, and with its decorators."""
    function = inspect.unwrap(original)
    source = textwrap.dedent(inspect.getsource(function))
    before, after = bug.change
    if source.count(before) != 1:
        raise ValueError(
            f"the bug {bug.name!r} does not fit {bug.where}: {before!r} occurs {source.count(before)} times"
        )
    # `super()` without arguments finds the class in the function around it.
    source = textwrap.indent(source.replace(before, after), "    ")
    whole = f"from __future__ import annotations\ndef make(__class__):\n{source}    return {function.__name__}\n"
    made: dict[str, Any] = {}
    exec(compile(whole, f"<{bug.name}>", "exec"), function.__globals__, made)
    cells = inspect.getclosurevars(function).nonlocals
    if not cells.keys() <= {"__class__"}:
        raise ValueError(f"the bug {bug.name!r} is in a function with other variables of its surroundings: {cells}")
    return made["make"](cells.get("__class__"))


def _importers(name: str, original: Any) -> list[Any]:
    """Return the modules, those of tests included, that have imported a function by its name."""
    return [module for module in list(sys.modules.values()) if getattr(module, "__dict__", {}).get(name) is original]
