"""Creates mutants: small single changes to a module's syntax tree, each of which a good test must notice.

Code that no test should pin stays unchanged: docstrings, annotations, `TYPE_CHECKING` blocks, `__repr__`, assertions
(they are for type checkers), error texts and f-strings, names in `__slots__` and `__all__`, and the string values of
plain enumerations.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Div,
    ast.Pow: ast.Mult,
}
_OTHER_FUNCTION: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_OTHER_METHOD: Final = {"pop": "popleft", "popleft": "pop"}
_NOT_CODE: Final = ("annotation", "returns", "decorator_list", "bases")
_NAMES_ONLY: Final = ("__slots__", "__all__")
_NEW_LINES: Final = (ast.stmt, ast.ExceptHandler)
_CONDITIONS: Final = {ast.If: "test", ast.While: "test", ast.IfExp: "test", ast.comprehension: "ifs"}


@dataclass(frozen=True)
class Mutant:
    """One change: replaces `old`, a child of `owner`, by `new` when `apply` is called."""

    # Path of the module, for reports and for the list of equivalent mutants.
    module: str
    # Its line number, and the text of that line.
    line: int
    text: str
    # The qualified name of the outermost function around it; "" for code that runs at import.
    function: str
    # At least one of these lines is executed whenever the changed code is.
    lines: frozenset[int]
    owner: ast.AST
    field: str
    # The position in the field, if that is a list.
    index: int | None
    old: ast.AST
    new: ast.AST
    # Numbers identical changes to lines with the same text in the same function, from 1.
    nth: int = 1

    @property
    def change(self) -> str:
        """The change as one line: old code -> new code."""
        return f"{_text(self.old)} -> {_text(self.new)}"

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function or '(import)'}: {self.change}    [{self.text}]"

    def apply(self) -> None:
        """Apply the change to the tree."""
        self._put(self.new)

    def revert(self) -> None:
        """Undo `apply`."""
        self._put(self.old)

    def _put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


@dataclass(frozen=True)
class _Context:
    """The position of the walk."""

    # Names of the enclosing classes and functions.
    scope: tuple[str, ...] = ()
    function: str = ""
    statement_line: int = 0
    # Strings have no effect here: texts for humans, names of enumeration members.
    strings_are_texts: bool = False
    # Only the truth of the expression matters.
    is_condition: bool = False
    # The tuple is unpacked, so no element can be removed.
    is_unpacked: bool = False
    is_compared: bool = False


def mutants(source: str, module: str) -> tuple[ast.Module, list[Mutant]]:
    """The syntax tree of `source` and all its mutants, in line order.

    Args:
        source: The text of a module.
        module: The module's path, as stored in the mutants.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    found = []
    for context, owner, field, index, old, new in _walk(tree, _Context()):
        ast.fix_missing_locations(ast.copy_location(new, old))
        line = getattr(old, "lineno", context.statement_line)
        last = line if isinstance(old, ast.stmt) else getattr(old, "end_lineno", line)
        covered = frozenset(range(line, last + 1)) | {context.statement_line}
        text = lines[line - 1].strip()
        found.append(Mutant(module, line, text, context.function, covered, owner, field, index, old, new))
    found.sort(key=lambda mutant: mutant.line)
    times: Counter[tuple[str, str, str]] = Counter()
    for position, mutant in enumerate(found):
        same = (mutant.function, mutant.text, mutant.change)
        times[same] += 1
        found[position] = replace(mutant, nth=times[same])
    return tree, found


_Found = tuple[_Context, ast.AST, str, "int | None", ast.AST, ast.AST]


