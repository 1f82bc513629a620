"""Compares the public API with PyMongo's: modules, names, classes, methods, parameters, client options.

What differs is a `Difference`: where, by PyMongo's name, and in which way. `tests/public_api.toml` has the reasons.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import pkgutil
import tomllib
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, is_typeddict

import gridfs
import pymongo
from pymongo.asynchronous.collection import AsyncCollection as TheirCollection
from pymongo.asynchronous.cursor import AsyncCursor as TheirCursor
from pymongo.common import VALIDATORS

from motorlite._options.table import ALIASES, BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

TABLE: Final = Path(__file__).parents[1] / "public_api.toml"
# Special methods that a program uses through syntax.
_SPECIAL: Final = (
    *("__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__", "__bool__", "__call__", "__copy__"),
    *("__deepcopy__", "__getattr__", "__getitem__", "__iter__", "__len__", "__contains__"),
)
# Methods that pass all their arguments on to a constructor.
_FORWARDS: Final[Mapping[object, Callable[..., Any]]] = {
    TheirCollection.find: TheirCursor.__init__,
    TheirCollection.find_one: TheirCursor.__init__,
    TheirCollection.find_raw_batches: TheirCursor.__init__,
}
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (*_POSITIONAL, Parameter.KEYWORD_ONLY)
# The default of what is left out of keyword arguments written as a TypedDict.
_UNSET: Final = object()


@dataclass(frozen=True)
class Difference:
    """One difference. `where` is ``module.name``, ``Class.member``, ``Class.method(parameter)`` or ``option name``."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Reason:
    """A row of the table: the differences that it explains, as a pattern of their `where`."""

    pattern: str
    text: str

    def explains(self, difference: Difference) -> bool:
        """Whether the row is about `difference`, or about what the name is a part of."""
        return fnmatchcase(difference.where, self.pattern)


class Table:
    """The table of `public_api.toml`."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        # PyMongo's public modules, and where their names are here.
        self.modules: Mapping[str, str] = content["modules"]
        # PyMongo's modules that are not compared.
        self.not_compared: frozenset[str] = frozenset(chain.from_iterable(content["not_compared"].values()))
        # The same, and the reason for each.
        self.not_compared_reasons: Mapping[str, str] = {
            module: reason for reason, modules in content["not_compared"].items() for module in modules
        }
        self.different: tuple[Reason, ...] = reasons(content["different"])
        # What no comparison of names shows: PyMongo's behaviour and motorlite's.
        self.behaviour: Mapping[str, tuple[str, str]] = {
            name: (row[0], row[1]) for name, row in content.get("behaviour", {}).items()
        }
        # What is being built.
        self.not_yet: tuple[Reason, ...] = reasons(content["not_yet"])

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """All rows."""
        return self.different + self.not_yet

    def unexplained(self, differences: Iterable[Difference]) -> list[str]:
        """Return the differences without a row."""
        return [str(each) for each in differences if not any(row.explains(each) for row in self.reasons)]

    def superfluous(self, differences: Iterable[Difference]) -> list[str]:
        """Return the rows that explain nothing."""
        found = list(differences)
        return [row.pattern for row in self.reasons if not any(map(row.explains, found))]


def reasons(rows: Mapping[str, Any]) -> tuple[Reason, ...]:
    """Return the rows of a part of a table: text = [patterns]."""
    # "[Child" would be a set of characters.
    return tuple(Reason(pattern.replace("[", "[[]"), text) for text, patterns in rows.items() for pattern in patterns)


def read_table() -> Table:
    """Return the table."""
    return Table(tomllib.loads(TABLE.read_text(encoding="utf-8")))


# --- what there is to compare ---


def their_modules() -> list[str]:
    """Return the names of the public modules of PyMongo and gridfs, without those of the synchronous API."""
    found = [pymongo.__name__, gridfs.__name__]
    for package in (pymongo, gridfs):
        found += [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [name for name in found if not any(part[0] == "_" or part == "synchronous" for part in name.split("."))]


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module: those in `__all__`, or else those that it defines."""
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is None:
        assert module.__file__ is not None
        listed = list(_defined(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))))
    return [name for name in dict.fromkeys(listed) if not name.startswith("_") and not _is_typing(module, name)]


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _is_typing(module: ModuleType, name: str) -> bool:
    return type(getattr(module, name)).__module__ == "typing"


