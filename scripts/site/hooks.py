"""Hooks of MkDocs: `make docs` builds the site offline, and MkDocs' strict mode makes every warning an error.

Pages are written for those who read them in the repository. Here, those outside of docs/ and the API reference join
them, and links to files that the site does not have lead to the repository. MkDocs checks links between pages, and
`scripts.site.built` what came of it all.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mkdocs.structure.files import File

from scripts.site import built, reference

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# The address of the project is in pyproject.toml alone.
URL: Final = str(
    tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
)
# Pages of the site that are not in docs/, by their names there.
OUTSIDE: Final = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
# Pages for those who change the driver: in a section of their own, and not found by the search.
_DECISIONS: Final = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
INTERNAL: Final = ("architecture.md", "contributing.md", "seeds.md", *(f"decisions/{page.name}" for page in _DECISIONS))
_FENCE_OR_LINK: Final = re.compile(r"^ *(`{3,}).*?^ *\1`*$|(?<=\]\()[^()\s]+(?=\))", re.DOTALL | re.MULTILINE)
_log: Final = logging.getLogger("mkdocs.hooks.site")


def on_config(config: MkDocsConfig) -> None:
    """Add the address of the project and the pages of the reference to the settings."""
    # Not `repo_url`: with it, every page asks the host of the repository for its stars.
    config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": URL, "name": "The repository"}]
    (section,) = (each for each in config.nav or () if "API reference" in each)
    section["API reference"] = [{page.title: f"reference/{page.file}"} for page in reference.pages()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are not in docs/."""
    pages = {name: (REPOSITORY / path).read_text(encoding="utf-8") for name, path in OUTSIDE.items()}
    pages |= {f"reference/{page.file}": page.text for page in reference.pages()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Say what the search does with a page, and change its links."""
    name = page.file.src_uri
    if name in INTERNAL:
        page.meta["search"] = {"exclude": True}
    if name.startswith("reference/"):
        # It repeats the words of the guide in hundreds of entries.
        page.meta["search"] = {"boost": 0.5}
        return markdown
    return rewritten(markdown, name)


def rewritten(markdown: str, name: str, root: Path = REPOSITORY) -> str:
    """A page's text with the links that the site needs; a link to nothing stays, and MkDocs warns of it."""
    page = OUTSIDE.get(name, f"docs/{name}")

    def change(match: re.Match[str]) -> str:
        target, mark, anchor = match[0].partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(target)))
        if match[1] or not target or ":" in target or not (root / path).exists():
            return match[0]
        there = {path: site for site, path in OUTSIDE.items()}.get(path, path.removeprefix("docs/"))
        if there == path:
            return f"{URL}/{'tree' if (root / path).is_dir() else 'blob'}/main/{path}{mark}{anchor}"
        return os.path.relpath(there, posixpath.dirname(name) or ".") + mark + anchor

    return _FENCE_OR_LINK.sub(change, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Check the site, and write the search's index as a script: a page from the disk may not fetch it."""
    site = Path(config.site_dir)
    index = site / built.INDEX
    index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")
    found = [*built.problems(site), *built.left_out(site, {page.replace(".md", ".html") for page in INTERNAL})]
    if program := built.node():
        found += built.missed(program, built.worker_of(site), index, built.FIRST)
    for problem in found:
        _log.warning(problem)
    pages = len(list(site.rglob("*.html")))
    _log.info(
        "%d pages, %d problems%s", pages, len(found), "" if program else "; without node the search was not tried"
    )
