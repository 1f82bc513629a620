"""Shell: what `python -m benchmarks storm` does with the file of a finished session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.storm.report import compare, tables
from benchmarks.storm.report.session import SessionError, load

if TYPE_CHECKING:
    import argparse

    from benchmarks.storm.report.session import Session

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that read a session instead of running one."""
    group = parser.add_argument_group("reading a session's file instead of running anything")
    add = group.add_argument
    add("--markdown", type=Path, metavar="SESSION.json", help="print its tables as markdown")
    add("--page", type=Path, metavar="SESSION.json", help="write its HTML page anew, beside it")
    add("--plots", type=Path, metavar="SESSION.json", help="write the plots of README and pages to docs/")
    add("--read", type=Path, metavar="SESSION.json", help="print its conclusions, and with --compare what changed")


def run(arguments: argparse.Namespace) -> int | None:
    """Do what these options ask for.

    Returns:
        The exit code; None: none of them is there.
    """
    path = arguments.markdown or arguments.page or arguments.plots or arguments.read
    if path is None:
        return None
    try:
        session = load(path)
        old = load(arguments.compare) if arguments.compare is not None else None
    except (OSError, SessionError) as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.markdown:
        print(tables.markdown(session))
    if arguments.page:
        print(write_page(session, path))
    if arguments.plots:
        from benchmarks.storm.report import statics

        print("\n".join(str(plot) for plot in statics.write(session, DOCS)) or "The session has no such scenario.")
    if arguments.read:
        print(tables.conclusions(session))
    if old is not None:
        print(compare.render(old, session))
    return 0


def write_page(session: Session, path: Path) -> Path:
    """Write the page beside the session's file."""
    from benchmarks.storm.report import page

    target = path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ".html")
    page.write(session, target)
    return target
