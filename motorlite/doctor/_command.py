"""Shell: the command line of ``python -m motorlite.doctor``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import TYPE_CHECKING, Final

from motorlite.doctor._examination import Examination, Wishes
from motorlite.doctor._finding import TITLES, exit_status
from motorlite.doctor._rendering import CRASHED, INTERRUPTED, make_rendering

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any, Protocol

    class Run(Protocol):
        """Runs a coroutine on an event loop of its own, as `asyncio.run`."""

        def __call__(self, coroutine: Coroutine[Any, Any, object], /) -> object: ...


_LONGEST: Final = 600.0

_DESCRIPTION: Final = """\
Find out why a client does not connect: go its whole way step by step, and say for each step what was found and what to
do about it. Nothing is written on the server unless --write is given, and no password is shown."""


def _epilog() -> str:
    steps = ", ".join(f"{step.value} {title}" for step, title in TITLES.items())
    return f"exit status: 0 if no step fails, otherwise that of the first step that does: {steps}"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; wrong arguments end the process with the status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m motorlite.doctor", description=_DESCRIPTION, epilog=_epilog(), allow_abbrev=False
    )
    parser.add_argument(
        "uri",
        metavar="URI",
        help="the connection string; - reads it from standard input, where no process list shows it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument(
        "--timeout",
        type=float,
        default=Wishes().timeout,
        metavar="S",
        help="the time limit of each attempt, in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="also insert one document into the collection motorlite_doctor, and delete it",
    )
    options = parser.parse_args(arguments)
    if not 0 < options.timeout <= _LONGEST:
        parser.error(f"--timeout must be more than 0 and at most {_LONGEST:g}")
    return options


def main(arguments: Sequence[str], run: Run) -> int:
    """Run the command, and return its exit status."""
    options = parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names in certificates and errors may have characters that a terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    rendering = make_rendering(sys.stdout, as_json=options.json)
    examination = Examination(rendering.report, rendering.waiting, Wishes(options.timeout, write=options.write))
    status = CRASHED
    try:
        try:
            uri = sys.stdin.readline().strip() if options.uri == "-" else options.uri
            run(examination.run(uri))
            status = exit_status(examination.findings)
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            rendering.end(examination.findings, status)
    except BrokenPipeError:
        # The reader of the output has had enough. Python would complain about what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status
