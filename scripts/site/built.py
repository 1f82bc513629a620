"""Checks a site that has been built: links, anchors, and that nothing comes from another host."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from scripts.site.links import DeadLinkError, in_repository, is_external, repository_url, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Links that wait for a click. What any other attribute names, a browser fetches when it shows the page.
CLICKED: Final = {("a", "href"), ("area", "href")}
ADDRESSES: Final = ("data", "href", "poster", "src", "srcset", "xlink:href")
# The index of the search, as a script (scripts/site/__main__.py).
SEARCH: Final = PurePath("search/search_index.js")
# A page that any address may lead to, whose links therefore begin at the root of the site.
ANYWHERE: Final = "404.html"
# What Material would fetch a script for.
DIAGRAM: Final = "mermaid"
# Material asks the host of the repository for its stars where a page has this element.
FACTS: Final = "source"
# Addresses in Material's scripts that are not fetched: names of vocabularies, and what only such a diagram, such an
# element, or a browser without ResizeObserver (none since 2020) needs.
IN_SCRIPTS: Final = (
    "http://www.w3.org/",
    "https://api.github.com/",
    "https://unpkg.com/mermaid@",
    "https://unpkg.com/resize-observer-polyfill",
)
# Signatures are wrapped if mkdocstrings finds ruff; a longer line scrolls on every screen.
SIGNATURE_WIDTH: Final = 100
_SIGNATURE: Final = re.compile(r'doc-signature highlight"><pre>(.*?)</pre>', re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_IN_STYLE: Final = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")
_IN_SCRIPT: Final = re.compile(r"""["'`](https?://[\w.-]+[^"'`\s]*)""")


class Document(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.has_diagram = False
        self.has_facts = False
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag defines and what it links to."""
        self._inside = tag
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name == "srcset":
                self.links += [(tag, name, candidate.split()[0]) for candidate in value.split(",")]
            elif name in ADDRESSES:
                self.links.append((tag, name, value))
            elif name == "style":
                self.styles.append(value)
            self.has_diagram = self.has_diagram or (name == "class" and DIAGRAM in value.split())
            self.has_facts = self.has_facts or (name == "data-md-component" and value == FACTS)

    def handle_data(self, data: str) -> None:
        """Note styles and scripts."""
        if self._inside == "style":
            self.styles.append(data)
        elif self._inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Note where a style or script ends."""
        self._inside = ""


@cache
def document(file: Path) -> Document:
    """A page of the site, read once."""
    return Document(file.read_text(encoding="utf-8"))


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site, as lines."""
    for file in sorted(site.rglob("*.html")):
        page = file.relative_to(site).as_posix()
        if document(file).has_diagram:
            yield f"{page}: a diagram whose script would be fetched"
        if document(file).has_facts:
            yield f"{page}: an element for which the theme asks another host"
        for signature in _SIGNATURE.findall(file.read_text(encoding="utf-8")):
            for line in unescape(_TAG.sub("", signature)).splitlines():
                if len(line) > SIGNATURE_WIDTH:
                    yield f"{page}: a signature is not wrapped: {line[:SIGNATURE_WIDTH]}..."
        for style in document(file).styles:
            yield from _fetched_by_style(page, style)
        for script in document(file).scripts:
            yield from _named_by_script(page, script)
        for tag, attribute, target in document(file).links:
            if found := _problem(site, page, tag, attribute, target):
                yield f"{page}: {target} {found}"

    for file in sorted(site.rglob("*.css")):
        yield from _fetched_by_style(file.relative_to(site).as_posix(), file.read_text(encoding="utf-8"))
    for file in sorted(site.rglob("*.js")):
        # The index of the search is text.
        if file.name != SEARCH.name:
            yield from _named_by_script(file.relative_to(site).as_posix(), file.read_text(encoding="utf-8"))


def _fetched_by_style(name: str, text: str) -> Iterator[str]:
    for target in _IN_STYLE.findall(text):
        yield f"{name}: {target} is fetched by a style"


def _named_by_script(name: str, text: str) -> Iterator[str]:
    for target in _IN_SCRIPT.findall(text):
        if not target.startswith(IN_SCRIPTS):
            yield f"{name}: {target} is named by a script that may fetch it"


def _problem(site: Path, page: str, tag: str, attribute: str, target: str) -> str:
    """What is wrong with a link; nothing if it is fine."""
    if is_external(target) or target.startswith("//"):
        if target.startswith("data:"):
            return ""
        return _outside(target) if (tag, attribute) in CLICKED else "is fetched from another host"
    path, _, anchor = target.partition("#")
    path = unquote(path)
    if page == ANYWHERE or path.startswith("/"):
        found = posixpath.normpath(path.lstrip("/") or ".")
    else:
        found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    file = site / found
    if file.is_dir():
        file /= "index.html"
    if not file.is_relative_to(site) or not file.exists():
        return "leads to nothing"
    # Material's own link to the top of a page, which every browser knows.
    if anchor and anchor != "__top" and file.suffix == ".html" and unquote(anchor) not in document(file).anchors:
        return "leads to no heading"
    return ""


def _outside(target: str) -> str:
    """What is wrong with a link to another host: only those to the project can be checked without a network."""
    if not target.startswith(repository_url() + "/"):
        return ""
    path = in_repository(target)
    if path is None:
        # Pages that no commit has, such as the list of issues.
        return "" if target.removeprefix(repository_url()) in KNOWN else "leads to an unknown page of the project"
    try:
        resolve("README.md", path)
    except DeadLinkError:
        return "leads to no file of the repository"
    return ""


# Pages of the project's host that are no files.
KNOWN: Final = ("/issues", "/security/advisories/new", "/releases")
