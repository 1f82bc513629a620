"""The tables of docs/metrics.md are current."""

from __future__ import annotations

from tests.support.metrics_document import FILE, document


def test_the_tables_are_current() -> None:
    current = FILE.read_text(encoding="utf-8")
    assert current == document(), "run python -m tests.support.metrics_document"
