"""What users see is public: names, where they come from, and the types in signatures."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, is_typeddict

import pytest

import motorlite
from motorlite._client.core import Core
from motorlite.testing import LocalServer
from tests.support.public_names import is_private, public_classes, public_modules, public_names
from tests.support.syntax import nodes, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_every_public_module_lists_its_names() -> None:
    assert [module.__name__ for module in public_modules() if not hasattr(module, "__all__")] == []


def test_public_names_say_that_they_are_public() -> None:
    found = [
        f"{module}.{name} says that it is from {value.__module__}"
        for module, name, value in public_names()
        if is_private(getattr(value, "__module__", None) or "")
    ]
    assert found == []


def test_they_can_be_imported_from_where_they_say() -> None:
    for name, value in public_classes().items():
        if value.__module__.startswith("motorlite"):
            assert getattr(sys.modules[value.__module__], value.__qualname__) is value, name


# --- types in signatures ---


@cache
def source(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@cache
def origins(path: str) -> dict[str, tuple[str, str]]:
    """The imported names of a file: module and name there."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in nodes(source(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@cache
def definitions() -> dict[str, list[tuple[str, str, ast.ClassDef]]]:
    """The classes in motorlite's files by name: path, module, and definition of each."""
    found: dict[str, list[tuple[str, str, ast.ClassDef]]] = {}
    root = Path(motorlite.__path__[0])
    for path in root.rglob("*.py"):
        module = ".".join(("motorlite", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for node in parsed(source(str(path))).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((str(path), module, node))
    return found


def sources(cls: type) -> Iterator[tuple[str, ast.ClassDef]]:
    """The definition of `cls` and those of its bases, in motorlite's files."""
    for kind in cls.__mro__:
        for path, module, node in definitions().get(kind.__name__, ()):
            if getattr(importlib.import_module(module), node.name) is kind:
                yield path, node


def annotated(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The types of public attributes, parameters and results."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "__init__":
            for each in ast.walk(node):
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Attribute):
                    yield each.target.attr, each.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if argument.annotation is not None:
                    yield node.name, argument.annotation
            if node.returns is not None:
                yield node.name, node.returns


def private_types() -> Iterator[str]:
    for cls in dict.fromkeys(public_classes().values()):
        for path, definition in sources(cls):
            for where, annotation in annotated(definition):
                if not where.startswith("_"):
                    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
                    yield from (f"{cls.__name__}.{where}: {name}" for name in names if is_private_class(path, name))


def is_private_class(path: str, name: str) -> bool:
    """Whether `name`, as the file at `path` has it, is a class that users cannot import from a public module."""
    module, original = origins(path).get(name, ("", name))
    if not module.startswith("motorlite"):
        return any(
            isinstance(node, ast.ClassDef) and node.name == name and name[0] == "_"
            for node in parsed(source(path)).body
        )
    value = getattr(importlib.import_module(module), original)
    # Keyword arguments written out (`Unpack[FindOptions]`) are there to be read, not named.
    return inspect.isclass(value) and is_private(value.__module__) and not is_typeddict(value)


def test_public_signatures_name_public_types() -> None:
    assert sorted(set(private_types())) == []


def test_the_check_looks_at_all_that_is_public() -> None:
    source = """class A:
    b: _B
    def __init__(self): self.g: _G = 1
    async def c(self, d: _D) -> _E: ...
"""
    (cls,) = ast.parse(source).body
    assert isinstance(cls, ast.ClassDef)
    assert [ast.unparse(annotation) for _, annotation in annotated(cls)] == ["_B", "_G", "_D", "_E"]
    assert is_private_class(inspect.getfile(motorlite.operations), "_Request")
    assert is_private_class(inspect.getfile(Core), "Executor")
    assert not is_private_class(inspect.getfile(Core), "DriverInfo")


@pytest.mark.parametrize("value", [motorlite.AsyncMongoClient, motorlite.timeout, LocalServer])
def test_help_begins_with_a_sentence_for_users(value: Any) -> None:
    assert not (inspect.getdoc(value) or "").startswith(("Pure:", "Shell:", "Net:"))
