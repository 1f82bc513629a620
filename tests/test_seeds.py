"""Each requirement of the seed documents is proved by a test that exists, or does not apply, or may still be open.

A row of docs/seeds.md is ``| S12 | the requirement | the proof |``. A proof begins with one of:

- a test in backticks, ``tests/<file>.py::<function>`` or ``tests/<file>.py::<Class>::<method>``, or a test of a unified
  suite, ``spec-tests/suites/<file>.json::<description>``; more tests and remarks may follow,
- ``decided:``, a sentence that says what holds instead and why, and a test of that in backticks,
- ``n/a:`` and a sentence that says why the requirement does not apply to MongoDB,
- ``open:`` and what it waits for. The row must then be in `OPEN`.

The page is the source, and no marker on tests: a test proves several rows, and many rows add words to it.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

REPOSITORY: Final = Path(__file__).resolve().parents[1]
# The number of requirements of each document; a new requirement gets the next number.
SEEDS: Final = {"B": 54, "R": 52, "S": 116, "Q": 107, "T": 43}
# Rows that may be open. A row that is no longer open must leave the list, so that it only shrinks.
OPEN: Final[frozenset[str]] = frozenset()

ROW: Final = re.compile(r"\| ([A-Z]\d+) \| [^|]+ \| ([^|]+) \|")
HEADER: Final = re.compile(r"\| (No\.|-+) \|")
QUOTED: Final = re.compile(r"`([^`]+::[^`]+)`")
TEST_FILE: Final = re.compile(r"tests/(?:[\w/]+/)?test_\w+\.py|spec-tests/suites/[\w/-]+\.json")
# A reason is a sentence, not a word.
PROOF: Final = re.compile(
    r"`[^`]+::[^`]+`.*|decided: (?:\S+ ){4,}\S+[.] `[^`]+::[^`]+`.*|n/a: (?:\S+ ){4,}\S+[.]|(?P<open>open: \S.*)"
)


@cache
def named_in(file: Path) -> frozenset[str]:
    """The names of a file's tests: functions, methods of classes, or descriptions."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return frozenset(test["description"] for test in json.loads(text)["tests"])
    body = parsed(text).body
    classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]
    named = [("", node) for node in body] + [(f"{each.name}::", node) for each in classes for node in each.body]
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(
        prefix + node.name for prefix, node in named if isinstance(node, functions) and node.name.startswith("test_")
    )


def problems(page: str, seeds: Mapping[str, int] = SEEDS, may_be_open: Collection[str] = OPEN) -> Iterator[str]:
    """Everything that is wrong with the page. No test runs: test files are parsed, suites are read."""
    names, still_open = [], set()
    for line in page.splitlines():
        if not line.lstrip().startswith("|") or HEADER.match(line):
            continue
        row = ROW.fullmatch(line)
        if row is None:
            yield f"not a row: {line}"
            continue
        name, proof = row[1], row[2].strip()
        names.append(name)
        kind = PROOF.fullmatch(proof)
        if kind is None:
            yield f"{name}: begins with no test, or is no sentence: {proof}"
        elif kind["open"]:
            still_open.add(name)
        for reference in QUOTED.findall(proof):
            path, _, test = reference.partition("::")
            if not TEST_FILE.fullmatch(path) or not (REPOSITORY / path).is_file():
                yield f"{name}: there is no test file {path}"
            elif test not in named_in(REPOSITORY / path):
                yield f"{name}: {path} has no test {test}"
    expected = [f"{seed}{number}" for seed, count in seeds.items() for number in range(1, count + 1)]
    yield from (f"{name}: is missing" for name in expected if name not in names)
    if names != [name for name in expected if name in names]:
        yield f"unknown, repeated or in another order: {', '.join(names)}"
    yield from (f"{name}: is open, or no longer open" for name in sorted(still_open ^ set(may_be_open)))


def test_every_requirement_has_its_row() -> None:
    assert list(problems((REPOSITORY / "docs" / "seeds.md").read_text(encoding="utf-8"))) == []


HERE: Final = Path(__file__).relative_to(REPOSITORY).as_posix()
GOOD: Final = f"`{HERE}::test_every_requirement_has_its_row`"
SUITE: Final = "spec-tests/suites/token-bucket/capacity.json"


class TestMethod:
    def test_of_a_class(self) -> None:
        assert list(problems(f"| A1 | text | `{HERE}::TestMethod::test_of_a_class` |", {"A": 1})) == []


@pytest.mark.parametrize(
    ("proof", "problem"),
    [
        (GOOD, None),
        (f"{GOOD}, {GOOD}: a remark.", None),
        (f"`{SUITE}::an empty bucket: reads, writes and commands are not retried`", None),
        (f"decided: the option is off by default. {GOOD}", None),
        ("n/a: MongoDB has no such code.", None),
        ("open: a part", "is open"),
        ("open:", "begins with"),
        (f"see {GOOD}", "begins with"),
        (f"`{HERE}`", "begins with"),
        ("decided: the option is off by default.", "begins with"),
        (f"decided: it is off. {GOOD}", "begins with"),
        ("n/a: later.", "begins with"),
        ("n/a: MongoDB has no such code", "begins with"),
        (f"`{HERE}::test_nothing`", "has no test test_nothing"),
        (f"{GOOD}, `{HERE}::test_of_a_class`", "has no test test_of_a_class"),
        (f"`{HERE}::problems`", "has no test problems"),
        (f"n/a: MongoDB has none, see `{SUITE}::nothing`.", "has no test nothing"),
        ("`tests/test_nothing.py::test_a`", "there is no test file"),
        ("`tests/support/core.py::driver`", "there is no test file"),
    ],
)
def test_proofs(proof: str, problem: str | None) -> None:
    found = list(problems(f"| No. | requirement | proof |\n| --- | --- | --- |\n| A1 | text | {proof} |", {"A": 1}))
    assert len(found) == (problem is not None)
    assert all(line.startswith("A1: ") and str(problem) in line for line in found)


@pytest.mark.parametrize(
    ("names", "count"),
    [("A1 A2 B1", 0), ("A1 B1", 1), ("", 3), ("A1 A2 A2 B1", 1), ("A1 A2 A3 B1", 1), ("A2 A1 B1", 1), ("A01 A2 B1", 2)],
)
def test_numbers(names: str, count: int) -> None:
    page = "\n".join(f"| {name} | text | {GOOD} |" for name in names.split())
    assert len(list(problems(page, {"A": 2, "B": 1}))) == count


@pytest.mark.parametrize("line", ["| A1 | text |", "| A1 | t | p", "| A1 | t | p | more |", "| a1 | t | p |", " | A1"])
def test_what_only_looks_like_a_row_is_a_problem(line: str) -> None:
    assert list(problems(line, {})) == [f"not a row: {line}"]


def test_the_list_of_open_rows_only_shrinks() -> None:
    page = f"| A1 | text | open: a part |\n| A2 | text | {GOOD} |"
    assert list(problems(page, {"A": 2}, {"A1"})) == []
    assert list(problems(page, {"A": 2}, {"A1", "A2"})) == ["A2: is open, or no longer open"]
