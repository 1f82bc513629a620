"""Mutation tests: runs the tests of the decision code against deliberately broken versions (mutants) of it.

    python -m scripts.mutation                                        # everything; `make mutation`
    python -m scripts.mutation motorlite/_admission/pool_queue.py               # one module
    python -m scripts.mutation --sample 200 --seed 7                  # a random sample
    python -m scripts.mutation --trust-list                           # without the mutants that are explained
    python -m scripts.mutation --list                                 # list the mutants

The run uses a copy of the repository. It measures once which lines each test executes. A mutant (scripts/mutants.py) is
run against the tests that reach it, fastest first, until one fails. A change inside a function is applied in a fork of
a process that has collected all tests; a change of code that runs at import is imported by a separate process. A mutant
that runs out of time or memory counts as killed. All clocks are virtual, so the result does not depend on the machine.

scripts/mutation_equivalents.toml lists survivors that no test can notice, with the reasons. They are shown separately
but count for the gate, which applies to all mutants. A survivor costs a run of all tests that reach it, so --trust-list
presumes that the listed ones survive.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.mutants import Mutant, mutants
from scripts.mutation_judge import KILLED, SURVIVED, TIMED_OUT, UNTESTED, judge

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

REPOSITORY: Final = Path(__file__).resolve().parents[1]
GATE: Final = 95.0
EQUIVALENTS: Final = "scripts/mutation_equivalents.toml"
TARGETS: Final = (
    "motorlite/_execution/acquiring.py",
    "motorlite/_execution/run.py",
    "motorlite/_execution/building.py",
    "motorlite/_retry/classification.py",
    "motorlite/_execution/building.py",
    "motorlite/_execution/degrading.py",
    "motorlite/_execution/executor.py",
    "motorlite/_retry/failure.py",
    "motorlite/_execution/admission.py",
    "motorlite/_execution/admission.py",
    "motorlite/_operations/contract.py",
    "motorlite/_retry/consultation.py",
    "motorlite/_retry/decision.py",
    "motorlite/_retry/classification.py",
    "motorlite/_execution/retrying.py",
    "motorlite/_retry/decision.py",
    "motorlite/_execution/run.py",
    "motorlite/_execution/sender.py",
    "motorlite/_observe/reachability.py",
    "motorlite/_admission/waiting_line.py",
    "motorlite/_admission/orders.py",
    "motorlite/_retry/backoff.py",
    "motorlite/_admission/circuit_breaker.py",
    "motorlite/_admission/concurrency_limit.py",
    "motorlite/_admission/circuit_breaker.py",
    "motorlite/_admission/gate.py",
    "motorlite/_admission/rate_limiter.py",
    "motorlite/_admission/retry_after.py",
    "motorlite/_execution/server_limits.py",
    "motorlite/_admission/waiting_line.py",
    "motorlite/_admission/bounded_queue.py",
    "motorlite/_admission/pace.py",
    "motorlite/_admission/pool_queue.py",
    "motorlite/_pool/state.py",
    "motorlite/_admission/tickets.py",
    "motorlite/_pool/state.py",
    "motorlite/_pool/state.py",
    "motorlite/_sessions/session.py",
    "motorlite/_topology/selection.py",
    "motorlite/_topology/topology_description.py",
    "motorlite/overload/breaker.py",
    "motorlite/overload/concurrency.py",
    "motorlite/overload/fallback.py",
    "motorlite/overload/rate_limit.py",
    "motorlite/overload/wait_queue.py",
    "motorlite/retry/best_effort.py",
    "motorlite/retry/budget.py",
    "motorlite/retry/overload.py",
    "motorlite/retry/strategy.py",
)
# Folders and files with tests, and a required part of the test ids. Tests with real sockets or servers are excluded.
# Simulations run on asyncio alone: the decisions are the same on trio, and a survivor costs a run of all tests.
TESTS: Final = {
    "tests/unit/_execution": "",
    "tests/unit/_observe": "",
    "tests/unit/_overload": "",
    "tests/unit/_pool": "",
    "tests/unit/_sessions": "",
    "tests/unit/_topology": "",
    "tests/unit/overload": "",
    "tests/unit/retry": "",
    "tests/sim": "asyncio",
    "tests/spec/test_formats.py": "connection-monitoring-and-pooling",
}
NOT_COPIED: Final = (
    ".git",
    ".venv*",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "htmlcov",
    ".coverage*",
    "specifications",
)
# Environment variables of the process that works on the copy.
_SPECIFICATIONS: Final = "MOTORLITE_SPECIFICATIONS"
_COPY: Final = "MOTORLITE_MUTATION_COPY"


@dataclass(frozen=True)
class Key:
    """Identifies a mutant in the list of equivalents by its line's text, which changes less often than the number."""

    module: str
    function: str
    line: str
    change: str
    nth: int


def key(mutant: Mutant) -> Key:
    """The key of `mutant`."""
    return Key(mutant.module, mutant.function, mutant.text, mutant.change, mutant.nth)


def equivalents(text: str) -> dict[Key, str]:
    """The mutants that behave like the original, with the reasons, from the text of the list."""
    return {
        Key(entry["module"], entry["function"], entry["line"], entry["change"], entry.get("nth", 1)): entry["reason"]
        for entry in tomllib.loads(text).get("equivalent", [])
    }


