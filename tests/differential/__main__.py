"""Random programs on PyMongo and motorlite, on the same servers: `python -m tests.differential --cases 1000 --seed 1`.

Equal are results and exceptions, with values and types, and the commands on the wire. `--case 77` runs one program and
prints it, with what both libraries did; `--only 77,80` runs some. A difference without a reason is printed as a short
program, and the command ends with 1. `--bug NAME` plants a bug in the driver, and ends with 1 if none of the programs
shows it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from motorlite.testing import LocalServer
from tests.differential import programs
from tests.differential.bugs import BUGS
from tests.differential.finding import Search
from tests.differential.running import Arena
from tests.differential.wire import tap
from tests.support.planting import plant

if TYPE_CHECKING:
    from collections.abc import Mapping

# The time between two lines of progress.
PROGRESS_SECONDS = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Run programs; the exit status is 1 if there is a difference without a reason."""
    parser = argparse.ArgumentParser("python -m tests.differential", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="how many programs (500)")
    parser.add_argument("--seed", type=int, default=1, help="what makes the programs (1)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program (0)")
    parser.add_argument("--only", type=_numbers, help="run only the programs with these numbers, as 77,80")
    parser.add_argument("--bug", choices=["all", *BUGS], help="plant a bug, and look for it")
    parser.add_argument("--case", type=int, help="run only the program with this number, and print it")
    parser.add_argument("--workers", type=int, default=8, help="how many programs run at the same time (8)")
    options = parser.parse_args(arguments)
    # Programs leave little garbage in cycles, and a search has many long-lived objects to look through.
    gc.set_threshold(50_000, 20, 50)
    warnings.simplefilter("ignore")  # of options that are ignored, and coroutines that are not awaited
    with LocalServer.start("standalone", own=True) as one, LocalServer.start("replicaset", own=True) as other, tap():
        servers = {programs.STANDALONE: one, programs.REPLICA_SET: other}
        if options.bug is not None:
            names = list(BUGS) if options.bug == "all" else [options.bug]
            return max(asyncio.run(_look_for(name, servers, options)) for name in names)
        run = _search if options.case is None else _show
        return asyncio.run(run(servers, options))


async def _look_for(name: str, servers: Mapping[str, LocalServer], options: Any) -> int:
    """Plant a bug and run programs until one differs, which is printed as small as it can be."""
    with plant(BUGS[name]):
        async with Arena(servers, options.workers) as arena:
            search = Search(arena, options.seed)
            found = await search.first(range(options.first, options.first + options.cases))
    print(f"{name}: {'found' if found else 'not found'} after {search.tally.programs}\n{found or ''}", flush=True)
    return 0 if found else 1


async def _search(servers: Mapping[str, LocalServer], options: Any) -> int:
    started = time.monotonic()
    async with Arena(servers, options.workers) as arena:
        search = Search(arena, options.seed)
        numbers = options.only or range(options.first, options.first + options.cases)
        running = asyncio.create_task(search.run(numbers))
        shown: set[str] = set()
        while not running.done():
            await asyncio.wait([running], timeout=PROGRESS_SECONDS)
            for line in search.tally.lines():
                print(f"\n{line}\n" if line not in shown else "", end="", flush=True)
            shown.update(search.tally.lines())
            print(f"{time.monotonic() - started:.0f} s: {search.tally}", flush=True)
        await running
        print(f"fields of which only the presence was compared, or the default: {', '.join(sorted(arena.used))}")
    return 0 if search.tally.is_clean else 1


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


async def _show(servers: Mapping[str, LocalServer], options: Any) -> int:
    program = programs.make(options.seed, options.case)
    async with Arena(servers, 1) as arena:
        for text, theirs, ours in zip(program.steps, *await arena.run(program, 0), strict=False):
            print(text)
            for name, side in (("PyMongo", theirs), ("motorlite", ours)):
                print(f"  {name:9} {side.outcome!r}")
                print("".join(f"            sent {command!r}\n" for command in side.commands), end="")
        search = Search(arena, options.seed)
        await search.run([options.case])
    print(*search.tally.lines(), search.tally, sep="\n")
    return 0 if search.tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
