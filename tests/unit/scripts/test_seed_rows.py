"""What the check of docs/seeds.md notices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import seed_rows
from scripts.seed_rows import Row, missing_tests, numbering, numbers_in, rows_of, statuses

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = {"A": 2, "B": 1}
HERE = Path(__file__).relative_to(seed_rows.REPOSITORY).as_posix()
SUITE = "spec-tests/suites/token-bucket/capacity.json"


def named(*names: str, proof: str = "") -> list[Row]:
    return [Row(name[0], int(name[1:]), "a text", proof) for name in names]


def messages(found: Iterator[str]) -> list[str]:
    """The names of the rows that are wrong, and the first words about them."""
    return [" ".join(message.split()[:4]) for message in found]


def test_rows() -> None:
    page = "\n".join(
        [
            "A line of text | with a bar.",
            "",
            "| No. | requirement | proof |",
            "| --- | --- | --- |",
            "| A1 | text and `code` | `tests/test_a.py::test_b`, and more |",
            "| A12 | other text | n/a: why |",
        ]
    )
    first = Row("A", 1, "text and `code`", "`tests/test_a.py::test_b`, and more")
    second = Row("A", 12, "other text", "n/a: why")
    assert rows_of(page) == ([first, second], [])
    assert (first.name, second.name) == ("A1", "A12")


@pytest.mark.parametrize(
    "line",
    [
        "| A1 | text |",
        "| A1 | text | proof",
        "| A1 | text | proof | more |",
        "| A1 |  | proof |",
        "| 1 | text | proof |",
        "| A0 | text | proof |",
        "| A01 | text | proof |",
        "| a1 | text | proof |",
        " | A1 | text | proof |",
    ],
)
def test_what_only_looks_like_a_row_is_a_problem(line: str) -> None:
    assert rows_of(line) == ([], [f"not a row: {line}"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["A1", "A2", "B1"], []),
        (["A1", "B1"], ["A2: the row is"]),
        ([], ["A1: the row is", "A2: the row is", "B1: the row is"]),
        (["A1", "A2", "A2", "B1"], ["A2: the row is"]),
        (["A1", "A2", "A3", "B1"], ["A3: there is no"]),
        (["A1", "A2", "B1", "C1"], ["C1: there is no"]),
        (["A2", "A1", "B1"], ["A2: the row is"]),
        (["B1", "A1", "A2"], ["B1: the row is"]),
    ],
)
def test_numbers(names: list[str], expected: list[str]) -> None:
    assert messages(numbering(named(*names), SEEDS)) == expected


@pytest.mark.parametrize(
    ("proof", "kind"),
    [
        ("`tests/test_a.py::test_b`", "proved"),
        ("`tests/test_a.py::test_b`, `tests/test_a.py::test_c`: a remark.", "proved"),
        ("`tests/test_a.py`", "wrong"),
        ("see `tests/test_a.py::test_b`", "wrong"),
        ("decided: otherwise", "decided"),
        ("decided", "wrong"),
        ("n/a: why it is not", "n/a"),
        ("n/a", "wrong"),
        ("open: a part", "open"),
        ("open:", "wrong"),
        ("open", "wrong"),
        ("done", "wrong"),
    ],
)
def test_kinds(proof: str, kind: str) -> None:
    (row,) = named("A1", proof=proof)
    assert row.kind == kind
    assert ("A1: begins with no" in messages(statuses([row], {}))) is (kind == "wrong")


@pytest.mark.parametrize(
    ("reason", "is_enough"),
    [
        ("MongoDB has no such response code.", True),
        ("MongoDB has no such response code", False),
        ("not applicable.", False),
        ("later.", False),
    ],
)
def test_a_reason_is_a_sentence(reason: str, is_enough: bool) -> None:
    assert bool(list(statuses(named("A1", proof=f"n/a: {reason}"), {}))) is not is_enough


@pytest.mark.parametrize(
    ("decision", "is_enough"),
    [
        ("the option is off by default here. `tests/test_a.py::test_b`", True),
        ("`queue` alone is complete, by its defaults. `tests/test_a.py::test_b`, `tests/test_a.py::test_c`", True),
        ("the option is off by default here.", False),
        ("the option is off by default here `tests/test_a.py::test_b`", False),
        ("it is off. `tests/test_a.py::test_b`", False),
        ("the option is off by default here. `tests/test_a.py`", False),
    ],
)
def test_a_decision_is_a_sentence_and_a_test(decision: str, is_enough: bool) -> None:
    assert bool(list(statuses(named("A1", proof=f"decided: {decision}"), {}))) is not is_enough


def test_open_rows_must_be_allowed_and_the_list_only_shrinks() -> None:
    rows = [*named("A1", proof="open: a part"), *named("A2", "B1", proof="n/a: there is no such thing here.")]
    assert list(statuses(rows, {"A": "1"})) == []
    assert list(statuses(rows, {"A": ""})) == ["A1: is open: a part"]
    assert list(statuses(rows, {"A": "1-2", "B": "1"})) == [
        "A2: is no longer open; remove it from ALLOWED_OPEN",
        "B1: is no longer open; remove it from ALLOWED_OPEN",
    ]


def test_ranges() -> None:
    assert list(numbers_in("")) == []
    assert list(numbers_in("3 7-9 12")) == [3, 7, 8, 9, 12]


class TestMethod:
    def test_of_a_class(self) -> None:
        proof = f"`{HERE}::TestMethod::test_of_a_class`"
        assert list(missing_tests(named("A1", proof=proof))) == []


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        (f"{HERE}::test_kinds", None),
        (f"{SUITE}::an empty bucket: reads, writes and commands are not retried", None),
        (f"{HERE}::test_nothing", "has no test test_nothing"),
        (f"{HERE}::test_of_a_class", "has no test test_of_a_class"),
        (f"{HERE}::test_kinds[done]", "has no test test_kinds[done]"),
        (f"{HERE}::messages", "has no test messages"),
        (f"{SUITE}::no such description", "has no test no such description"),
        ("tests/unit/test_nothing.py::test_a", "there is no file tests/unit/test_nothing.py"),
        ("tests/support/core.py::driver", "is neither a test file nor a suite"),
        ("../test_a.py::test_a", "is neither a test file nor a suite"),
    ],
)
def test_every_named_test_must_exist(reference: str, problem: str | None) -> None:
    # The second one of a proof as well, and those in a reason.
    for proof in (f"`{reference}`", f"`{HERE}::test_rows`, `{reference}`", f"n/a: there is none, see `{reference}`."):
        found = list(missing_tests(named("A1", proof=proof)))
        assert len(found) == (problem is not None)
        assert all(message.startswith("A1: ") and str(problem) in message for message in found)


def test_a_function_in_a_function_is_no_test(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text("def test_a():\n    def test_b(): ...\nclass Help:\n    def test_c(self): ...\n")
    assert seed_rows.tests_in(file) == {"test_a"}


def test_the_state_of_each_table_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "seeds.md"
    monkeypatch.setattr(seed_rows, "PAGE", page)
    page.write_text(f"| B1 | text | `{HERE}::test_kinds` |\n| B2 | text | n/a: there is no such thing here. |\n")
    assert seed_rows.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "B:  54 requirements: 1 proved, 0 decided, 1 n/a, 0 open"
    assert "B3: the row is missing" in lines
