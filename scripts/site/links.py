"""Links and headings of Markdown pages, as they are read in the repository."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from markdown_it import MarkdownIt

from scripts.site.hooks import URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Where the repository shows a file, and where it has the bytes of pictures.
VIEWS: Final = (f"{URL}/blob/main/", f"{URL}/tree/main/")
RAW: Final = f"{URL.replace('//github.com', '//raw.githubusercontent.com')}/main/"


def is_external(target: str) -> bool:
    """Whether a link leaves the project."""
    return re.match(r"[a-z][a-z+.-]*:", target) is not None


def in_repository(url: str) -> str | None:
    """The path, and the anchor if there is one, that an address of the project's repository leads to."""
    return next((url.removeprefix(view) for view in (*VIEWS, RAW) if url.startswith(view)), None)


def _inline(text: str) -> Iterator[tuple[str, list[Token]]]:
    """The kind of each block of a page, and what is in it."""
    tokens = MarkdownIt().enable("table").parse(text)
    for before, token in pairwise(tokens):
        if token.type == "inline":
            yield before.type, token.children or []


def targets(text: str) -> list[str]:
    """The targets of all links and pictures of a page."""
    found = [child.attrGet("href") or child.attrGet("src") for _, children in _inline(text) for child in children]
    return [str(target) for target in found if target]


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as the repository shows it."""
    found: set[str] = set()
    for kind, children in _inline(text):
        if kind == "heading_open":
            words = "".join(child.content for child in children).lower()
            base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            numbers = (f"{base}-{number}" if number else base for number in range(len(found) + 1))
            found.add(next(slug for slug in numbers if slug not in found))
    return found


def problem(page: str, target: str, root: Path = REPOSITORY) -> str:
    """What is wrong with a relative link of a page: file and anchor must exist. Nothing if it is fine."""
    path, _, anchor = target.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path))) if path else page
    file = root / found
    if found.startswith("..") or not file.exists():
        return f"{page}: {target} leads to nothing"
    if anchor and found.endswith(".md") and anchor not in slugs(file.read_text(encoding="utf-8")):
        return f"{page}: {target} leads to no heading"
    return ""
