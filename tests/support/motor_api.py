"""Compares Motor's classes with motorlite's: methods, parameters of Motor's own, and what is awaited.

`tests/motor_api.toml` has a row for each difference. Motor's methods are made from PyMongo's synchronous ones, so the
parameters that both have are compared in `public_api` already.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import motor
from motor import motor_asyncio

from tests.support.public_api import Difference, Reason, attributes_set, compared, is_awaitable, reasons
from tests.support.syntax import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TABLE: Final = Path(__file__).parents[1] / "motor_api.toml"
# Special methods that a program uses through syntax, and that say something else than that a class has them.
_SPECIAL: Final = ("__aenter__", "__aiter__", "__anext__", "__enter__", "__getitem__")


@dataclass(frozen=True)
class Table:
    """The table of `motor_api.toml`."""

    # The classes, without a prefix, and their paths here.
    classes: Mapping[str, str]
    # Motor's modules, and the prefix of the classes in them.
    modules: Mapping[str, str]
    # What motorlite does not have, by its path, and the reason.
    missing: Mapping[str, str]
    # What differs, and what to write.
    different: tuple[Reason, ...]
    # What no comparison shows, and what to write.
    behaviour: Mapping[str, str]
    # Arguments that have another name.
    renamed_arguments: Mapping[str, Mapping[str, str]]

    def unexplained(self, differences: Iterable[Difference]) -> list[str]:
        """Return the differences without a row."""
        return [str(each) for each in differences if not any(row.explains(each) for row in self.different)]

    def superfluous(self, differences: Iterable[Difference]) -> list[str]:
        """Return the rows that explain nothing."""
        found = list(differences)
        return [row.pattern for row in self.different if not any(map(row.explains, found))]


def read_table() -> Table:
    """Return the table."""
    content = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    missing = {name: reason for reason, names in content["missing"].items() for name in names}
    return Table(
        content["classes"],
        content["modules"],
        missing,
        reasons(content["different"]),
        content["behaviour"],
        content["renamed_arguments"],
    )


def motors_classes(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the paths of Motor's classes, and their names without a prefix."""
    for name, prefix in table.modules.items():
        there = names_in(name)
        yield from ((f"{name}.{prefix}{kind}", kind) for kind in table.classes if f"{prefix}{kind}" in there)


def names_in(module: str) -> set[str]:
    """Return the names that a module of Motor's has; it is not imported, since one half of them needs Tornado."""
    file = Path(motor.__path__[0], *module.split(".")[1:])
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    found: set[str] = set()
    for node in nodes(file.read_text(encoding="utf-8")):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= names_in(f"{module}.{node.module}")
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return found


def public_paths() -> Iterator[str]:
    """Yield the paths of everything that Motor's modules for asyncio and Tornado export."""
    for name in ("motor", "motor.core", "motor.motor_asyncio", "motor.motor_gridfs", "motor.motor_tornado"):
        prefixes = ("AsyncIOMotor", "Motor") if name != "motor.core" else ("Agnostic",)
        yield from (f"{name}.{each}" for each in names_in(name) if each.startswith(prefixes))


def differences(table: Table) -> list[Difference]:
    """Return all differences; classes without their prefix."""
    found = chain.from_iterable(
        _of_class(kind, getattr(motor_asyncio, f"AsyncIOMotor{kind}"), _ours(path))
        for kind, path in table.classes.items()
        if hasattr(motor_asyncio, f"AsyncIOMotor{kind}")
    )
    return list(dict.fromkeys(found))


def _ours(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _of_class(where: str, theirs: type, ours: type) -> Iterator[Difference]:
    for name in dir(theirs):
        if name[0] == "_" and name not in _SPECIAL:
            continue
        if not hasattr(ours, name) and name not in attributes_set(ours):
            yield Difference(f"{where}.{name}", "is missing")
        elif name[0] != "_" and hasattr(ours, name):
            yield from _of_member(f"{where}.{name}", _method(theirs, name), inspect.getattr_static(ours, name))
    if "__init__" in vars(_defined(theirs)):
        yield from compared(where, theirs.__init__, ours.__init__)  # type: ignore[misc]  # only compared


def _defined(kind: type) -> type:
    """Motor's classes for a framework are made from those of `motor.core`."""
    return kind.__mro__[1]


def _method(kind: Any, name: str) -> Any:
    """A member of a Motor class; a property that returns a method of PyMongo's is that method."""
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        behind = inspect.getattr_static(kind.__delegate_class__, name, None)
        return behind if inspect.isfunction(behind) else member
    return member


def _of_member(where: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    is_theirs_awaited = is_awaited(theirs)
    if is_awaited(ours) and not is_theirs_awaited:
        yield Difference(where, "is awaited")
    elif is_theirs_awaited and not is_awaited(ours) and not _may_be_awaited(ours):
        yield Difference(where, "is not awaited")
    is_of_motor = (
        inspect.isfunction(theirs) and theirs.__module__.startswith("motor.") and inspect.unwrap(theirs) is theirs
    )
    if is_of_motor and inspect.isfunction(ours):
        own = [each.kind for each in inspect.signature(theirs).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in own:
            yield from (each for each in compared(where, theirs, ours) if "awaited" not in each.what)


def is_awaited(member: Any) -> bool:
    """Whether a method, or a property, returns something that must be awaited."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if getattr(member, "is_async_method", False) or getattr(member, "coroutine_annotation", False):
        return True
    if not inspect.isfunction(member):
        return False
    if inspect.iscoroutinefunction(member):
        return True
    returned = str(inspect.signature(member).return_annotation)
    return returned.startswith(("Coroutine[", "Awaitable[", "Future"))


def _may_be_awaited(ours: Any) -> bool:
    async def awaited() -> None: ...

    return is_awaitable(awaited, ours) or "AsyncClientSession" in str(inspect.signature(ours).return_annotation)
