"""Fuzzes targets: ``python -m tests.fuzz [TARGET ...] --inputs N --seed S``.

With atheris (the extra `fuzz`) inputs follow the coverage that they reach, otherwise they are mutated at random. One
process at a time runs, and the same seed makes the same inputs. A target that fails is reported with a short input in
base64; it becomes one of the target's seeds when the bug is fixed.

``--folder F`` keeps what atheris finds for the next run, and ``--folder F --keep`` adds it to the corpora.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz import corpus, engines
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.target import Target


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status: 1 if a target failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz what reads replies and texts.")
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--inputs", type=int, default=100_000, help="for all targets together, by their weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", action="store_true", help="mutate at random, as without atheris")
    parser.add_argument("--folder", type=Path, help="keeps what atheris finds for the next run")
    parser.add_argument("--keep", action="store_true", help="add to the corpora what reaches more; needs --folder")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.targets) - TARGETS.keys():
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}; known are {', '.join(TARGETS)}")
    targets = [TARGETS[name] for name in chosen.targets or TARGETS]
    if chosen.keep:
        for target in targets:
            _keep(target, chosen.folder)
        return 0
    total = sum(target.weight for target in targets)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        is_guided = engines.has_atheris() and not chosen.mutations
        shares = [(target, -(-chosen.inputs * target.weight // total)) for target in targets]
        done = [_fuzz(target, inputs, chosen.seed, folder if is_guided else None) for target, inputs in shares]
    print(f"{sum(inputs for inputs, _ in done)} inputs, {sum(failed for _, failed in done)} targets failed")
    return int(any(failed for _, failed in done))


def _fuzz(target: Target, inputs: int, seed: int, folder: Path | None) -> tuple[int, bool]:
    """Fuzz a target, report, and return the number of inputs and whether it failed."""
    started = time.monotonic()
    outcome = engines.mutate(target, inputs, seed) if folder is None else engines.guide(target, inputs, seed, folder)
    seconds = time.monotonic() - started
    failed = outcome.crash is not None
    print(f"{target.name:20} {outcome.inputs:9} inputs {seconds:8.1f} s  {'FAILED' if failed else 'ok'}", flush=True)
    if outcome.crash is not None:
        print(outcome.report)
        print(f"{target.name} fails for {b64encode(engines.shrunk(target, outcome.crash)).decode()}", flush=True)
    return outcome.inputs, failed


def _keep(target: Target, folder: Path) -> None:
    """Make the corpus of a target anew from its seeds, itself, and what was found."""
    found = [path.read_bytes() for path in sorted((folder / target.name).iterdir())]
    kept = corpus.minimised(target, [*target.seeds, *corpus.load(target), *found])
    corpus.save(target, kept)
    print(f"{target.name:20} {len(kept):5} of {len(found):6} inputs, {sum(map(len, kept)):7} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
