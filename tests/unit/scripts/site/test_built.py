"""What the check of a built site notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.site.built import problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "style.css").touch()
    (tmp_path / "deep" / "p.svg").touch()
    known = "'http://www.w3.org/2000/svg' + 'https://unpkg.com/mermaid@11/dist/mermaid.min.js' // https://example.com"
    (tmp_path / "known.js").write_text(known, encoding="utf-8")
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
        "<picture><source srcset='deep/p.svg' media='(max-width: 9em)'><img srcset='deep/p.svg 2x' src='deep/p.svg'>",
        "<p style='background: url(deep/p.svg)'></p><style>p {background: url(\"data:image/png;base64,AA\")}</style>",
        "<script>const a = 'deep/p.svg'</script><script src='known.js'></script>",
    ],
)
def test_links_that_are_fine(site: Path, html: str) -> None:
    (site / "index.html").write_text(html, encoding="utf-8")
    assert list(problems(site)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
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
        ("<img srcset='style.css 1x, https://example.com/x.png 2x'>", "is fetched from another host"),
        ("<picture><source srcset='none.svg'></picture>", "leads to nothing"),
        ("<video poster='https://example.com/x.png'></video>", "is fetched from another host"),
        ("<object data='https://example.com/x.svg'></object>", "is fetched from another host"),
        ("<p style='background: url(https://example.com/x.png)'></p>", "is fetched by a style"),
        ("<style>@import '//example.com/x.css';</style>", "is fetched by a style"),
        ("<script>fetch('https://example.com/x')</script>", "is named by a script that may fetch it"),
        ("<a href='deep/two.html' data-md-component='source'></a>", "an element for which the theme asks another host"),
        # Styles and scripts of their own.
        ('a {background: url("https://example.com/x.woff")}', "is fetched by a style"),
        ("@import url(//example.com/x.css);", "is fetched by a style"),
        ("const a = `https://example.com/facts`", "is named by a script that may fetch it"),
    ],
)
def test_what_is_not(site: Path, text: str, problem: str) -> None:
    file = "index.html" if text.startswith("<") else "x.js" if "script" in problem else "x.css"
    (site / file).write_text(text, encoding="utf-8")
    (found,) = problems(site)
    assert found.startswith(f"{file}: ")
    assert found.endswith(problem)


@pytest.mark.parametrize(("width", "count"), [(100, 0), (101, 1)])
def test_a_signature_that_no_formatter_has_wrapped(site: Path, width: int, count: int) -> None:
    line = f"<span>f</span>(a: &quot;{'b' * (width - 8)}&quot;)"
    html = f"<div class='x doc-signature highlight\"><pre>def g(\n{line}\n)</pre></div>"
    (site / "index.html").write_text(html, encoding="utf-8")
    found = list(problems(site))
    assert len(found) == count
    assert all(problem.startswith("index.html: a signature is not wrapped: f(a: ") for problem in found)
