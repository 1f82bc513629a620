"""Builds the documentation site, offline, and checks every link: `make docs`.

    python -m scripts.site            # writes build/site, to be opened in a browser
    python -m scripts.site --check    # builds it in a temporary folder

A warning of the generator is an error, and so is a link to a page, file or heading that does not exist, anything that a
browser would fetch from another host, and a search that does not find what readers look for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.site import search
from scripts.site.built import problems
from scripts.site.links import REPOSITORY, DeadLinkError
from scripts.site.prepare import INTERNAL, prepare


def build(folder: Path) -> int:
    """Prepare, build and check the site in a folder; 0 if all is well."""
    site = folder / "site"
    try:
        configuration = prepare(folder, site)
    except DeadLinkError as error:
        print(error, file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(configuration)]
    # The notice is about the generator, not about the pages (CONTRIBUTING.md says more).
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(REPOSITORY)}
    # Not quiet: then warnings are not counted, and strict is not strict.
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="", file=sys.stderr)
        return done.returncode
    search_from_disk(site)
    found = [*problems(site), *search.left_out(site, frozenset(map(built_name, INTERNAL)))]
    program = search.node()
    if program is not None:
        found += search.missed(program, search.worker_of(site), site / search.INDEX, search.FIRST)
    for problem in found:
        print(problem, file=sys.stderr)
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages, {len(found)} problems" + ("" if program else "; without node the search was not tried"))
    return 1 if found else 0


def built_name(page: str) -> str:
    """The file of a page on the site."""
    return str(Path(page).with_suffix(".html"))


def search_from_disk(site: Path) -> None:
    """Write the index of the search as a script: a page from the disk may not fetch it (assets/search-from-disk.js)."""
    index = site / search.INDEX
    index.with_suffix(".js").write_text(f"var __index = {index.read_text(encoding='utf-8')}", encoding="utf-8")


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("--check", action="store_true", help="leave nothing behind")
    if parser.parse_args().check:
        with tempfile.TemporaryDirectory() as temporary:
            return build(Path(temporary))
    folder = REPOSITORY / "build"
    status = build(folder)
    if not status:
        print(f"open {(folder / 'site' / 'index.html').relative_to(REPOSITORY)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
