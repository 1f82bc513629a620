"""What the search of the site finds, with the theme's own script."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from scripts.site import built as search

_MATERIAL = importlib.util.find_spec("material")
assert _MATERIAL is not None
assert _MATERIAL.origin is not None
WORKER = search.worker_of(Path(_MATERIAL.origin).parent / "templates")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Three pages; the separator is that of mkdocs.yml in short."""
    fields = {"title": {"boost": 1000.0}, "text": {"boost": 1.0}, "tags": {"boost": 1000000.0}}
    config: dict[str, Any] = {"lang": ["en"], "separator": r"[\s.]+", "pipeline": ["stopWordFilter"], "fields": fields}
    docs = [
        {"location": "a.html", "title": "From Motor", "text": "motor"},
        {"location": "a.html#one", "title": "One", "text": "seldom"},
        {"location": "b.html", "title": "package.exporters", "text": "motorlite"},
        {"location": "inner.html", "title": "Inside", "text": "motor"},
    ]
    (tmp_path / "search").mkdir()
    (tmp_path / search.INDEX).write_text(json.dumps({"config": config, "docs": docs}), encoding="utf-8")
    return tmp_path


def node() -> str:
    found = search.node()
    assert found is not None, "the extra dev brings one"
    return found


def test_the_first_answer_counts(site: Path) -> None:
    first = {"Motor": "a.html", "exporters": "b.html", "seldom": "a.html#one", "nowhere": "a.html", "inside": "b.html"}
    assert list(search.missed(node(), WORKER, site / search.INDEX, first)) == [
        "search: 'nowhere' finds nothing before a.html",
        "search: 'inside' finds inner.html before b.html",
    ]


def test_pages_of_contributors_are_left_out(site: Path) -> None:
    assert list(search.left_out(site, frozenset({"inner.html", "other.html"}))) == [
        "inner.html: is found by the search"
    ]


def test_readers_look_for_pages_that_exist() -> None:
    folder = Path(__file__).parents[4] / "docs"
    for page in search.FIRST.values():
        assert page.startswith("reference/motorlite.") or (folder / page).with_suffix(".md").exists(), page
