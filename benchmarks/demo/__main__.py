"""Shell: `python -m benchmarks.demo`: a local server, the README's quick start, an overload, a comparison."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time

import anyio
from rich.console import Console
from rich.syntax import Syntax

from benchmarks.demo.acts import play
from benchmarks.demo.quick_start import aimed_at, quick_start
from benchmarks.processes import ROOT
from motorlite.testing import LocalServer, ServerNotFound

# Most terminals and log viewers show this many columns.
PIPED_WIDTH = 80


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="default: asyncio")
    arguments = parser.parse_args()
    # Or else Python prints the driver's warnings in the middle of the tables, which count all errors.
    logging.getLogger("motorlite").addHandler(logging.NullHandler())
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPED_WIDTH)
    started = time.monotonic()
    try:
        with LocalServer.start(topology="replicaset", own=True) as server:
            console.print(f"MongoDB {server.version} runs as a replica set at {server.uri}\n", soft_wrap=True)
            if not _run_quick_start(server.uri, console):
                return 1
            surprises = anyio.run(play, server.uri, console, arguments.backend, backend=arguments.backend)
    except ServerNotFound as error:
        console.print(str(error), markup=False)
        return 1
    for surprise in surprises:
        console.print(f"unexpected error: {surprise}", style="red", markup=False)
    console.print(f"[dim]That took {time.monotonic() - started:.0f} seconds.[/dim]")
    return 1 if surprises else 0


def listing(program: str) -> Syntax:
    """The program in colours; lines that are too long for the terminal are wrapped."""
    return Syntax(program.strip(), "python", background_color="default", word_wrap=True)


def _run_quick_start(uri: str, console: Console) -> bool:
    program = quick_start((ROOT / "README.md").read_text(encoding="utf-8"))
    console.rule("[bold]The quick start of the README", align="left")
    console.print(listing(program))
    done = subprocess.run(
        [sys.executable, "-c", aimed_at(program, uri)],
        cwd=ROOT,
        env={**os.environ, "MONGODB_URI": uri},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    console.print("\nIt prints:", style="dim")
    console.print(done.stdout + done.stderr, markup=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
