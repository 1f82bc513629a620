"""How examples of methods are read from their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.site import examples as reading
from scripts.site.examples import Example, examples, introduction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = '''"""`one` is a thing,
in words.
"""

import things


async def first(one):
    # Before.
    print(await one.first())
    # > 1


async def second(two: things.Two) -> None:
    if two:
        await two.second()
'''


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "a.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(reading, "FOLDER", tmp_path)
    monkeypatch.setattr(reading, "CLASSES", {"a": "A"})
    examples.cache_clear()
    yield
    examples.cache_clear()
    introduction.cache_clear()


def test_each_function_is_an_example() -> None:
    assert examples() == (
        Example("a", "first", "one", "# Before.\nprint(await one.first())\n# > 1\n"),
        Example("a", "second", "two", "if two:\n    await two.second()\n"),
    )
    assert [str(example) for example in examples()] == ["A.first", "A.second"]
    # The introduction is one line.
    assert introduction("a") == "`one` is a thing, in words."
