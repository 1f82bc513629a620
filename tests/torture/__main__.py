"""Net: ``python -m tests.torture --minutes M --seed N``: a load under random faults, and an account of what is left."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.bugs import BUGS
from tests.torture.load import BACKENDS, SHARES
from tests.torture.plan import client_options, plan
from tests.torture.run import torture

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run, and print what came of it. Returns 0 only if nothing is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture",
        description="Torture the driver: a load on a replica set under random faults, then an account of what is left.",
    )
    parser.add_argument("--minutes", type=float, required=True, help="how long faults happen")
    parser.add_argument("--seed", type=int, required=True, help="of the plan; equal seeds have equal plans")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="asyncio")
    parser.add_argument("--tasks", type=int, default=sum(SHARES.values()), help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="for the journal; default: a new one")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug in the driver, which has to be found")
    parser.add_argument("--plan", action="store_true", help="print the plan, and do nothing")
    options = parser.parse_args(arguments)
    if options.bug is not None and options.backend == "trio" and BUGS[options.bug].where.startswith("_net.on_asyncio"):
        parser.error(f"the bug {options.bug} is in the driver's part for asyncio")
    seconds = options.minutes * 60
    print(f"seed {options.seed}, {options.minutes:g} minutes, {options.tasks} tasks, {options.backend}", flush=True)
    print(f"options of the client: {client_options(options.seed)}", flush=True)
    if options.plan:
        print(*plan(options.seed, seconds), sep="\n")
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    report = torture(
        options.seed,
        seconds,
        backend=options.backend,
        tasks=options.tasks,
        folder=folder,
        bug=options.bug,
        say=lambda line: print(line, flush=True),
    )
    print(report)
    print(f"the journal is in {folder}")
    # A planted bug has to be found.
    return int(bool(report.findings) == (options.bug is None))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
