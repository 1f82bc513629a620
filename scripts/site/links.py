"""Links of Markdown pages, as they are read in the repository, and as the site needs them.

A page may be read in two places, so its relative links are those of the repository. On the site, a link to another page
stays a link to that page; a link to any other file of the project leads to the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY: Final = Path(__file__).resolve().parents[2]
BRANCH: Final = "main"
# Pages of the site that are not in docs/, and their names there.
OUTSIDE: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}

_LINK: Final = re.compile(r"(?P<before>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\()(?P<target>[^()\s]+)(?P<after>\))")
_FENCE: Final = re.compile(r"^ *(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"^#{1,6} +(.*?) *#*$")
_MARKUP: Final = re.compile(r"[*`]|\]\([^)]*\)|\[")
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")


class DeadLinkError(Exception):
    """A page links to something that does not exist."""


@cache
def repository_url() -> str:
    """The address of the project, which pyproject.toml has."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def site_path(path: str) -> str | None:
    """Where the site has a file of the repository, if it has it."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def is_external(target: str) -> bool:
    """Whether a link leaves the project."""
    return re.match(r"[a-z][a-z+.-]*:", target) is not None


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page, and whether each is prose, not code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            yield line, False
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
            yield line, False
        else:
            yield line, True


def rewritten(text: str, change: Callable[[str], str]) -> str:
    """The page with every link changed. Links may be wrapped, so paragraphs are changed as a whole."""
    parts: list[str] = []
    pending = ""
    for line, is_prose in prose(text):
        if is_prose:
            pending += line
        else:
            parts += [_changed(pending, change), line]
            pending = ""
    return "".join([*parts, _changed(pending, change)])


def _changed(text: str, change: Callable[[str], str]) -> str:
    return _LINK.sub(lambda match: match["before"] + change(match["target"]) + match["after"], text)


def targets(text: str) -> list[str]:
    """The targets of all links of a page."""
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    rewritten(text, note)
    return found


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as the repository shows it."""
    found: set[str] = set()
    for line, is_prose in prose(text):
        if is_prose and (heading := _HEADING.match(line.rstrip("\n"))):
            words = _MARKUP.sub("", heading[1]).lower()
            slug = base = _NOT_IN_SLUG.sub("", words).replace(" ", "-")
            number = 0
            while slug in found:
                number += 1
                slug = f"{base}-{number}"
            found.add(slug)
    return found


def resolve(page: str, target: str, root: Path = REPOSITORY) -> str:
    """The path in the repository that a relative link of a page leads to; file and anchor must exist."""
    path, _, anchor = target.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path))) if path else page
    file = root / found
    if found.startswith("..") or not file.exists():
        raise DeadLinkError(f"{page}: {target} leads to nothing")
    if anchor and found.endswith(".md") and anchor not in slugs(file.read_text(encoding="utf-8")):
        raise DeadLinkError(f"{page}: {target} leads to no heading")
    return found


def in_repository(url: str) -> str | None:
    """The path, and the anchor if there is one, that an address of the project's repository leads to."""
    for view in (f"{repository_url()}/blob/{BRANCH}/", f"{repository_url()}/tree/{BRANCH}/", raw_url("")):
        if url.startswith(view):
            return url.removeprefix(view)
    return None


def raw_url(path: str) -> str:
    """The address of a file's bytes, for pictures."""
    host, name = "https://raw.githubusercontent.com", repository_url().removeprefix("https://github.com/")
    return f"{host}/{name}/{BRANCH}/{path}"


def for_site(page: str, target: str, root: Path = REPOSITORY) -> str:
    """A link of a page, as the site needs it."""
    if is_external(target):
        path = in_repository(target)
        if path is None:
            return target
        resolve("README.md", path, root)
        target = posixpath.relpath(path, posixpath.dirname(page) or ".")
    path = resolve(page, target, root)
    _, mark, anchor = target.partition("#")
    here, there = site_path(page), site_path(path)
    assert here is not None
    if there is None:
        view = "tree" if (root / path).is_dir() else "blob"
        return f"{repository_url()}/{view}/{BRANCH}/{path}{mark}{anchor}"
    if not target.partition("#")[0]:
        return target
    return os.path.relpath(there, posixpath.dirname(here) or ".").replace(os.sep, "/") + mark + anchor
