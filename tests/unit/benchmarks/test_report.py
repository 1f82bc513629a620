from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import align, judge, markdown

if TYPE_CHECKING:
    import pytest


def test_columns_are_aligned() -> None:
    assert align([("a", "1"), ("long", "1,000")]) == "a         1\nlong  1,000"


def test_a_table_in_markdown_has_a_head() -> None:
    assert markdown([("", "n"), ("a", "1")]) == "|  | n |\n| --- | --- |\n| a | 1 |"


def test_all_conditions_must_be_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert (judge([("a", True)]), judge([("a", True), ("b", False)]), judge([])) == (0, 1, 1)
    assert capsys.readouterr().out.splitlines() == ["met: a", "met: a", "NOT MET: b"]
