"""Creates mutants: small single changes to a module's syntax tree, each of which a good test must notice.

Code that no test should pin stays unchanged: docstrings, annotations, `TYPE_CHECKING` blocks, `__repr__`, assertions
(they are for type checkers), error texts and f-strings, names in `__slots__` and `__all__`, and the string values of
plain enumerations.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMPARISONS: Final[dict[type[ast.cmpop], Sequence[type[ast.cmpop]]]] = {
    kind: others
    for kind, *others in (
        *((ast.Lt, ast.LtE, ast.GtE), (ast.LtE, ast.Lt, ast.Gt), (ast.Gt, ast.GtE, ast.LtE), (ast.GtE, ast.Gt, ast.Lt)),
        *((ast.Eq, ast.NotEq), (ast.NotEq, ast.Eq), (ast.Is, ast.IsNot), (ast.IsNot, ast.Is), (ast.In, ast.NotIn)),
        (ast.NotIn, ast.In),
    )
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = dict(
    zip(
        (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
        (ast.Sub, ast.Add, ast.Div, ast.Mult, ast.Div, ast.Div, ast.Mult),
        strict=True,
    )
)
_OTHER: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "pop": "popleft", "popleft": "pop"}
_ERRORS: Final = ("Error", "Timeout", "Operation", "Rebuilt")
_NOT_CODE: Final = ("annotation", "returns", "decorator_list", "bases")
_CONDITIONS: Final = {ast.If: "test", ast.While: "test", ast.IfExp: "test", ast.comprehension: "ifs"}
_T = TypeVar("_T")


@dataclass(frozen=True)
class Mutant:
    """One change: replaces `old`, a child of `owner`, by `new` when `apply` is called."""

    # The path of the module, the number of the line, and its text.
    module: str
    line: int
    text: str
    # The qualified name of the outermost function around it; "" for code that runs at import.
    function: str
    # At least one of these lines is executed whenever the changed code is.
    lines: frozenset[int]
    # Where it is: the name of a field, and the position in it if that is a list.
    owner: ast.AST
    field: str
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
        if self.index is None:
            setattr(self.owner, self.field, self.new)
        else:
            getattr(self.owner, self.field)[self.index] = self.new


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


@dataclass(frozen=True)
class _Place:
    """A place in the tree: its parent, and what is known of it from further above."""

    owner: ast.AST
    field: str = ""
    # Names of the enclosing classes and functions.
    scope: tuple[str, ...] = ()
    function: str = ""
    statement_line: int = 0
    # Strings have no effect here: texts for humans, names of enumeration members.
    strings_are_texts: bool = False
    # Only the truth of the expression matters.
    is_condition: bool = False


def mutants(source: str, module: str) -> tuple[ast.Module, list[Mutant]]:
    """The syntax tree of `source` and all its mutants, in line order.

    Args:
        source: The text of a module.
        module: The module's path, as stored in the mutants.
    """
    tree, texts = ast.parse(source), source.splitlines()
    found = []
    for place, index, old, new in _walk(tree, _Place(tree)):
        ast.fix_missing_locations(ast.copy_location(new, old))
        line = getattr(old, "lineno", place.statement_line)
        last = line if isinstance(old, ast.stmt) else getattr(old, "end_lineno", line)
        lines = frozenset(range(line, last + 1)) | {place.statement_line}
        text = texts[line - 1].strip()
        found.append(Mutant(module, line, text, place.function, lines, place.owner, place.field, index, old, new))
    found.sort(key=lambda mutant: mutant.line)
    times: Counter[tuple[str, str, str]] = Counter()
    for position, mutant in enumerate(found):
        same = (mutant.function, mutant.text, mutant.change)
        times[same] += 1
        found[position] = replace(mutant, nth=times[same])
    return tree, found


def _walk(owner: ast.AST, above: _Place) -> Iterator[tuple[_Place, int | None, ast.AST, ast.AST]]:
    for field, value in ast.iter_fields(owner):
        if field in _NOT_CODE or (isinstance(owner, ast.ClassDef) and field == "keywords"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                place = _enter(owner, field, child, above)
                for new in _changes(child, place):
                    yield place, index if isinstance(value, list) else None, child, new
                yield from _walk(child, place)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.FunctionDef(name="__repr__"):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
    return False


def _enter(owner: ast.AST, field: str, child: ast.AST, above: _Place) -> _Place:
    # `not x` has already been mutated to `x`.
    is_condition = _CONDITIONS.get(type(owner)) == field or (above.is_condition and isinstance(owner, ast.BoolOp))
    place = replace(above, owner=owner, field=field, is_condition=is_condition)
    if isinstance(child, ast.stmt | ast.ExceptHandler):
        place = replace(place, statement_line=child.lineno)
    if isinstance(owner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and field == "body":
        place = replace(place, scope=(*above.scope, owner.name))
        if isinstance(owner, ast.ClassDef):
            place = replace(place, strings_are_texts=any(_text(base).endswith("Enum") for base in owner.bases))
        elif not above.function:
            place = replace(place, function=".".join(place.scope))
    if isinstance(owner, ast.Call):
        name = _text(owner.func).rpartition(".")[2]
        if name[:1].isupper() and name.endswith(_ERRORS):
            place = replace(place, strings_are_texts=True)
    return place


def _changes(node: ast.AST, place: _Place) -> Iterator[ast.AST]:
    match node:
        case ast.Expr() | ast.Raise() | ast.Delete() | ast.Return(value=None):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield from (ast.Break(), ast.Pass())
        case ast.Return(value=value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if place.scope[-1:] != ("__init__",):
            yield ast.Pass()
        case (
            ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target], value=value)
            | ast.AnnAssign(target=ast.Attribute() as target, value=ast.expr() as value)
        ) if not isinstance(value, ast.Constant):
            yield ast.Assign([target], ast.Constant(None))
        case ast.AugAssign(op=operator):
            yield ast.Pass()
            if other := _ARITHMETIC.get(type(operator)):
                yield ast.AugAssign(node.target, other(), node.value)
                yield ast.Assign([node.target], node.value)
        case ast.Compare(ops=operators):
            for position, comparison in enumerate(operators):
                for another in _COMPARISONS[type(comparison)]:
                    changed = [*operators[:position], another(), *operators[position + 1 :]]
                    yield ast.Compare(node.left, changed, node.comparators)
        case ast.BoolOp(op=joiner, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(joiner, ast.And) else ast.And(), values)
            for rest in _without_one(values):
                yield ast.BoolOp(joiner, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=calculation, right=right) if type(calculation) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(calculation)](), right)
        case ast.Constant():
            yield from _other_constants(node, place)
        case ast.Call(func=ast.Name(id="min" | "max" | "any" | "all" as name)):
            yield ast.Call(ast.Name(_OTHER[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(attr="pop" | "popleft" as name) as method, args=[], keywords=[]):
            yield ast.Call(ast.Attribute(method.value, _OTHER[name], ast.Load()), [], [])
        case ast.Dict():
            yield from map(ast.Dict, _without_one(node.keys), _without_one(node.values))
        case ast.Set():
            empty = ast.Call(ast.Name("set", ast.Load()), [], [])
            yield from (ast.Set(rest) if rest else empty for rest in _without_one(node.elts))
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) if not _is_unpacked(place.owner):
            yield from (type(node)(rest, ast.Load()) for rest in _without_one(node.elts))
    has_negation = isinstance(node, ast.BoolOp | ast.Compare | ast.UnaryOp | ast.Constant)
    if place.is_condition and isinstance(node, ast.expr) and not has_negation:
        yield ast.UnaryOp(ast.Not(), node)


def _other_constants(node: ast.Constant, place: _Place) -> Iterator[ast.expr]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(number) | float(number):
            yield from (ast.Constant(number + 1), ast.Constant(number - 1))
        case str(text) if not place.strings_are_texts:
            yield ast.Constant(f"XX{text}XX")
        case None if not isinstance(place.owner, ast.Compare):
            yield ast.Constant("")


def _without_one(items: list[_T]) -> Iterator[list[_T]]:
    return ([*items[:position], *items[position + 1 :]] for position in range(len(items)))


def _is_unpacked(owner: ast.AST) -> bool:
    """Whether a tuple of this statement is taken apart, so that no element can be removed."""
    return isinstance(owner, ast.Return | ast.For) or (
        isinstance(owner, ast.Assign) and isinstance(owner.targets[0], ast.Tuple)
    )