def _walk(owner: ast.AST, context: _Context) -> Iterator[_Found]:
    for field, value in ast.iter_fields(owner):
        if field in _NOT_CODE or (isinstance(owner, ast.ClassDef) and field == "keywords"):
            continue
        children = value if isinstance(value, list) else [value]
        for position, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            inner = _enter(owner, field, child, context)
            for new in _changes(child, inner):
                yield inner, owner, field, position if isinstance(value, list) else None, child, new
            yield from _walk(child, inner)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.FunctionDef(name="__repr__"):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in _NAMES_ONLY:
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _enter(owner: ast.AST, field: str, child: ast.AST, context: _Context) -> _Context:
    """The context of `child`."""
    inner = replace(
        context,
        is_condition=_is_condition(owner, field, context),
        is_compared=isinstance(owner, ast.Compare),
        is_unpacked=isinstance(owner, ast.Return | ast.For)
        or (isinstance(owner, ast.Assign) and isinstance(owner.targets[0], ast.Tuple)),
    )
    if isinstance(child, _NEW_LINES):
        inner = replace(inner, statement_line=child.lineno)
    if isinstance(owner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and field == "body":
        scope = (*context.scope, owner.name)
        inner = replace(inner, scope=scope)
        if isinstance(owner, ast.ClassDef):
            inner = replace(inner, strings_are_texts=any(_text(base).endswith("Enum") for base in owner.bases))
        elif not context.function:
            inner = replace(inner, function=".".join(scope))
    if isinstance(owner, ast.Call) and _is_error(owner.func):
        inner = replace(inner, strings_are_texts=True)
    return inner


def _is_condition(owner: ast.AST, field: str, context: _Context) -> bool:
    if _CONDITIONS.get(type(owner)) == field:
        return True
    # `not x` has already been mutated to `x`.
    return context.is_condition and isinstance(owner, ast.BoolOp)


def _is_error(function: ast.expr) -> bool:
    name = _text(function).rpartition(".")[2]
    return name[:1].isupper() and name.endswith(("Error", "Timeout", "Operation", "Rebuilt"))


def _changes(node: ast.AST, context: _Context) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt):
        yield from _changes_of_statement(node, context)
    elif isinstance(node, ast.expr):
        yield from _changes_of_expression(node, context)
        if context.is_condition and not isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp | ast.Constant):
            yield ast.UnaryOp(ast.Not(), node)


def _changes_of_statement(node: ast.stmt, context: _Context) -> Iterator[ast.stmt]:
    match node:
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Return(value=None):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()], value=value):
            if context.scope[-1:] != ("__init__",):
                yield ast.Pass()
            elif not isinstance(value, ast.Constant):
                yield ast.Assign(node.targets, ast.Constant(None))
        case ast.AnnAssign(target=ast.Attribute(), value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Assign([node.target], ast.Constant(None))
        case ast.AugAssign(op=operator):
            yield ast.Pass()
            if other := _ARITHMETIC.get(type(operator)):
                yield ast.AugAssign(node.target, other(), node.value)
                target = ast.parse(f"{ast.unparse(node.target)} = 0").body[0]
                assert isinstance(target, ast.Assign)
                yield ast.Assign(target.targets, node.value)


def _changes_of_expression(node: ast.expr, context: _Context) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator]):
            for other in _COMPARISONS[type(operator)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.Compare(ops=operators):
            for position, operator in enumerate(operators):
                for other in _COMPARISONS[type(operator)]:
                    changed = [*operators[:position], other(), *operators[position + 1 :]]
                    yield ast.Compare(node.left, changed, node.comparators)
        case ast.BoolOp(op=joiner, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(joiner, ast.And) else ast.And(), values)
            for position in range(len(values)):
                rest = [*values[:position], *values[position + 1 :]]
                yield ast.BoolOp(joiner, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=calculation, right=right) if type(calculation) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(calculation)](), right)
        case ast.Constant():
            yield from _other_constants(node, context)
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_FUNCTION:
            yield ast.Call(ast.Name(_OTHER_FUNCTION[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) if name in _OTHER_METHOD:
            yield ast.Call(ast.Attribute(value, _OTHER_METHOD[name], ast.Load()), [], [])
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
            yield from _without_an_element(node, context)


def _other_constants(node: ast.Constant, context: _Context) -> Iterator[ast.expr]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(number) | float(number):
            yield ast.Constant(number + 1)
            yield ast.Constant(number - 1)
        case str(text) if not context.strings_are_texts:
            yield ast.Constant(f"XX{text}XX")
        case None if not context.is_compared:
            yield ast.Constant("")


def _without_an_element(node: ast.Tuple | ast.List | ast.Set | ast.Dict, context: _Context) -> Iterator[ast.expr]:
    if isinstance(node, ast.Dict):
        for position in range(len(node.values)):
            keys, values = list(node.keys), list(node.values)
            del keys[position], values[position]
            yield ast.Dict(keys, values)
        return
    if context.is_unpacked or (not isinstance(node, ast.Set) and not isinstance(node.ctx, ast.Load)):
        return
    for position in range(len(node.elts)):
        rest = [*node.elts[:position], *node.elts[position + 1 :]]
        if isinstance(node, ast.Set):
            yield ast.Set(rest) if rest else ast.Call(ast.Name("set", ast.Load()), [], [])
        else:
            yield type(node)(rest, ast.Load())
