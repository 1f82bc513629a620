"""Checks docs/seeds.md: a row for each requirement of the five seed documents, and behind each row a test that exists.

    python -m scripts.seed_rows    # the state of each table, and everything that is wrong

A row is ``| S12 | the requirement | the proof |``. A proof begins with one of:

- a test in backticks, ``tests/<file>.py::<function>`` or ``tests/<file>.py::<Class>::<method>``, or a test of a unified
  suite, ``spec-tests/suites/<file>.json::<description>``; more tests and remarks may follow,
- ``decided:``, a sentence that says what holds instead and why, and a test of that in backticks,
- ``n/a:`` and a sentence that says why the requirement does not apply to MongoDB,
- ``open:`` and what it waits for. The row must then be in `ALLOWED_OPEN`.

No test runs: test files are parsed, suites are read.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs" / "seeds.md"
# The number of requirements of each document; a new requirement gets the next number.
SEEDS: Final = {"B": 54, "R": 52, "S": 116, "Q": 107, "T": 43}
# Rows that may be open, as numbers and ranges: "3 7-12". A row that is no longer open must leave the list, so that it
# only shrinks.
ALLOWED_OPEN: Final = {
    "B": "",
    "R": "",
    "S": "",
    "Q": "",
    "T": "",
}

# Lines of tables that are no rows.
_HEADER: Final = re.compile(r"^\| (No\.|-+|:?-+:?) \|")
_ROW: Final = re.compile(r"^\| (?P<seed>[A-Z])(?P<number>[1-9]\d*) \| (?P<text>[^|]+) \| (?P<proof>[^|]+) \|$")
_QUOTED: Final = re.compile(r"`([^`]+::[^`]+)`")
_TEST_FILE: Final = re.compile(r"tests/(?:[\w/]+/)?test_\w+\.py")
_SUITE_FILE: Final = re.compile(r"spec-tests/suites/[\w/-]+\.json")
# A reason is a sentence, not a word.
_SENTENCE: Final = re.compile(r"(?:\S+ ){4,}\S+[.]$")
# A sentence, and the first of its tests.
_DECISION: Final = re.compile(r"decided: (?:\S+ ){4,}\S+[.] `[^`]+::[^`]+`")
_OPEN: Final = re.compile(r"open: \S")


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement."""

    seed: str
    number: int
    text: str
    proof: str

    @property
    def name(self) -> str:
        """The name of the row, such as S12."""
        return f"{self.seed}{self.number}"

    @property
    def kind(self) -> str:
        """``proved``, ``decided``, ``n/a``, ``open``, or ``wrong`` if the proof begins with none of them."""
        if self.proof.startswith("`") and _QUOTED.match(self.proof):
            return "proved"
        if self.proof.startswith("n/a: "):
            return "n/a"
        if self.proof.startswith("decided: "):
            return "decided"
        return "open" if _OPEN.match(self.proof) else "wrong"


def rows_of(page: str) -> tuple[list[Row], list[str]]:
    """The rows of the page, and the lines that look like rows but are not."""
    rows, malformed = [], []
    for line in page.splitlines():
        if not line.lstrip().startswith("|") or _HEADER.match(line):
            continue
        if found := _ROW.match(line):
            rows.append(Row(found["seed"], int(found["number"]), found["text"].strip(), found["proof"].strip()))
        else:
            malformed.append(f"not a row: {line}")
    return rows, malformed


def numbering(rows: Iterable[Row], seeds: Mapping[str, int] = SEEDS) -> Iterator[str]:
    """What is wrong with the numbers: missing, repeated, unknown or out of order."""
    names = [row.name for row in rows]
    expected = [f"{seed}{number}" for seed, count in seeds.items() for number in range(1, count + 1)]
    yield from (f"{name}: the row is missing" for name in expected if name not in names)
    yield from (f"{name}: the row is there {times} times" for name, times in Counter(names).items() if times > 1)
    yield from (f"{name}: there is no such requirement" for name in names if name not in expected)
    if Counter(names) == Counter(expected) and names != expected:
        first = next(name for name, right in zip(names, expected, strict=True) if name != right)
        yield f"{first}: the row is not in its place"


def statuses(rows: Iterable[Row], allowed: Mapping[str, str] = ALLOWED_OPEN) -> Iterator[str]:
    """What is wrong with the beginnings of the proofs, and with the rows that are open."""
    rows = list(rows)
    permitted = {f"{seed}{number}" for seed, ranges in allowed.items() for number in numbers_in(ranges)}
    for row in rows:
        if row.kind == "wrong":
            yield f"{row.name}: begins with no test, decided:, n/a: or open: {row.proof}"
        elif row.kind == "n/a" and not _SENTENCE.search(row.proof.removeprefix("n/a: ")):
            yield f"{row.name}: the reason is no sentence: {row.proof}"
        elif row.kind == "decided" and not _DECISION.match(row.proof):
            yield f"{row.name}: the decision is no sentence with a test: {row.proof}"
        elif row.kind == "open" and row.name not in permitted:
            yield f"{row.name}: is open: {row.proof.removeprefix('open: ')}"
    still_open = {row.name for row in rows if row.kind == "open"}
    yield from (f"{name}: is no longer open; remove it from ALLOWED_OPEN" for name in sorted(permitted - still_open))


def numbers_in(ranges: str) -> Iterator[int]:
    """The numbers of text such as ``3 7-12``."""
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def missing_tests(rows: Iterable[Row], root: Path = REPOSITORY) -> Iterator[str]:
    """The tests that the proofs name and that do not exist."""
    for row in rows:
        for reference in _QUOTED.findall(row.proof):
            path, _, name = reference.partition("::")
            if not (_TEST_FILE.fullmatch(path) or _SUITE_FILE.fullmatch(path)):
                yield f"{row.name}: {path} is neither a test file nor a suite"
            elif not (root / path).is_file():
                yield f"{row.name}: there is no file {path}"
            elif name not in tests_in(root / path):
                yield f"{row.name}: {path} has no test {name}"


@cache
def tests_in(file: Path) -> frozenset[str]:
    """The names of a file's tests: functions, methods of classes, or descriptions."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return frozenset(test["description"] for test in json.loads(text)["tests"])
    found: set[str] = set()
    for node in ast.parse(text).body:
        found.update(_functions([node]))
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found.update(f"{node.name}::{name}" for name in _functions(node.body))
    return frozenset(found)


def _functions(nodes: Iterable[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def problems(page: str) -> list[str]:
    """Everything that is wrong with the page."""
    rows, malformed = rows_of(page)
    return [*malformed, *numbering(rows), *statuses(rows), *missing_tests(rows)]


def main() -> int:
    """Print the state of each table and all problems; 1 if there are any."""
    page = PAGE.read_text(encoding="utf-8")
    counts = Counter((row.seed, row.kind) for row in rows_of(page)[0])
    for seed, total in SEEDS.items():
        kinds = ", ".join(f"{counts[seed, kind]} {kind}" for kind in ("proved", "decided", "n/a", "open"))
        print(f"{seed}: {total:3} requirements: {kinds}")
    found = problems(page)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