# --- comparing ---


def differences(table: Table) -> list[Difference]:
    """Return all differences."""
    # Several modules export the same class.
    found: list[Difference] = list(
        dict.fromkeys(each for theirs, ours in table.modules.items() for each in _of_module(theirs, ours))
    )
    found += [
        Difference(f"option {name}", "is missing")
        for name in sorted(VALIDATORS)
        if ALIASES.get(name.lower(), name.lower()) not in BY_NAME
    ]
    return found


def _of_module(theirs: str, ours: str) -> Iterator[Difference]:
    try:
        module = importlib.import_module(ours)
    except ModuleNotFoundError:
        yield Difference(theirs, f"there is no module {ours}")
        return
    expected = importlib.import_module(theirs)
    for name in names_of(expected):
        where, value = f"{theirs}.{name}", getattr(expected, name)
        if not hasattr(module, name):
            yield Difference(where, "is missing")
        else:
            yield from compared(where, value, getattr(module, name))


def compared(where: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    """Yield the differences of two values with the same name."""
    if inspect.isclass(theirs) and inspect.isclass(ours):
        yield from _of_class(theirs.__name__, theirs, ours)
    elif inspect.isfunction(theirs) and callable(ours):
        yield from _of_function(where, theirs, ours)
    elif type(theirs).__name__ != type(ours).__name__:
        yield Difference(where, f"is of type {type(ours).__name__}, not {type(theirs).__name__}")
    elif isinstance(theirs, str | int | float) and theirs != ours:
        yield Difference(where, f"is {ours!r}, not {theirs!r}")


def _of_class(where: str, theirs: type, ours: type) -> Iterator[Difference]:
    if issubclass(theirs, BaseException):
        names = {base.__name__ for base in ours.__mro__}
        for base in theirs.__mro__:
            if base.__name__ not in names:
                yield Difference(where, f"is not a {base.__name__}")
    if issubclass(theirs, Enum):
        for name, member in theirs.__members__.items():
            if name not in getattr(ours, "__members__", {}):
                yield Difference(f"{where}.{name}", "is missing")
            elif ours[name].value != member.value:  # type: ignore[index]  # an enumeration, as the line above found
                yield Difference(f"{where}.{name}", "has another value")
        return
    if _constructor(theirs) is not None:
        yield from _of_function(where, _constructor(theirs), _constructor(ours))
    for name in dir(theirs):
        if name[0] == "_" and not (name in _SPECIAL and getattr(object, name, None) is not getattr(theirs, name)):
            continue
        if not hasattr(ours, name):
            if name not in attributes_set(ours):
                yield Difference(f"{where}.{name}", "is missing")
            continue
        expected, found = inspect.getattr_static(theirs, name), inspect.getattr_static(ours, name)
        if name[0] != "_":
            yield from _of_member(f"{where}.{name}", expected, found)


def _constructor(kind: type) -> Any:
    made = kind.__new__ if kind.__init__ is object.__init__ else kind.__init__  # type: ignore[misc]  # only compared
    return made if inspect.isfunction(made) else None


def attributes_set(kind: type) -> set[str]:
    """Return the attributes that the class declares, or that its constructor sets."""
    found: set[str] = set()
    for base in kind.__mro__:
        found |= set(getattr(base, "__annotations__", ()))
        slots = vars(base).get("__slots__", ())
        found |= {slots} if isinstance(slots, str) else set(slots)
        init = vars(base).get("__init__")
        if inspect.isfunction(init):
            found |= {each.argval for each in dis.get_instructions(init) if each.opname == "STORE_ATTR"}
    return found


def _of_member(where: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    theirs, ours = _unbound(theirs), _unbound(ours)
    if inspect.isfunction(theirs):
        if inspect.isfunction(ours):
            yield from _of_function(where, theirs, ours)
        else:
            yield Difference(where, "is not a method")
    elif isinstance(theirs, property):
        getter = ours.fget if isinstance(ours, property) else None
        if inspect.isfunction(ours):
            yield Difference(where, "is a method, not a property")
        elif inspect.iscoroutinefunction(theirs.fget) is not inspect.iscoroutinefunction(getter):
            yield Difference(where, "is awaited in one of them only")
    elif isinstance(theirs, str | int | bool) and theirs != ours and not inspect.isdatadescriptor(ours):
        yield Difference(where, f"is {ours!r}, not {theirs!r}")


def _unbound(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member


def _of_function(where: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if ours is None:
        yield Difference(where, "has no constructor")
        return
    found = parameters(ours)
    expected = parameters(_FORWARDS.get(theirs, theirs))
    takes_all = any(each.kind is Parameter.VAR_KEYWORD for each in found.values())
    ours_in_order = [name for name, each in found.items() if each.kind in _POSITIONAL]
    position = 0
    for name, parameter in expected.items():
        if parameter.kind not in _NAMED or (theirs in _FORWARDS and name == "collection"):
            continue
        if name not in found:
            if not takes_all:
                yield Difference(f"{where}({name})", "is missing")
            elif parameter.kind in _POSITIONAL:
                yield Difference(f"{where}({name})", "is not positional")
            continue
        if parameter.kind in _POSITIONAL:
            if ours_in_order[position : position + 1] != [name]:
                yield Difference(f"{where}({name})", "is not positional, or elsewhere")
            position += 1
        yield from _of_parameter(f"{where}({name})", parameter, found[name])
    for name, parameter in found.items():
        if parameter.kind in _NAMED and parameter.default is Parameter.empty and name not in expected:
            yield Difference(f"{where}({name})", "must be passed, but is unknown to PyMongo")
    if inspect.iscoroutinefunction(theirs) is not inspect.iscoroutinefunction(ours) and not is_awaitable(theirs, ours):
        yield Difference(where, "is awaited in one of them only")


def is_awaitable(theirs: Any, ours: Any) -> bool:
    """Whether what PyMongo awaits may be awaited: our cursors and streams are returned at once, and awaitable."""
    returned = str(inspect.signature(ours).return_annotation)
    return inspect.iscoroutinefunction(theirs) and ("Cursor" in returned or "ChangeStream" in returned)


def _of_parameter(where: str, theirs: Parameter, ours: Parameter) -> Iterator[Difference]:
    if theirs.default is Parameter.empty:
        return
    if ours.default is Parameter.empty:
        yield Difference(where, "has no default")
    elif ours.default is not _UNSET and _is_plain(theirs.default) and theirs.default != ours.default:
        yield Difference(where, f"is {ours.default!r} by default, not {theirs.default!r}")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def parameters(function: Any) -> dict[str, Parameter]:
    """Return the parameters without `self`; the keys of an unpacked TypedDict are keyword arguments."""
    found: dict[str, Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        options = unpacked(function, parameter)
        if options is None:
            found[name] = parameter
        else:
            for key in options.__annotations__:
                found[key] = Parameter(key, Parameter.KEYWORD_ONLY, default=_UNSET)
    return found


def their_positional(method: Any) -> list[str]:
    """Return the names of the arguments that a method of PyMongo's takes by position."""
    found = parameters(_FORWARDS.get(method, method))
    return [name for name, each in found.items() if each.kind in _POSITIONAL and name != "collection"]


def unpacked(function: Any, parameter: Parameter) -> Any:
    """Return the TypedDict of ``**options: Unpack[Options]``, or None."""
    if parameter.kind is not Parameter.VAR_KEYWORD or not str(parameter.annotation).startswith("Unpack["):
        return None
    name = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]").rpartition(".")[2]
    for module in ("_api.arguments.find_options", "_api.arguments.method_options", "client_options"):
        found = getattr(importlib.import_module(f"motorlite.{module}"), name, None)
        if found is not None:
            assert is_typeddict(found)
            return found
    raise AssertionError(f"{function.__qualname__}: {name} is in none of the modules with options")
