"""Pure: which expressions of a program are clients, databases, collections and so on.

This is no type checker. It follows assignments, annotations, attributes and functions through the files of a project,
and gives up where that does not lead to one answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import libcst as cst
from libcst.metadata import Assignment, ImportAssignment

from motorlite.port._source import Source, dotted, text_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from motorlite.port._table import Table

# What a class becomes when it is asked for a name that it does not have.
CHILDREN: Final = {
    "AsyncMongoClient": "AsyncDatabase",
    "AsyncDatabase": "AsyncCollection",
    "AsyncCollection": "AsyncCollection",
}
# Types whose arguments are types of the same object.
_TRANSPARENT: Final = frozenset(
    {
        *("Annotated", "ClassVar", "Final", "Optional", "Required", "Union"),
        *("AbstractAsyncContextManager", "AsyncContextManager", "AsyncGenerator", "AsyncIterator", "AsyncIterable"),
        *("Awaitable", "Coroutine", "Generator", "Iterator", "Mapped"),
    }
)
# Functions that take the function that makes the value.
_INJECTORS: Final = frozenset({"Depends", "Security"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What an expression is: an object of one of motorlite's classes, or rather of the class that it was before."""

    # The name of motorlite's class; "" for another result of a method.
    name: str
    # The package of its class: pymongo, motor, gridfs or motorlite.
    origin: str
    # Whether it has yet to be awaited.
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value of an attribute, or of a class variable, or a method."""

    source: Source
    # ``self.client``, ``app.state.client``; "client" for what stands in the body of a class.
    text: str
    owner: cst.ClassDef | None
    annotation: cst.Annotation | None
    value: cst.BaseExpression | cst.FunctionDef | None


class Kinds:
    """The kinds of a project's expressions."""

    def __init__(self, table: Table, sources: Sequence[Source]) -> None:
        self._table = table
        self._modules = {source.parts: source for source in sources}
        self._by_name: dict[str, list[tuple[str, ...]]] = {}
        for parts in self._modules:
            self._by_name.setdefault(_name(parts), []).append(parts)
        self._known: dict[cst.CSTNode, Kind | None] = {}
        self._attributes: dict[str, list[_Entry]] = {}
        self._fixtures: dict[str, list[tuple[Source, cst.FunctionDef]]] = {}
        for source in sources:
            self._collect(source)

    # --- attributes, methods and fixtures ---

    def _collect(self, source: Source) -> None:
        for node in source.nodes:
            if isinstance(node, cst.FunctionDef):
                if isinstance(_place(node, source), cst.ClassDef):
                    self._add(source, node, node.name.value, None, node)
                if _is_fixture(node):
                    self._fixtures.setdefault(node.name.value, []).append((source, node))
            elif isinstance(node, cst.Assign):
                for target in node.targets:
                    self._add_target(source, target.target, None, node.value)
            elif isinstance(node, cst.AnnAssign):
                self._add_target(source, node.target, node.annotation, node.value)

    def _add_target(
        self,
        source: Source,
        target: cst.BaseExpression,
        annotation: cst.Annotation | None,
        value: cst.BaseExpression | None,
    ) -> None:
        is_in_class = isinstance(target, cst.Name) and isinstance(_place(target, source), cst.ClassDef)
        if isinstance(target, cst.Attribute) or is_in_class:
            self._add(source, target, dotted(target), annotation, value)

    def _add(
        self,
        source: Source,
        node: cst.CSTNode,
        text: str,
        annotation: cst.Annotation | None,
        value: cst.BaseExpression | cst.FunctionDef | None,
    ) -> None:
        name = node.attr.value if isinstance(node, cst.Attribute) else text
        owner = next((each for each in source.parents(node) if isinstance(each, cst.ClassDef)), None)
        self._attributes.setdefault(name, []).append(_Entry(source, text, owner, annotation, value))

    # --- expressions ---

    def of(self, node: cst.CSTNode, source: Source) -> Kind | None:
        """Return the kind of an expression, or None."""
        if node not in self._known:
            # A cycle of assignments ends here.
            self._known[node] = None
            self._known[node] = self._find(node, source)
        return self._known[node]

    def _find(self, node: cst.CSTNode, source: Source) -> Kind | None:
        if isinstance(node, cst.Name):
            return self._of_name(node.value, node, source)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node, source)
        if isinstance(node, cst.Call):
            return self._of_call(node, source)
        if isinstance(node, cst.Subscript):
            found = self.of(node.value, source)
            child = CHILDREN.get(found.name) if found and not found.is_pending else None
            return Kind(child, found.origin) if found and child else None
        if isinstance(node, cst.Await):
            found = self.of(node.expression, source)
            return replace(found, is_pending=False) if found and found.name else None
        if isinstance(node, cst.NamedExpr):
            return self.of(node.value, source)
        if isinstance(node, cst.BooleanOperation):
            return self.of(node.left, source) or self.of(node.right, source)
        if isinstance(node, cst.IfExp):
            return self.of(node.body, source) or self.of(node.orelse, source)
        return None

    # --- names ---

    def _of_name(self, name: str, near: cst.CSTNode, source: Source) -> Kind | None:
        kinds: list[Kind | None] = []
        others: list[Kind | None] = []
        imported: list[Kind | None] = []
        for assignment in source.scope(near)[name]:
            if isinstance(assignment, ImportAssignment):
                paths = {each.name for each in assignment.get_qualified_names_for(name)}
                imported += [self._of_import(path, source) for path in sorted(paths)]
            elif isinstance(assignment, Assignment):
                found = self._of_assigned(assignment.node, source)
                if found and _is_declared(assignment.node, source):
                    return found
                (others if self._is_neutral(assignment, source) else kinds).append(found)
        if any(kinds):
            # Where the name is also given to something else, nothing shows which of the two a use means.
            return kinds[0] if len(set(kinds)) == 1 else None
        return self._first(imported if kinds else [*others, *imported])

    @staticmethod
    def _is_neutral(assignment: Assignment, source: Source) -> bool:
        """Whether an assignment alone tells nothing: ``client = None``, ``cursor = cursor.limit(5)``."""
        if isinstance(assignment.node, cst.Param):
            return _is_none(assignment.node.default)
        target = source.parent(assignment.node)
        statement = source.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(statement, cst.Assign):
            return False
        uses = {access.node for access in assignment.scope.accesses[assignment.name]}
        return _is_none(statement.value) or not uses.isdisjoint(walk(statement.value))

    @staticmethod
    def _first(kinds: Iterable[Kind | None]) -> Kind | None:
        return next((kind for kind in kinds if kind), None)

    def _of_import(self, path: str, source: Source) -> Kind | None:
        found = self._exported(path, source)
        if found is None:
            return None
        where, name = found
        return self._of_name(name, where.module, where)

    def _exported(self, path: str, source: Source) -> tuple[Source, str] | None:
        """The module of the project, and its name, that a path like ``app.db.client`` or ``.db.client`` means."""
        module, _, name = path.rpartition(".")
        where = self.module(module, source)
        return (where, name) if where is not None and where is not source else None

    def module(self, path: str, source: Source) -> Source | None:
        """Return the module of the project that `source` imports as ``app.db`` or ``..db``."""
        names = path.lstrip(".")
        level = len(path) - len(names)
        parts = tuple(names.split(".")) if names else ()
        if level:
            base = source.parts[: len(source.parts) - level]
            return self._modules.get((*base, *parts)) or self._modules.get((*base, *parts, "__init__"))
        for end in (parts, (*parts, "__init__")):
            # The project's root may be above its packages ("src").
            found = [each for each in self._by_name.get(_name(end), ()) if parts and each[-len(end) :] == end]
            if found:
                return self._modules[min(found, key=len)]
        return None

    def _of_assigned(self, node: cst.CSTNode, source: Source) -> Kind | None:
        """The kind of what a name was given to; `node` is the name, or a parameter."""
        if isinstance(node, cst.Param):
            return self._of_parameter(node, source)
        parent = source.parent(node)
        if isinstance(parent, cst.AssignTarget):
            statement = source.parent(parent)
            return self.of(statement.value, source) if isinstance(statement, cst.Assign) else None
        if isinstance(parent, cst.AnnAssign):
            found = self.of_annotation(parent.annotation.annotation, source)
            return found or (self.of(parent.value, source) if parent.value else None)
        if isinstance(parent, cst.NamedExpr):
            return self.of(parent.value, source)
        if isinstance(parent, cst.AsName):
            item = source.parent(parent)
            found = self.of(item.item, source) if isinstance(item, cst.WithItem) else None
            return replace(found, is_pending=False) if found and found.name else None
        if isinstance(parent, cst.For):
            found = self.of(parent.iter, source)
            is_file = found is not None and found.name == "AsyncGridOutCursor"
            return Kind("AsyncGridOut", found.origin) if found and is_file else None
        return None

    def _of_parameter(self, node: cst.Param, source: Source) -> Kind | None:
        if node.annotation is not None:
            found = self.of_annotation(node.annotation.annotation, source)
            if found:
                return found
        if isinstance(node.default, cst.Call) and dotted(node.default.func).rpartition(".")[2] in _INJECTORS:
            return self._of_injected(node.default, source)
        if node.annotation is None and node.default is None:
            fixtures = self._fixtures.get(node.name.value, ())
            kinds = {self.of_result(function, where) for where, function in fixtures}
            return kinds.pop() if len(kinds) == 1 else None
        return None

    def _of_injected(self, call: cst.Call, source: Source) -> Kind | None:
        """The kind of ``Depends(get_database)``."""
        function = self._function(call.args[0].value, source) if call.args else None
        return self.of_result(*function) if function else None

    # --- annotations and functions ---

    def of_annotation(self, node: cst.BaseExpression, source: Source) -> Kind | None:
        """Return the kind of a parameter or variable with this annotation."""
        if isinstance(node, cst.SimpleString):
            try:
                parsed = cst.parse_expression(text_of(node))
            except cst.ParserSyntaxError:
                return None
            return self._annotated(parsed, node, source)
        return self._annotated(node, node, source)

    def _annotated(self, node: cst.BaseExpression, near: cst.CSTNode, source: Source) -> Kind | None:
        if isinstance(node, cst.SimpleString):
            return self.of_annotation(node, source)
        if isinstance(node, cst.BinaryOperation):
            return self._annotated(node.left, near, source) or self._annotated(node.right, near, source)
        if isinstance(node, cst.Subscript):
            name = dotted(node.value)
            if name.rpartition(".")[2] not in _TRANSPARENT:
                return self._annotated(node.value, near, source)
            slices = [each.slice.value for each in node.slice if isinstance(each.slice, cst.Index)]
            found = self._first(self._annotated(each, near, source) for each in slices)
            return found or self._first(self._of_annotated_call(each, source) for each in slices)
        name = dotted(node)
        return self._of_class(name, near, source) or self._of_alias(name, near, source) if name else None

    def _of_annotated_call(self, node: cst.BaseExpression, source: Source) -> Kind | None:
        """The kind of ``Depends(get_database)`` in an annotation."""
        is_injected = isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in _INJECTORS
        return self._of_injected(node, source) if is_injected and isinstance(node, cst.Call) else None

    def _of_class(self, name: str, near: cst.CSTNode, source: Source) -> Kind | None:
        """The kind of an object of the class that `name` is."""
        for path in source.import_paths(name, near):
            kind = self._table.kind(path)
            if kind:
                origin = path.partition(".")[0]
                return Kind(kind, origin if origin in ("pymongo", "motor", "gridfs", "motorlite") else "motor")
        return None

    def _of_alias(self, name: str, near: cst.CSTNode, source: Source) -> Kind | None:
        """The kind of an object whose type was given a name: ``Database = Annotated[...]``."""
        place: tuple[Source, str] | None = (source, name)
        for path in source.import_paths(name, near):
            place = self._exported(path, source)
        if place is None:
            return None
        where, own = place
        for assignment in where.scope(near if where is source else where.module)[own]:
            if isinstance(assignment, ImportAssignment) and where is not source:
                return self._of_class(own, where.module, where) or self._of_alias(own, where.module, where)
            if isinstance(assignment, Assignment):
                parent = where.parent(assignment.node)
                statement = where.parent(parent) if isinstance(parent, cst.AssignTarget) else parent
                value = statement.value if isinstance(statement, cst.Assign | cst.AnnAssign) else None
                if isinstance(value, cst.Subscript | cst.BinaryOperation | cst.SimpleString):
                    return self.of_annotation(value, where)
        return None

    def _function(self, node: cst.BaseExpression, source: Source) -> tuple[cst.FunctionDef, Source] | None:
        """The function of the project that an expression names."""
        name = dotted(node)
        if not name:
            return None
        places: list[tuple[Source, str]] = [(source, name)]
        for path in source.import_paths(name, node):
            exported = self._exported(path, source)
            places += [exported] if exported else []
        for where, own in places:
            for assignment in where.scope(node if where is source else where.module)[own]:
                if isinstance(assignment, Assignment) and isinstance(assignment.node, cst.FunctionDef):
                    return assignment.node, where
        return None

    def of_result(self, function: cst.FunctionDef, source: Source) -> Kind | None:
        """Return the kind of what a function returns, or yields."""
        if function.returns is not None:
            return self.of_annotation(function.returns.annotation, source)
        values = [each.value for each in walk(function.body) if isinstance(each, cst.Return | cst.Yield)]
        return self._first(self.of(value, source) for value in values if isinstance(value, cst.BaseExpression))

    def _of_call(self, node: cst.Call, source: Source) -> Kind | None:
        function = node.func.value if isinstance(node.func, cst.Subscript) else node.func
        name = dotted(function)
        made = self._of_class(name, node, source) if name else None
        if made:
            return made
        own = self._function(function, source) if name else None
        if own:
            return self.of_result(*own)
        if isinstance(function, cst.Attribute):
            return self.of_unknown_class(function) or self._of_method(function, source)
        return None

    def of_unknown_class(self, node: cst.Attribute) -> Kind | None:
        """Return the kind of ``anything.AsyncIOMotorClient()``: nothing else has such names."""
        name = node.attr.value
        kind = "AsyncMongoClient" if name == "AsyncMongoClient" else self._table.kind(f"a_module.{name}")
        return Kind(kind, "pymongo" if kind == name else "motor") if kind else None

    # --- attributes ---

    def _of_method(self, node: cst.Attribute, source: Source) -> Kind | None:
        base = self.of(node.value, source)
        name = node.attr.value
        if base is None:
            for entry in self._entries(node, source):
                if isinstance(entry.value, cst.FunctionDef):
                    return self.of_result(entry.value, entry.source)
            return None
        facts = self._table.classes.get(base.name)
        if base.is_pending or facts is None:
            return None
        returned = self._table.returns.get(f"{base.name}.{name}", "")
        is_pending = name in facts.awaited
        return Kind(returned, base.origin, is_pending) if returned or is_pending else None

    def _of_attribute(self, node: cst.Attribute, source: Source) -> Kind | None:
        base, name = self.of(node.value, source), node.attr.value
        if base is not None and not base.is_pending:
            facts = self._table.classes.get(base.name)
            if facts and name not in facts.members and not name.startswith("_"):
                is_lost = self._table.missing_member(base.name, name)
                child = CHILDREN.get(base.name) if not is_lost else None
                return Kind(child, base.origin) if child else None
            returned = self._table.returns.get(f"{base.name}.{name}")
            return Kind(returned, base.origin) if returned and name in ("client", "database", "session") else None
        chain = dotted(node)
        found = self._of_import_chain(chain, node, source) if chain else None
        return found or self._of_entries(node, source)

    def _of_import_chain(self, chain: str, node: cst.Attribute, source: Source) -> Kind | None:
        """The kind of ``db.client``, where `db` is a module of the project."""
        paths = source.import_paths(chain, node)
        return self._first(self._of_import(path, source) for path in paths)

    def _entries(self, node: cst.Attribute, source: Source) -> list[_Entry]:
        """The values of an attribute: those of the same class, of the same text in the file, or of the project."""
        entries = self._attributes.get(node.attr.value, [])
        text = dotted(node)
        if text.partition(".")[0] in ("self", "cls"):
            owner = next((each for each in source.parents(node) if isinstance(each, cst.ClassDef)), None)
            found = [each for each in entries if each.owner is owner and owner is not None]
        else:
            found = [each for each in entries if each.source is source and each.text == text and text]
        return found or entries

    def _of_entries(self, node: cst.Attribute, source: Source) -> Kind | None:
        kinds = {self._of_entry(entry) for entry in self._entries(node, source) if not _is_none(entry.value)}
        return kinds.pop() if len(kinds) == 1 else None

    def _of_entry(self, entry: _Entry) -> Kind | None:
        if entry.annotation is not None:
            found = self.of_annotation(entry.annotation.annotation, entry.source)
            if found:
                return found
        if isinstance(entry.value, cst.FunctionDef):
            names = [dotted(each.decorator) for each in entry.value.decorators]
            is_property = any(name.rpartition(".")[2] in ("property", "cached_property") for name in names)
            return self.of_result(entry.value, entry.source) if is_property else None
        return self.of(entry.value, entry.source) if entry.value is not None else None


def _name(parts: tuple[str, ...]) -> str:
    """The last name of a module's path; that of a package is its folder's."""
    return parts[-2] if len(parts) > 1 and parts[-1] == "__init__" else parts[-1] if parts else ""


def _is_declared(node: cst.CSTNode, source: Source) -> bool:
    """Whether a name is a parameter or has an annotation, which tell its kind for all assignments."""
    return isinstance(node, cst.Param) or isinstance(source.parent(node), cst.AnnAssign)


def _is_none(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _place(node: cst.CSTNode, source: Source) -> cst.CSTNode | None:
    """The class or function whose body has a statement."""
    return next((each for each in source.parents(node) if isinstance(each, cst.ClassDef | cst.FunctionDef)), None)


def _is_fixture(node: cst.FunctionDef) -> bool:
    """Whether it is a fixture of pytest's."""
    functions = [
        each.decorator.func if isinstance(each.decorator, cst.Call) else each.decorator for each in node.decorators
    ]
    return any(dotted(function).rpartition(".")[2] == "fixture" for function in functions)