def read(root: Path, modules: Sequence[str]) -> tuple[dict[str, ast.Module], list[Mutant]]:
    """The syntax trees of the modules and all their mutants."""
    trees, found = {}, []
    for module in modules:
        trees[module], some = mutants((root / module).read_text(encoding="utf-8"), module)
        found += some
    return trees, found


def percent(part: int, whole: int) -> float:
    """`part` as a percentage of `whole`; 100 if `whole` is 0."""
    return 100 * part / whole if whole else 100.0


def table(found: Sequence[Mutant], verdicts: Sequence[str], known: dict[Key, str]) -> list[str]:
    """One line per module, and one for all modules."""
    rows: list[tuple[str, ...]] = [
        ("module", "mutants", KILLED, TIMED_OUT, "equivalent", SURVIVED, UNTESTED, "% of all", "% without equivalents")
    ]
    counts: dict[str, Counter[str]] = {}
    for mutant, verdict in zip(found, verdicts, strict=True):
        is_known = verdict == SURVIVED and key(mutant) in known
        counts.setdefault(mutant.module, Counter())["equivalent" if is_known else verdict] += 1
    everything = sum(counts.values(), Counter[str]())
    for name, count in [*counts.items(), ("all", everything)]:
        total, caught = count.total(), count[KILLED] + count[TIMED_OUT]
        figures = [total, *(count[column] for column in rows[0][2:7])]
        shares = [percent(caught, total), percent(caught, total - count["equivalent"])]
        rows.append((name, *map(str, figures), *(f"{share:.1f}" for share in shares)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def report(
    found: Sequence[Mutant], verdicts: Sequence[str], known: dict[Key, str], *, gate: float, is_whole: bool
) -> bool:
    """Print the results. False if too few mutants were killed or the list of equivalents is outdated."""
    print("\n".join(table(found, verdicts, known)))
    seen = {key(mutant): verdict for mutant, verdict in zip(found, verdicts, strict=True)}
    for title, wanted in (("survivors", SURVIVED), ("reached by no test", UNTESTED)):
        lines = [
            str(mutant)
            for mutant, verdict in zip(found, verdicts, strict=True)
            if verdict == wanted and key(mutant) not in known
        ]
        print(f"\n{title}: {len(lines)}", *lines, sep="\n  ")
    print("\nequivalent:")
    for name, reason in known.items():
        if seen.get(name) == SURVIVED:
            print(f"  {name.module} {name.function}: {name.change}\n      {reason}")
    wrong = [name for name in known if (name in seen or is_whole) and seen.get(name) != SURVIVED]
    for name in wrong:
        print(f"in {EQUIVALENTS}, but {seen.get(name, 'no such mutant')}: {name}")
    share = percent(sum(verdict in (KILLED, TIMED_OUT) for verdict in verdicts), len(verdicts))
    print(f"\n{share:.1f} % of {len(verdicts)} mutants were killed; at least {gate:g} % must be")
    return share >= gate and not wrong


def work_in_a_copy() -> int:
    """Copy the repository to a temporary folder and run this command there."""
    from tests.support import specifications

    with tempfile.TemporaryDirectory(prefix="motorlite-mutation-") as folder:
        copy = Path(folder) / "repository"
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        environment = os.environ | {_COPY: str(copy)}
        if (suites := specifications.root()) is not None:
            environment[_SPECIFICATIONS] = str(suites)
        command = [sys.executable, "-m", "scripts.mutation", *sys.argv[1:]]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def main() -> int:
    """Create the mutants, judge them and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="module", help="paths of modules to change; all by default")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--sample", type=int, metavar="N", help="only N random mutants, chosen by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of concurrent processes (2)")
    parser.add_argument("--trust-list", action="store_true", help="do not run mutants that are listed as equivalent")
    parser.add_argument("--gate", type=float, default=GATE, metavar="PERCENT", help="fail below PERCENT (%(default)g)")
    arguments = parser.parse_args()
    if unknown := set(arguments.modules) - set(TARGETS):
        parser.error(f"not a target module: {', '.join(sorted(unknown))}")
    modules = [module for module in TARGETS if module in (arguments.modules or TARGETS)]
    trees, found = read(REPOSITORY, modules)
    is_whole = arguments.sample is None and not arguments.modules
    if arguments.sample is not None:
        chosen = random.Random(arguments.seed).sample(range(len(found)), min(arguments.sample, len(found)))
        found = [found[position] for position in sorted(chosen)]
    if arguments.list:
        print("\n".join(map(str, found)))
        print(f"{len(found)} mutants")
        return 0
    if os.environ.get(_COPY) != str(REPOSITORY):
        return work_in_a_copy()
    started = time.monotonic()
    known = equivalents((REPOSITORY / EQUIVALENTS).read_text(encoding="utf-8"))
    presumed = {number for number, mutant in enumerate(found) if arguments.trust_list and key(mutant) in known}
    verdicts = judge(REPOSITORY, trees, found, TESTS, arguments.jobs, presumed)
    succeeded = report(found, verdicts, known, gate=arguments.gate, is_whole=is_whole)
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
