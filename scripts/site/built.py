"""Checks a site that has been built: links, anchors, and that nothing comes from another host."""

from __future__ import annotations

import posixpath
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from scripts.site.links import DeadLinkError, in_repository, is_external, repository_url, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Attributes whose resource a browser fetches when it shows the page.
FETCHED: Final = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
# A page that any address may lead to, whose links therefore begin at the root of the site.
ANYWHERE: Final = "404.html"
# What Material would fetch a script for.
DIAGRAM: Final = "mermaid"


class Document(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.has_diagram = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag defines and what it links to."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append((tag, name, value))
            elif name == "class" and DIAGRAM in value.split():
                self.has_diagram = True


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
        for tag, attribute, target in document(file).links:
            if found := _problem(site, page, tag, attribute, target):
                yield f"{page}: {target} {found}"


def _problem(site: Path, page: str, tag: str, attribute: str, target: str) -> str:
    """What is wrong with a link; nothing if it is fine."""
    if is_external(target) or target.startswith("//"):
        if target.startswith("data:"):
            return ""
        return "is fetched from another host" if (tag, attribute) in FETCHED else _outside(target)
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
