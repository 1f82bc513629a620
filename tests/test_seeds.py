"""Each requirement of the seed documents is proved by a test that exists, or does not apply, or may still be open."""

from __future__ import annotations

from scripts import seed_rows


def test_every_requirement_has_its_row() -> None:
    assert not seed_rows.problems(seed_rows.PAGE.read_text(encoding="utf-8"))
