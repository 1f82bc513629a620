"""What the check of a built site notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.site.built import problems
from scripts.site.links import repository_url

if TYPE_CHECKING:
    from pathlib import Path

URL = repository_url()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "style.css").touch()
    (tmp_path / "deep" / "two.html").write_text("<h1 id='two'>Two</h1><a name='old'></a>", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "html",
    [
        "<a href='deep/two.html'></a>",
        "<a href='deep/two.html#two'></a>",
        "<a href='deep/two.html#old'></a>",
        "<h1 id='one'></h1><a href='#one'></a>",
        "<link rel='stylesheet' href='style.css'><img src='data:image/png;base64,AA'>",
        "<a href='https://example.com/nothing'></a>",
        f"<a href='{URL}'></a><a href='{URL}/blob/main/docs/index.md'></a><a href='{URL}/issues'></a>",
    ],
)
def test_links_that_are_fine(site: Path, html: str) -> None:
    (site / "index.html").write_text(html, encoding="utf-8")
    assert list(problems(site)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("<a href='three.html'></a>", "leads to nothing"),
        ("<a href='../outside.html'></a>", "leads to nothing"),
        ("<img src='picture.svg'>", "leads to nothing"),
        ("<a href='deep/two.html#three'></a>", "leads to no heading"),
        ("<a href='#one'></a>", "leads to no heading"),
        ("<script src='https://example.com/x.js'></script>", "is fetched from another host"),
        ("<link rel='preconnect' href='https://example.com'>", "is fetched from another host"),
        ("<img src='//example.com/x.png'>", "is fetched from another host"),
        ("<pre class='mermaid'>graph</pre>", "a diagram whose script would be fetched"),
        (f"<a href='{URL}/blob/main/docs/nothing.md'></a>", "leads to no file of the repository"),
        (f"<a href='{URL}/wiki'></a>", "leads to an unknown page of the project"),
    ],
)
def test_links_that_are_not(site: Path, html: str, problem: str) -> None:
    (site / "index.html").write_text(html, encoding="utf-8")
    (found,) = problems(site)
    assert found.startswith("index.html: ")
    assert found.endswith(problem)
