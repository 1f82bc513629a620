from __future__ import annotations

from benchmarks.figures import align, markdown


def test_columns_are_aligned() -> None:
    assert align([("a", "1"), ("long", "1,000")]) == "a         1\nlong  1,000"


def test_a_table_in_markdown_has_a_head() -> None:
    assert markdown([("", "n"), ("a", "1")]) == "|  | n |\n| --- | --- |\n| a | 1 |"
