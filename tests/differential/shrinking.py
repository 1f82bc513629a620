"""Pure: smaller programs: a step less, an argument less, a field less, or a value that is simpler."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.differential.programs import Program

# Changes the copy of a node.
Change = Callable[[Any], None]
# What a value becomes.
SIMPLE: Final = ("1", "'a'", "{}", "[]")
# The last links of chains of calls, without which the step would mean something else.
ENDS: Final = ("to_list", "distinct", "explain")


def smaller(program: Program) -> Iterator[Program]:
    """All programs that are one change smaller, those that lack a whole step first."""
    steps = program.steps
    for position in reversed(range(len(steps))):
        yield replace(program, steps=steps[:position] + steps[position + 1 :])
    for position in range(len(steps)):
        for step in simpler_steps(steps[position]):
            if len(step) < len(steps[position]):
                yield replace(program, steps=(*steps[:position], step, *steps[position + 1 :]))


def simpler_steps(step: str) -> Iterator[str]:
    """All expressions that are one change away from this one, each once."""
    tree = ast.parse(step, mode="eval")
    seen = {ast.unparse(tree)}
    for index, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            made = copy.deepcopy(tree)
            change(list(ast.walk(made))[index])
            text = ast.unparse(made)
            if text not in seen:
                seen.add(text)
                yield text


def _changes(node: ast.AST) -> Iterator[Change]:
    """What can be done with a node, as functions of its copy."""
    if isinstance(node, ast.Call):
        yield from (_without(index, "keywords") for index in range(len(node.keywords)))
        yield from (_with(text, index, "args") for index in range(len(node.args)) for text in SIMPLE)
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Call)
            and node.func.attr not in ENDS
        ):
            yield _without_last_link
    elif isinstance(node, ast.Dict):
        yield from (_without(index, "keys", "values") for index in range(len(node.keys)))
        complex_ones = [index for index, value in enumerate(node.values) if not isinstance(value, ast.Constant)]
        yield from (_with(text, index, "values") for index in complex_ones for text in SIMPLE)
    elif isinstance(node, ast.List | ast.Tuple):
        yield from (_without(index, "elts") for index in range(len(node.elts)))


def _without(index: int, *names: str) -> Change:
    def change(node: Any) -> None:
        for name in names:
            del getattr(node, name)[index]

    return change


def _with(text: str, index: int, name: str) -> Change:
    def change(node: Any) -> None:
        getattr(node, name)[index] = ast.parse(text, mode="eval").body

    return change


def _without_last_link(node: Any) -> None:
    """Turn ``x.a(1).b(2)`` into ``x.a(1)``."""
    call = node.func.value
    node.func, node.args, node.keywords = call.func, call.args, call.keywords
