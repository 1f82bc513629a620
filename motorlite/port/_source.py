"""Pure: a parsed file, with the scopes, positions and parents of its nodes."""

from __future__ import annotations

import dataclasses
import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

import libcst as cst
from libcst.metadata import (
    Assignment,
    ClassScope,
    ImportAssignment,
    MetadataWrapper,
    PositionProvider,
    QualifiedNameSource,
    ScopeProvider,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from libcst.metadata import Scope

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def dotted(node: cst.BaseExpression) -> str:
    """Return ``a.b.c`` for a chain of names, and "" for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""


def expression(path: str) -> cst.Attribute | cst.Name:
    """Return the chain of names ``a.b.c``."""
    found: cst.Attribute | cst.Name | None = None
    for name in path.split("."):
        found = cst.Name(name) if found is None else cst.Attribute(found, cst.Name(name))
    assert found is not None
    return found


def text_of(node: cst.SimpleString) -> str:
    """Return the value of a string literal; "" for bytes, and for one that this version of Python refuses."""
    try:
        value = node.evaluated_value
    except (SyntaxError, ValueError):
        return ""
    return value if isinstance(value, str) else ""


def captured(node: cst.CSTNode) -> cst.Name | None:
    """Return the name that a pattern of ``match`` captures."""
    if isinstance(node, cst.MatchAs | cst.MatchStar):
        return node.name
    return node.rest if isinstance(node, cst.MatchMapping) else None


# Fields of nodes with punctuation and white space: no names are in them.
_PUNCTUATION: Final = frozenset(
    {
        *("comma", "dot", "equal", "footer", "header", "leading_lines", "lines_after_decorators", "lpar", "rpar"),
        *("semicolon", "trailing_whitespace", "lbracket", "rbracket", "lbrace", "rbrace"),
    }
)


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(name for name in names if name not in _PUNCTUATION and not name.startswith("whitespace"))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the parts of a node, without punctuation; many times faster than a visitor of LibCST's."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, cst.CSTNode))


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all its parts, outer ones first."""
    left = [node]
    while left:
        found = left.pop()
        yield found
        left += reversed(list(children(found)))


class Source:
    """A parsed file.

    Args:
        path: Its path in the project.
        parts: The same as the names of packages and module: ``("app", "db")``; that of a package ends in ``__init__``.
        module: What was parsed.
    """

    def __init__(self, path: str, parts: tuple[str, ...], module: cst.Module) -> None:
        self.path = path
        self.parts = parts
        self._wrapper = MetadataWrapper(module, unsafe_skip_copy=True)

    @property
    def module(self) -> cst.Module:
        """The tree."""
        return self._wrapper.module

    @cached_property
    def _scopes(self) -> dict[cst.CSTNode, Scope | None]:
        scopes = dict(self._wrapper.resolve(ScopeProvider))
        # LibCST does not take captures for assignments.
        for node in self.nodes:
            name, scope = captured(node), scopes.get(node)
            if name is not None and scope is not None:
                scope.record_assignment(name.value, name)
        return scopes

    @cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """All nodes, outer ones first."""
        return list(walk(self.module))

    @cached_property
    def _parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return {child: node for node in self.nodes for child in children(node)}

    @cached_property
    def top(self) -> Scope:
        """The scope of the module."""
        return next(iter(self.scopes())).globals

    def scope(self, node: cst.CSTNode) -> Scope:
        """Return the scope that `node` is in; that of the module where libcst knows none."""
        found: cst.CSTNode | None = node
        while found is not None:
            scope = self._scopes.get(found)
            if scope is not None:
                return scope
            found = self._parents.get(found)
        return self.top

    def scopes(self) -> set[Scope]:
        """Return all scopes."""
        return {scope for scope in self._scopes.values() if scope is not None}

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the parent of `node`."""
        return self._parents.get(node)

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parent, its parent, and so on."""
        found = self._parents.get(node)
        while found is not None:
            yield found
            found = self._parents.get(found)

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return line and column of `node`, both from 1 on."""
        start = self._wrapper.resolve(PositionProvider)[node].start
        return start.line, start.column + 1

    def code(self, node: cst.CSTNode) -> str:
        """Return the code of `node` in one line, without comments between names or arguments."""
        if isinstance(node, cst.Import | cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            names = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in node.names]
            changes = {"names": names} if isinstance(node, cst.Import) else {"names": names, "lpar": None, "rpar": None}
            node = node.with_changes(**changes)
        elif isinstance(node, cst.Arg):
            node = node.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return " ".join(self.module.code_for_node(node).split())

    def import_paths(self, name: str, near: cst.CSTNode) -> list[str]:
        """Return what ``a.b.c``, written at `near`, may mean if `a` was imported.

        ``try: from a import b`` and ``except ImportError: from c import b`` are two.
        """
        found = self.scope(near).get_qualified_names_for(name)
        return sorted(each.name for each in found if each.source is QualifiedNameSource.IMPORT)

    def imported_names(self) -> dict[str, set[str]]:
        """Return all local names of imports in the file, and what they mean."""
        found: dict[str, set[str]] = {}
        for scope in self.scopes():
            for assignment in scope.assignments:
                if isinstance(assignment, ImportAssignment):
                    names = {each.name for each in assignment.get_qualified_names_for(assignment.name)}
                    found.setdefault(assignment.name, set()).update(names)
        return found

    def own_names(self) -> set[str]:
        """Return all names that the file gives to something of its own."""
        return {
            assignment.name
            for scope in self.scopes()
            for assignment in scope.assignments
            if not isinstance(assignment, ImportAssignment)
        }

    @cached_property
    def rebound_names(self) -> frozenset[str]:
        """The names of imports that the file also captures, or gives to a loop, a block or an exception."""
        return frozenset(
            assignment.name
            for scope in self.scopes()
            for assignment in scope.assignments
            if isinstance(assignment, Assignment)
            and self._is_rebinding(assignment.node)
            and any(isinstance(each, ImportAssignment) for each in scope[assignment.name])
        )

    def _is_rebinding(self, node: cst.CSTNode) -> bool:
        parent = self._parents.get(node)
        is_captured = parent is not None and captured(parent) is node
        return is_captured or isinstance(parent, cst.AsName | cst.For | cst.NamedExpr)

    def class_names(self) -> set[str]:
        """Return all names that are assigned in the bodies of classes, where ``A = A`` takes the outer `A`."""
        return {
            assignment.name
            for scope in self.scopes()
            if isinstance(scope, ClassScope)
            for assignment in scope.assignments
            if not isinstance(assignment, ImportAssignment)
        }


def is_dotted(text: str) -> bool:
    """Whether `text` is ``a.b.c``."""
    return _DOTTED.fullmatch(text) is not None
