"""Holds spec-tests/prose*.toml, the list of the specifications' prose tests, against the tests themselves."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REPOSITORY: Final = Path(__file__).resolve().parents[1]
LISTS: Final = sorted((REPOSITORY / "spec-tests").glob("prose*.toml"))
FIELDS: Final = frozenset({"specification", "number", "title"})
# A prose test has its number in its name; others may help it.
NUMBERED: Final = re.compile(r"_\d")
REASONS: Final = ("later: ", "not applicable: ")

Entry = dict[str, Any]


def entries() -> list[Entry]:
    return [entry for file in LISTS for entry in tomllib.loads(file.read_text(encoding="utf-8"))["prose"]]


def identifier(entry: Entry) -> str:
    return f"{entry.get('specification')} {entry.get('number')}"


def functions(source: str) -> list[str]:
    """The names of a module's tests."""
    return [
        node.name
        for node in parsed(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def existing(pattern: str) -> set[str]:
    """The ``path::function`` of every test in the files that match `pattern`."""
    return {
        f"{file.relative_to(REPOSITORY).as_posix()}::{name}"
        for file in REPOSITORY.glob(pattern)
        for name in functions(file.read_text(encoding="utf-8"))
    }


def malformed(listed: Iterable[Entry]) -> Iterator[str]:
    """What is wrong with the entries themselves."""
    for entry in listed:
        kinds = entry.keys() - FIELDS
        if not entry.keys() >= FIELDS or kinds not in ({"tests"}, {"reason"}):
            yield f"{identifier(entry)}: needs {', '.join(sorted(FIELDS))} and either tests or reason"
        elif not all(isinstance(entry[field], str) and entry[field] for field in FIELDS):
            yield f"{identifier(entry)}: {', '.join(sorted(FIELDS))} are texts"
        elif kinds == {"tests"} and not entry["tests"]:
            yield f"{identifier(entry)}: no test is named"
        elif kinds == {"reason"} and not any(
            entry["reason"].startswith(kind) and entry["reason"] != kind for kind in REASONS
        ):
            yield f"{identifier(entry)}: the reason is none of the allowed kinds"


def repeated(listed: Iterable[Entry]) -> list[str]:
    return [name for name, times in Counter(map(identifier, listed)).items() if times > 1]


def named(listed: Iterable[Entry]) -> set[str]:
    return {test for entry in listed for test in entry.get("tests", ())}


def test_every_entry_is_well_formed_and_unique() -> None:
    assert not list(malformed(entries()))
    assert not repeated(entries())


def test_every_named_test_exists() -> None:
    missing = named(entries()) - existing("tests/**/test_*.py")
    assert not missing


def test_every_prose_test_is_listed() -> None:
    found = {test for test in existing("tests/*/prose/**/test_*.py") if NUMBERED.search(test.partition("::")[2])}
    assert found
    unlisted = found - named(entries())
    assert not unlisted


GOOD: Final = {"specification": "s", "number": "1", "title": "t"}


@pytest.mark.parametrize(
    ("entry", "is_wrong"),
    [
        (GOOD | {"tests": ["a.py::test_a"]}, False),
        (GOOD | {"reason": "later: sharding"}, False),
        (GOOD | {"reason": "not applicable: no threads"}, False),
        (GOOD, True),
        (GOOD | {"tests": ["a.py::test_a"], "reason": "later: sharding"}, True),
        (GOOD | {"tests": []}, True),
        (GOOD | {"reason": "later: "}, True),
        (GOOD | {"reason": "too hard"}, True),
        (GOOD | {"number": 1, "tests": ["a.py::test_a"]}, True),
        (GOOD | {"title": "", "tests": ["a.py::test_a"]}, True),
        (GOOD | {"tests": ["a.py::test_a"], "note": "n"}, True),
        ({"specification": "s", "number": "1", "tests": ["a.py::test_a"]}, True),
    ],
)
def test_a_malformed_entry_is_found(entry: Entry, is_wrong: bool) -> None:
    assert bool(list(malformed([entry]))) is is_wrong


def test_an_entry_that_is_there_twice_is_found() -> None:
    assert repeated([GOOD, GOOD | {"number": "2"}, GOOD | {"title": "other"}]) == ["s 1"]


def test_only_tests_are_taken_for_tests() -> None:
    source = "async def test_a(): ...\ndef test_b(): ...\ndef helper():\n    def test_c(): ...\n"
    assert functions(source) == ["test_a", "test_b"]
