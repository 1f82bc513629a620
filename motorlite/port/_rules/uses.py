"""Pure: uses of clients, databases, collections, cursors and files that differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import libcst as cst
from libcst.metadata import Assignment

from motorlite.port._finding import Mark
from motorlite.port._kinds import CHILDREN, Kind
from motorlite.port._names import Api
from motorlite.port._rules.loops import chunks_instead, is_fetch_loop, iterated_instead
from motorlite.port._source import dotted, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.port._kinds import Kinds
    from motorlite.port._names import Clients
    from motorlite.port._report import Report
    from motorlite.port._source import Source
    from motorlite.port._table import Table

# Names of Motor's that nothing else has: they are found where nothing is known about the object, too.
_TELLING: Final = {
    "get_io_loop": "AsyncMongoClient",
    "io_loop": "AsyncMongoClient",
    "fetch_next": "AsyncCursor",
    "next_object": "AsyncCursor",
    "stream_to_handler": "AsyncGridOut",
}
_OF_FUTURES: Final = frozenset({"add_done_callback", "cancel", "done", "exception", "result"})
_UNAWAITED: Final = "`await` it, if it is a {what}'s: `{name}` is a coroutine"
# What Motor does not await, and how programs call what has it.
_NAMES: Final = {
    "close": ("client", re.compile(r"client|mongo|motor", re.IGNORECASE)),
    "rewind": ("cursor", re.compile(r"cursor", re.IGNORECASE)),
    "add_option": ("cursor", re.compile(r"cursor", re.IGNORECASE)),
    "seek": ("file", re.compile(r"grid", re.IGNORECASE)),
}
_NOT_HERE: Final = "must be awaited, and nothing can be awaited here"
_REFERENCE: Final = "what calls it must await it"
# What makes tasks: of coroutines, and of functions with arguments.
_OF_COROUTINES: Final = frozenset({"create_task", "run_coroutine_threadsafe"})
_OF_FUNCTIONS: Final = frozenset({"BackgroundTask", "add_task", "start_soon"})
# PyMongo's coroutine functions that return a cursor here.
_CURSORS: Final = frozenset({"AsyncChangeStream", "AsyncCommandCursor", "AsyncRawBatchCommandCursor"})
_NO_COROUTINE: Final = (
    "it returns a cursor, which is no coroutine: `asyncio.ensure_future`, "
    "or a coroutine function that awaits the cursor"
)


class Uses:
    """Reports the uses in a file."""

    def __init__(self, table: Table, source: Source, kinds: Kinds, clients: Clients, report: Report) -> None:
        self._table = table
        self._source = source
        self._kinds = kinds
        self._report = report
        # Whether an object here may be of the asynchronous API.
        self._is_asynchronous = Api.ASYNC in clients.own(source)
        # Parts of loops that are rewritten as a whole.
        self._done: set[cst.CSTNode] = set()

    def _kind(self, node: cst.CSTNode) -> Kind | None:
        return self._kinds.of(node, self._source)

    def run(self) -> None:
        """Report everything."""
        for node in self._source.nodes:
            if isinstance(node, cst.Attribute):
                if node not in self._done:
                    self._member(node)
            elif isinstance(node, cst.Call):
                self._call(node)
            elif isinstance(node, cst.ClassDef):
                for base in node.bases:
                    self._driver_class(base.value)
            elif isinstance(node, cst.Expr):
                self._statement(node)
            elif isinstance(node, cst.While):
                self._while(node)
            elif isinstance(node, cst.For) and node.asynchronous:
                self._for(node)

    # --- members ---

    def _member(self, node: cst.Attribute) -> None:
        kind, name = self._kind(node.value), node.attr.value
        if kind is None:
            self._unknown(node)
            return
        if kind.is_pending:
            if name in _OF_FUTURES:
                self._report.hand(node, self._table.behaviour["*.add_done_callback"])
            return
        member = f"{kind.name}.{name}"
        missing = self._missing(kind, name)
        if missing:
            self._report.hand(self._called(node), missing)
        elif name == "delegate" and kind.origin == "motor":
            self._report.hand(node, self._table.behaviour["*.delegate"])
        elif member in self._table.awaited_properties:
            self._await(node, kind)
        elif member in self._table.awaited_methods:
            call = self._called(node)
            if call is not node:
                self._await(call, kind)
            elif kind.origin == "motor":
                self._report.hand(node, _REFERENCE)

    def _unknown(self, node: cst.Attribute) -> None:
        """Report what names alone show, for an object of unknown kind."""
        name = node.attr.value
        if name in _TELLING and name != "io_loop":
            self._report.hand(node, self._table.missing_member(_TELLING[name], name))
        elif name == "each" and "cursor" in dotted(node.value).lower():
            self._report.hand(self._called(node), self._table.missing_member("AsyncCursor", "each"))
        elif name == "add_done_callback" and any(self._is_operation(each) for each in self._assigned(node.value)):
            self._report.hand(node, self._table.behaviour["*.add_done_callback"])

    def _is_operation(self, node: cst.BaseExpression) -> bool:
        """Whether it is a call of a method that has the name of one of Motor's, whose result was a future."""
        function = node.func if isinstance(node, cst.Call) else None
        return isinstance(function, cst.Attribute) and function.attr.value in self._table.operations

    def _missing(self, kind: Kind, name: str) -> str:
        """What to write instead of a member; "" if it may be the name of a database or a collection."""
        if kind.name in CHILDREN and (name == "next" or (kind.origin != "motor" and name not in _TELLING)):
            return ""
        return self._table.missing_member(kind.name, name)

    def _called(self, node: cst.Attribute) -> cst.BaseExpression:
        parent = self._source.parent(node)
        return parent if isinstance(parent, cst.Call) and parent.func is node else node

    def _await(self, node: cst.BaseExpression, kind: Kind) -> None:
        """Await what Motor does not."""
        parent = self._source.parent(node)
        if isinstance(parent, cst.Await):
            return
        is_property = isinstance(node, cst.Attribute)
        is_statement = isinstance(parent, cst.Expr)
        if (
            kind.origin != "motor"
            and not is_statement
            and not (is_property and isinstance(parent, cst.Attribute | cst.Subscript))
        ):
            # A coroutine may be passed on.
            return
        if not self._can_await(node):
            self._report.hand(node, _NOT_HERE)
            return
        new = cst.Await(node)
        needs_parentheses = not isinstance(parent, cst.Expr | cst.Assign | cst.Return | cst.Arg | cst.AnnAssign)
        if needs_parentheses:
            new = new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        self._report.write(node, new, lambda updated: new.with_changes(expression=updated))

    def _can_await(self, node: cst.CSTNode) -> bool:
        for parent in self._source.parents(node):
            if isinstance(parent, cst.FunctionDef):
                return parent.asynchronous is not None
            if isinstance(parent, cst.Lambda | cst.ClassDef | cst.GeneratorExp):
                return False
        return False

    # --- calls ---

    def _call(self, node: cst.Call) -> None:
        self._driver_class(node.func)
        self._wait(node)
        self._task(node)
        method = self._method(node)
        if not method:
            return
        for argument in node.args:
            self._argument(node, argument, method)
        self._positions(node, method)

    def _paths(self, node: cst.BaseExpression) -> list[str]:
        """What an expression may be if it was imported."""
        name = dotted(node)
        return self._source.import_paths(name, node) if name else []

    def _driver_class(self, node: cst.BaseExpression) -> None:
        """Report a class that is called, or derived from, though only the driver makes its objects."""
        for path in self._paths(node):
            target = self._table.target(path)
            ours = target.path if target else path
            advice = self._table.constructors.get(ours.rpartition(".")[2])
            if advice and ours.startswith("motorlite."):
                self._report.hand(node, advice)

    def _wait(self, node: cst.Call) -> None:
        """Report ``asyncio.wait([collection.insert_one(...), ...])``: Motor's futures are coroutines now."""
        if "asyncio.wait" not in self._paths(node.func) or not node.args:
            return
        for value in self._values(node.args[0].value):
            kind = self._kind(value)
            if kind and kind.is_pending:
                self._report.hand(node, self._table.behaviour["`asyncio.wait` with calls"])
                return

    def _task(self, node: cst.Call) -> None:
        """Report ``create_task(parts.aggregate(...))`` and ``add_task(parts.aggregate, ...)`` of PyMongo's."""
        maker = dotted(node.func).rpartition(".")[2]
        if maker not in _OF_COROUTINES | _OF_FUNCTIONS or not node.args:
            return
        value = node.args[0].value
        if maker in _OF_COROUTINES and isinstance(value, cst.Call):
            value = value.func
        elif maker in _OF_COROUTINES:
            return
        base = self._kind(value.value) if isinstance(value, cst.Attribute) else None
        if base is None or base.is_pending or base.origin == "motor" or not isinstance(value, cst.Attribute):
            return
        if self._table.returns.get(f"{base.name}.{value.attr.value}") in _CURSORS:
            self._report.hand(node, _NO_COROUTINE)

    def _values(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The elements of a list, set or comprehension, which may have a name."""
        if isinstance(node, cst.Name):
            values = self._assigned(node)
            return [each for value in values if not isinstance(value, cst.Name) for each in self._values(value)]
        if isinstance(node, cst.ListComp | cst.SetComp | cst.GeneratorExp):
            return [node.elt]
        return [each.value for each in node.elements] if isinstance(node, cst.List | cst.Set | cst.Tuple) else []

    def _assigned(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The values that a name is given; anything else is a value itself."""
        if not isinstance(node, cst.Name):
            return [node]
        parents = [
            self._source.parent(each.node)
            for each in self._source.scope(node)[node.value]
            if isinstance(each, Assignment)
        ]
        statements = [self._source.parent(each) for each in parents if isinstance(each, cst.AssignTarget)]
        return [each.value for each in statements if isinstance(each, cst.Assign)]

    def _method(self, node: cst.Call) -> str:
        """``Class.method`` of a call, ``Class`` of a constructor, "" of anything else."""
        function = node.func.value if isinstance(node.func, cst.Subscript) else node.func
        name = dotted(function)
        if name:
            kind = self._kind(node)
            paths = self._source.import_paths(name, node)
            if kind and any(self._table.kind(path) == kind.name for path in paths):
                return kind.name
        if isinstance(function, cst.Attribute):
            made = self._kinds.of_unknown_class(function)
            if made:
                return made.name
            base = self._kind(function.value)
            if base and base.name and not base.is_pending:
                return f"{base.name}.{function.attr.value}"
        return ""

    def _argument(self, call: cst.Call, argument: cst.Arg, method: str) -> None:
        name = argument.keyword.value if argument.keyword else ""
        if not name:
            return
        # Options of a client may be in any case.
        key = name.lower() if method == "AsyncMongoClient" else name
        renamed = self._table.renamed_argument.get(method, {}).get(name)
        if renamed:
            self._report.write(argument, argument.with_changes(keyword=cst.Name(renamed)), _renamed(renamed))
            return
        advice = self._table.no_argument.get(method, {}).get(key)
        if advice is None:
            return
        if key == "io_loop":
            self._report.add(argument, self._source.code(argument), advice, Mark.WRITE)
            if not self._report.is_kept(argument):
                self._report.edit(call, _without(name))
        else:
            self._report.add(argument, self._source.code(argument), advice, Mark.HAND)

    def _positions(self, call: cst.Call, method: str) -> None:
        """Name the arguments that motorlite does not take by position."""
        facts = self._table.positional(method)
        if facts is None:
            return
        count, names = facts
        plain = [each for each in call.args if each.keyword is None]
        if len(plain) <= count or any(each.star for each in plain[:count]) or len(plain) > len(names):
            return
        named = ", ".join(f"{name}=..." for name in names[count : len(plain)])
        self._report.add(
            call,
            self._source.code(call.func) + f"() with {len(plain)} arguments by position",
            f"name them: {named}",
            Mark.WRITE if not any(each.star for each in plain) else Mark.HAND,
        )
        if not any(each.star for each in plain) and not self._report.is_kept(call):
            self._report.edit(call, _with_names(count, names))

    # --- statements ---

    def _statement(self, node: cst.Expr) -> None:
        kind = self._kind(node.value)
        function = node.value.func if isinstance(node.value, cst.Call) else None
        if kind is None and isinstance(function, cst.Attribute):
            self._unawaited(node.value, function)
        if kind is None or not kind.is_pending or not isinstance(function, cst.Attribute):
            return
        base = self._kind(function.value)
        if base and f"{base.name}.{function.attr.value}" not in self._table.awaited_methods:
            self._report.hand(node.value, self._table.behaviour["a call that is not awaited"])

    def _unawaited(self, call: cst.BaseExpression, function: cst.Attribute) -> None:
        """Report a call that may have to be awaited, on an object known only by its name."""
        base = function.value
        name = base.attr.value if isinstance(base, cst.Attribute) else base.value if isinstance(base, cst.Name) else ""
        what, pattern = _NAMES.get(function.attr.value, ("", None))
        if pattern and pattern.search(name) and self._is_asynchronous and self._kind(base) is None:
            self._report.hand(call, _UNAWAITED.format(what=what, name=function.attr.value))

    def _while(self, node: cst.While) -> None:
        if not is_fetch_loop(node):
            return
        new = iterated_instead(node)
        if new is not None:
            self._loop(node, new, "fetch_next", iterated_instead)

    def _for(self, node: cst.For) -> None:
        kind = self._kind(node.iter)
        if kind is None or kind.name != "AsyncGridOut" or kind.origin != "motor" or kind.is_pending:
            return
        new = chunks_instead(node)
        if new is None:
            self._report.hand(node.iter, self._table.behaviour["GridOut.__aiter__"])
        else:
            self._loop(node, new, "", chunks_instead)

    def _loop(
        self,
        node: cst.While | cst.For,
        new: cst.BaseStatement,
        part: str,
        edit: Callable[[cst.CSTNode], cst.CSTNode | None],
    ) -> None:
        if self._report.is_kept(node):
            return
        head, head_now = self._source.code(_head(node)), self._source.code(_head(new))
        self._report.add(node, head, head_now, Mark.WRITE, lambda updated: edit(updated) or updated)
        if part:
            self._done.update(walk(node.test if isinstance(node, cst.While) else node.iter))
            self._done.update(walk(node.body.body[0]))


def _head(node: cst.CSTNode) -> cst.CSTNode:
    """A loop without its body."""
    assert isinstance(node, cst.While | cst.For)
    return node.with_changes(body=cst.SimpleStatementSuite([cst.Expr(cst.Ellipsis())]), leading_lines=[], orelse=None)


def _renamed(name: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    return lambda updated: updated.with_changes(keyword=cst.Name(name))


def _without(name: str) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """Leave an argument out."""

    def edit(call: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(call, cst.Call)
        args = [each for each in call.args if each.keyword is None or each.keyword.value != name]
        if args and args[-1] is not call.args[-1]:
            args[-1] = _ended_like(args[-1], call.args[-1])
        return call.with_changes(args=args)

    return edit


def _ended_like(argument: cst.Arg, last: cst.Arg) -> cst.Arg:
    """The argument with the line break of another one behind it; its own comment stays."""
    assert isinstance(argument.comma, cst.Comma)
    own = argument.comma.whitespace_after
    space = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    if isinstance(own, cst.ParenthesizedWhitespace) and isinstance(space, cst.ParenthesizedWhitespace):
        space = own.with_changes(last_line=space.last_line, indent=space.indent)
    elif not isinstance(last.comma, cst.Comma):
        return argument.with_changes(comma=last.comma, whitespace_after_arg=space)
    return argument.with_changes(comma=argument.comma.with_changes(whitespace_after=space))


def _with_names(count: int, names: list[str]) -> Callable[[cst.CSTNode], cst.CSTNode]:
    """Pass arguments by name from a position on."""

    def edit(call: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(call, cst.Call)
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return call.with_changes(
            args=[
                each.with_changes(keyword=cst.Name(names[place]), equal=equal)
                if place >= count and each.keyword is None
                else each
                for place, each in enumerate(call.args)
            ]
        )

    return edit
