"""What makes inputs: mutations at random, or atheris, which follows the coverage that they reach."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz import corpus
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import MAX_INPUT, Checker, HangError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.target import Target

# What libFuzzer prints at the end, and what a target raised before.
_DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
_NOISE = re.compile(r"INFO|WARNING|stat::|#\d+\t")
# Megabytes of a process, and seconds of one input: reached only in C code, which no limit of a target can see.
_PROCESS_MEMORY = 2048
_INPUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many inputs a target was given, and the one that it failed for, if any."""

    inputs: int
    crash: bytes | None = None
    report: str = ""


def has_atheris() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def mutate(target: Target, inputs: int, seed: int) -> Outcome:
    """Run a target on its corpus and on mutations of it, as many as `inputs` together."""
    random = Random(f"{target.name} {seed}")
    mutator, pool = Mutator(target, random), [*target.seeds, *corpus.load(target)]
    data = b""
    with Checker(target) as checker:
        try:
            for data in pool[:inputs]:
                checker.check(data)
            for _ in range(inputs - len(pool)):
                data = mutator.mutated(random.choice(pool), pool)
                checker.check(data)
        except (Exception, HangError) as error:
            return Outcome(checker.count, data, repr(error))
    return Outcome(checker.count)


def guide(target: Target, inputs: int, seed: int, folder: Path) -> Outcome:
    """Run a target under atheris, in another process. New inputs that reach more are added to `folder`."""
    found, crashes = folder / target.name, folder / f"{target.name}-"
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*target.seeds, *corpus.load(target)]):
        (found / f"known-{number}").write_bytes(data)
    for old in folder.glob(f"{target.name}-*"):
        old.unlink()
    options = {
        "runs": inputs,
        "seed": seed,
        "max_len": MAX_INPUT,
        "rss_limit_mb": _PROCESS_MEMORY,
        "timeout": _INPUT_SECONDS,
        "artifact_prefix": crashes,
        "print_final_stats": 1,
    }
    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, ",".join(target.modules), str(seed), str(found)]
    command += [f"-{name}={value}" for name, value in options.items()]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    match = _DONE.search(done.stdout)
    if match is not None and not done.returncode:
        return Outcome(int(match[1]))
    crash = next((path.read_bytes() for path in sorted(folder.glob(f"{target.name}-*"))), b"")
    return Outcome(0, crash, "\n".join(line for line in done.stdout.splitlines() if not _NOISE.match(line)))


def fails(target: Target, data: bytes) -> BaseException | None:
    """Return what a target raises for an input, with all of its limits checked."""
    from tests.fuzz.target import measure

    with Checker(target) as checker:
        try:
            checker.check(data)
            measure(target, data)
        except (Exception, HangError) as error:
            return error
    return None


def shrunk(target: Target, data: bytes) -> bytes:
    """Return the shortest input found for which a target raises an exception of the same class."""
    kind = type(fails(target, data))
    return corpus.shrunk(data, lambda shorter: type(fails(target, shorter)) is kind)
