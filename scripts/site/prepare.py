"""Writes the folder that the generator reads: the pages of docs/, others of the project, and the API reference.

Nothing here depends on the generator. What it needs (links, navigation, the address of the project) is in the folder
and in a configuration beside it, so another generator that reads mkdocs.yml can take its place.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import yaml

from scripts.site import reference
from scripts.site.links import OUTSIDE, REPOSITORY, for_site, repository_url, rewritten, site_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIGURATION: Final = REPOSITORY / "mkdocs.yml"
REFERENCE: Final = "reference"
# Where mkdocs.yml wants the pages of the API reference.
PLACE: Final = "reference/"
# Pages on the site for those who change the driver: in a section of their own, and not found by the search.
INTERNAL: Final = (
    "architecture.md",
    "contributing.md",
    "seeds.md",
    *(f"decisions/{page.name}" for page in (REPOSITORY / "docs/decisions").glob("*.md")),
)
_HIDDEN: Final = "---\nsearch:\n  exclude: true\n---\n\n"
# The reference repeats the words of the guide in hundreds of entries.
_BEHIND: Final = "---\nsearch:\n  boost: 0.5\n---\n\n"


def markdown_files(root: Path = REPOSITORY) -> Iterator[str]:
    """The paths of all pages of the site that are written by hand."""
    for file in sorted((root / "docs").rglob("*.md")):
        yield file.relative_to(root).as_posix()
    yield from OUTSIDE


def prepare(folder: Path, site: Path) -> Path:
    """Write ``docs`` and ``mkdocs.yml`` anew, and return the latter; `site` is where the generator writes."""
    source = folder / "docs"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(REPOSITORY / "docs", source)
    for path in markdown_files():
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        name = str(site_path(path))
        hidden = _HIDDEN if name in INTERNAL else ""
        (source / name).write_text(hidden + rewritten(text, partial(for_site, path)), encoding="utf-8")
    pages = reference.pages()
    (source / REFERENCE).mkdir()
    for page in pages:
        (source / REFERENCE / page.file).write_text(_BEHIND + page.text, encoding="utf-8")
    written = folder / CONFIGURATION.name
    written.write_text(yaml.safe_dump(configuration(source, site, pages), sort_keys=False), encoding="utf-8")
    return written


def configuration(source: Path, site: Path, pages: list[reference.Page]) -> dict[str, Any]:
    """mkdocs.yml with the folders, the address of the project and the pages of the reference."""
    read: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    listed = [{page.title: f"{REFERENCE}/{page.file}"} for page in pages]
    nav = [
        {title: listed if entries == PLACE else entries for title, entries in section.items()}
        for section in read["nav"]
    ]
    # Not `repo_url`: with it, every page asks the host of the repository for its stars.
    link = {"icon": "fontawesome/brands/git-alt", "link": repository_url(), "name": "The repository"}
    extra = read["extra"] | {"social": [link]}
    return read | {"docs_dir": str(source), "site_dir": str(site), "extra": extra, "nav": nav}
