"""Budgets that keep the code readable: the length of functions, and how often a tool is silenced."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.syntax import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1] / "motorlite"
MAX_FUNCTION_LINES: Final = 59
TYPE_IGNORES_PER_LINE: Final = 2 / 1000
PRAGMAS_PER_LINE: Final = 0.5 / 100
# Written so that this file does not contain what it looks for.
TYPE_IGNORE: Final = re.compile(r"#\s*type:\s*ignore")
PRAGMA: Final = re.compile(r"#\s*pragma:\s*no\s*(cover|branch)")


def sources() -> dict[str, str]:
    files = sorted(ROOT.rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def long_functions(files: dict[str, str]) -> Iterator[str]:
    """Functions with too many lines; docstrings do not count, they are as long as they must be."""
    for name, text in files.items():
        for node in nodes(text):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = _lines(node) - (_lines(node.body[0]) if ast.get_docstring(node) is not None else 0)
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}: {node.name} has {lines} lines"


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def too_many(pattern: re.Pattern[str], files: dict[str, str], per_line: float) -> list[str]:
    """The lines with `pattern`, if they are more than the budget for the number of all lines."""
    lines = [(name, line.strip()) for name, text in files.items() for line in text.splitlines()]
    found = [f"{name}: {line}" for name, line in lines if pattern.search(line)]
    return found if len(found) > per_line * len(lines) else []


def test_functions_are_short() -> None:
    found = list(long_functions(sources()))
    assert not found


def test_type_ignores_are_rare() -> None:
    found = too_many(TYPE_IGNORE, sources(), TYPE_IGNORES_PER_LINE)
    assert not found, "\n".join(found)


def test_coverage_pragmas_are_rare() -> None:
    found = too_many(PRAGMA, sources(), PRAGMAS_PER_LINE)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("statements", "is_caught"), [(58, False), (59, True)])
def test_a_long_function_is_found(statements: int, is_caught: bool) -> None:
    body = '    """One.\n\n    Two."""\n' + "    pass\n" * statements
    assert bool(list(long_functions({"a.py": "def f():\n" + body}))) is is_caught
    assert bool(list(long_functions({"a.py": "async def f():\n" + body}))) is is_caught


@pytest.mark.parametrize(
    ("line", "pattern", "per_line"),
    [
        ("x = 1  # type" + ": ignore[misc]\n", TYPE_IGNORE, TYPE_IGNORES_PER_LINE),
        ("x = 1  # pragma" + ": no cover\n", PRAGMA, PRAGMAS_PER_LINE),
        ("x = 1  # pragma" + ": no branch\n", PRAGMA, PRAGMAS_PER_LINE),
    ],
)
def test_looking_away_is_counted(line: str, pattern: re.Pattern[str], per_line: float) -> None:
    allowed = int(per_line * 1000)
    assert not too_many(pattern, {"a.py": line * allowed + "x\n" * (1000 - allowed)}, per_line)
    assert too_many(pattern, {"a.py": line * (allowed + 1) + "x\n" * (999 - allowed)}, per_line)
