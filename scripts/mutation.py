"""Mutation tests: runs the tests of the decision code against deliberately broken versions (mutants) of it.

    python -m scripts.mutation                              # everything; `make mutation`
    python -m scripts.mutation motorlite/_admission/pool_queue.py     # one module
    python -m scripts.mutation --sample 200                 # a random sample
    python -m scripts.mutation --trust-list                 # without the mutants that are explained
    python -m scripts.mutation --list                       # list the mutants

The run uses a copy of the repository. It measures once which lines each test executes. A mutant (scripts/mutants.py) is
run against the tests that reach it, fastest first, until one fails. A change inside a function is applied in a fork of
a process that has collected all tests; a change of code that runs at import is imported by a separate process. A mutant
that runs out of time or memory counts as killed. All clocks are virtual, so the result does not depend on the machine.
Two control runs must succeed, so that no mutant is killed by the method itself: one replaces every function by an
unchanged compilation of itself, the other imports every module from its unchanged tree.

scripts/mutation.toml lists survivors that no test can notice, with the reasons. They are shown separately but count for
the gate, which applies to all mutants. A survivor costs a run of all tests that reach it, so --trust-list presumes that
the listed ones survive.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import json
import mmap
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import bson
import pytest
import trio
from coverage import Coverage

from scripts.mutants import Mutant, mutants

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

REPOSITORY: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = "scripts/mutation.toml"
GATE: Final = 95.0
Wanted: TypeAlias = "str | Literal[False]"
KILLED, TIMED_OUT, SURVIVED, UNTESTED = ("killed", "timed out", "survived", "no tests")
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
# The environment variable of the process that works on the copy.
COPY: Final = "MOTORLITE_MUTATION_COPY"

# Before the forks: these packages take long to import.
_PRELOADED: Final = (bson, trio)
# Standard error of this process, which pytest temporarily redirects.
_CONSOLE: Final = os.dup(2)
_MEMORY: Final = 4 * 1024**3
# CPU time limit of a test: this many seconds, plus this many times its duration without a mutant.
_LEAST_SECONDS: Final = 3
_MORE_TIMES: Final = 10
_COLLECTION_SECONDS: Final = 60
# A mutant that hangs without using the CPU is ended by this wall-clock limit, however busy the machine is.
_WALL_SECONDS: Final = 900
_TOOL_FAILED: Final = 99
# The number of preceding mutants whose killers are tried first.
_NEIGHBOURS: Final = 40

Key = tuple[str, str, str, str, int]


def key(mutant: Mutant) -> Key:
    """Identifies a mutant in the list of equivalents by its line's text, which changes less often than the number."""
    return mutant.module, mutant.function, mutant.text, mutant.change, mutant.nth


def equivalents(rows: Iterable[Mapping[str, Any]]) -> dict[Key, str]:
    """The mutants that behave like the original, with the reasons."""
    return {
        (row["module"], row["function"], row["line"], row["change"], row.get("nth", 1)): row["reason"] for row in rows
    }


# --- forks ---


def say(text: str) -> None:
    """Print a line, whatever pytest does to the output."""
    os.write(_CONSOLE, f"{text}\n".encode())


def in_forks(
    jobs: Mapping[int, Callable[[], bool]], at_most: int, names: Sequence[str] = (), seconds: float = _WALL_SECONDS
) -> dict[int, str]:
    """Run jobs in forks of this process, with memory and time limits, and return their verdicts.

    A job returns whether all tests passed. The names of those that survive are printed.
    """
    running: dict[int, int] = {}
    verdicts: dict[int, str] = {}
    waiting = list(jobs.items())
    while waiting or running:
        if waiting and len(running) < at_most:
            number, job = waiting.pop(0)
            if (pid := os.fork()) == 0:
                _be_a_fork(job, seconds)
            running[pid] = number
            continue
        pid, status = os.wait()
        number, code = running.pop(pid), os.waitstatus_to_exitcode(status)
        if code == _TOOL_FAILED:
            raise RuntimeError(f"mutant {number} could not be judged")
        timed_out = code in (-signal.SIGALRM, -signal.SIGPROF)
        verdicts[number] = SURVIVED if code == 0 else TIMED_OUT if timed_out else KILLED
        if names and code == 0:
            say(f"survived: {names[number]}")
        if len(verdicts) % 100 == 0:
            say(f"{len(verdicts)} judged")
    return verdicts


def _be_a_fork(job: Callable[[], bool], seconds: float) -> None:
    """Run `job` silently and within limits, then end this process."""
    code = _TOOL_FAILED
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        code = 0 if job() else 1
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(code)


def succeeds(job: Callable[[], bool]) -> bool:
    """Run a job in a fork, however long it takes."""
    return in_forks({0: job}, 1, seconds=24 * 3600)[0] == SURVIVED


# --- running tests ---


class Measured(NamedTuple):
    """What a run without mutants measures."""

    # The tests and their durations, fastest first.
    seconds: dict[str, float]
    # The positions of the tests that reach a line, by module and line.
    reached: dict[str, dict[str, list[int]]]

    def reaching(self, mutant: Mutant) -> list[int]:
        """The tests that execute the changed code; for code that runs at import, all tests that use the module."""
        by_line = self.reached.get(mutant.module, {})
        lines = map(str, mutant.lines) if mutant.function else by_line
        return sorted({test for line in lines for test in by_line.get(line, ())})

    def run(self, plugin: Plugin, positions: Iterable[int]) -> bool:
        """Run these tests, each with a time limit based on its duration."""
        tests = list(self.seconds)

        def limit(test: str) -> None:
            signal.setitimer(signal.ITIMER_PROF, _LEAST_SECONDS + _MORE_TIMES * self.seconds[test])

        return plugin.run([tests[position] for position in positions], limit)


class Plugin:
    """Takes over from pytest once the tests are collected, and stops at the first failure."""

    def __init__(self, run: Callable[[Plugin], bool], wanted: Mapping[str, Wanted] | None = None) -> None:
        self._run = run
        # The required part of a test id, by folder or file, or False for a file without tests; None: run all tests.
        self._wanted = wanted
        self.items: dict[str, pytest.Item] = {}
        self.has_failed = False
        self.running = ""

    def pytest_configure(self) -> None:
        """Use the same examples in every run, without a database of failures from other mutants."""
        # Not at the top: pytest wants to be the first to import a plugin.
        hypothesis = importlib.import_module("hypothesis")
        hypothesis.settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
        hypothesis.settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.get_closest_marker("real_time") is None and self._is_wanted(item)]

    def _is_wanted(self, item: pytest.Item) -> bool:
        wanted = {"": ""} if self._wanted is None else self._wanted
        part = wanted[max((place for place in wanted if item.nodeid.startswith(place)), key=len)]
        return part is not False and part in item.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("errors during collection")
        self.items = {item.nodeid: item for item in session.items}
        session.testsfailed = int(not self._run(self))
        return True

    def run(self, tests: Iterable[str], before: Callable[[str], object]) -> bool:
        """Run tests until one fails."""
        # The id of a test may depend on the mutated code.
        items = [self.items[test] for test in tests if test in self.items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.running = item.nodeid
            before(item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.has_failed:
                return False
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed


def run_pytest(paths: Iterable[str], plugin: Plugin) -> bool:
    """Collect tests and let the plugin run them."""
    options = ("-q", "-p", "no:cacheprovider", "-o", "timeout=0")
    return pytest.main([*options, *paths], plugins=[plugin]) == pytest.ExitCode.OK


def measure(plugin: Plugin, root: Path, modules: Collection[str], output: Path) -> bool:
    """Run every test, and record its duration and the lines that it reaches."""
    coverage = Coverage(data_file=None, config_file=False, include=[str(root / module) for module in modules])
    # The default of Python 3.14 and later, sys.monitoring, sees a line in the first test only that reaches it.
    coverage.set_option("run:core", "ctrace")
    starts: dict[str, float] = {}

    def begin(test: str) -> None:
        coverage.switch_context(test)
        starts[test] = time.process_time()

    coverage.start()
    passed = plugin.run(plugin.items, begin)
    coverage.stop()
    if not passed:
        say(f"{plugin.running} fails without a mutant")
        return False
    ends = [*starts.values(), time.process_time()][1:]
    durations = sorted((end - start, test) for (test, start), end in zip(starts.items(), ends, strict=True))
    places = {test: place for place, (_, test) in enumerate(durations)}
    reached = {}
    for module in modules:
        by_line = coverage.get_data().contexts_by_lineno(str(root / module))
        reached[module] = {line: [places[test] for test in tests if test] for line, tests in by_line.items()}
    output.write_text(json.dumps([{test: seconds for seconds, test in durations}, reached]), encoding="utf-8")
    return True


# --- applying mutants ---


def replace(root: Path, tree: ast.Module, path: str, function: str) -> None:
    """Replace the code of a function in the imported module by its code in `tree`."""
    code = compile(tree, str(root / path), "exec", dont_inherit=True)
    live: Any = sys.modules[_module_name(path)]
    for name in function.split("."):
        code = next(item for item in code.co_consts if getattr(item, "co_name", None) == name)
        live = vars(live)[name]
    live = live.fget if isinstance(live, property) else getattr(live, "__func__", live)
    live = inspect.unwrap(live)
    assert isinstance(live, FunctionType)
    # A mutant without `super()` has no cell for the class, which the function brings nevertheless.
    live.__code__ = code.replace(co_freevars=live.__code__.co_freevars)


def import_from(trees: Mapping[str, ast.Module]) -> None:
    """Let imports of this process load these modules from trees instead of files."""
    by_name = {_module_name(path): tree for path, tree in trees.items()}
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        tree = by_name.get(fullname)
        return original(self, fullname) if tree is None else self.source_to_code(tree, self.path)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def _module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


# --- judging ---


class Judge:
    """Finds the tests that reach each mutant, and whether one of them fails."""

    def __init__(
        self, root: Path, trees: dict[str, ast.Module], found: Sequence[Mutant], jobs: int, presumed: Collection[int]
    ) -> None:
        self.root, self.trees, self.found, self.jobs, self.presumed = root, trees, found, jobs, presumed
        # Results of the process that collects the tests.
        self.measured_file, self.verdicts_file = root / "mutation-measured.json", root / "mutation-verdicts.json"
        # Shared with the forks: for each mutant, the position of the test that killed it, plus one.
        self._killers = memoryview(mmap.mmap(-1, 4 * max(len(found), 1))).cast("I")

    def measured(self) -> Measured:
        """Read the measurements."""
        return Measured(*json.loads(self.measured_file.read_text(encoding="utf-8")))

    def _judge(self, in_functions: bool, measured: Measured, job: Callable[[int, list[int]], bool]) -> dict[int, str]:
        """Judge the mutants of functions, or those of code that runs at import."""
        verdicts, jobs = {}, {}
        for number, mutant in enumerate(self.found):
            if bool(mutant.function) is in_functions and number not in self.presumed:
                if tests := measured.reaching(mutant):
                    jobs[number] = partial(job, number, tests)
                else:
                    verdicts[number] = UNTESTED
        return verdicts | in_forks(jobs, self.jobs, [str(mutant) for mutant in self.found])

    def judge_functions(self, plugin: Plugin) -> bool:
        """In the process that has collected all tests: measure, run the control, and judge mutants of functions."""
        if not succeeds(lambda: measure(plugin, self.root, self.trees, self.measured_file)):
            return False
        measured = self.measured()
        everything = range(len(measured.seconds))
        say(f"{len(everything)} tests measured")

        def control() -> bool:
            for module, function in {(mutant.module, mutant.function) for mutant in self.found if mutant.function}:
                replace(self.root, self.trees[module], module, function)
            passed = measured.run(plugin, everything)
            if not passed:
                say(f"{plugin.running} fails without a mutant in the order of the run")
            return passed

        def job(number: int, tests: list[int]) -> bool:
            mutant = self.found[number]
            mutant.apply()
            replace(self.root, self.trees[mutant.module], mutant.module, mutant.function)
            # First those that killed the preceding mutants: they are likely to kill this one too.
            likely = {position - 1 for position in self._killers[max(number - _NEIGHBOURS, 0) : number]}
            passed = measured.run(plugin, sorted(tests, key=lambda test: test not in likely))
            if not passed:
                self._killers[number] = list(measured.seconds).index(plugin.running) + 1
            return passed

        if not succeeds(control):
            return False
        # Keeps the forks' garbage collectors from touching, and thereby copying, existing objects.
        gc.freeze()
        self.verdicts_file.write_text(json.dumps(self._judge(True, measured, job)), encoding="utf-8")
        return True

    def judge_imports(self) -> dict[int, str]:
        """In a process without any import of the package: run the control, and judge code that runs at import."""
        measured = self.measured()
        tests = list(measured.seconds)

        def import_and_run(modules: Iterable[str], positions: Collection[int]) -> bool:
            import_from({module: self.trees[module] for module in modules})
            signal.setitimer(signal.ITIMER_PROF, _COLLECTION_SECONDS)
            files = sorted({tests[position].partition("::")[0] for position in positions})
            return run_pytest(files, Plugin(lambda plugin: measured.run(plugin, positions)))

        def job(number: int, positions: list[int]) -> bool:
            self.found[number].apply()
            return import_and_run([self.found[number].module], positions)

        if not succeeds(lambda: import_and_run(self.trees, range(len(tests)))):
            raise SystemExit("the tests fail with modules that are imported unchanged")
        return self._judge(False, measured, job)


def judge(
    root: Path,
    trees: dict[str, ast.Module],
    found: Sequence[Mutant],
    tests: Mapping[str, Wanted],
    jobs: int,
    presumed: Collection[int] = (),
) -> list[str]:
    """The verdict for each mutant.

    Args:
        root: The copy of the repository; the current folder.
        trees: The syntax trees of the modules, by their paths.
        found: Mutants of these trees.
        tests: Folders or files with tests, and a required part of the test ids; False leaves out a file of a folder.
        jobs: The maximum number of concurrent processes.
        presumed: Numbers of mutants that are not run, because they are known to survive.
    """
    judge = Judge(root, trees, found, jobs, presumed)
    if not succeeds(
        lambda: run_pytest(
            [place for place in tests if tests[place] is not False], Plugin(judge.judge_functions, tests)
        )
    ):
        raise SystemExit("the tests could not be run without a mutant")
    verdicts = {int(number): verdict for number, verdict in json.loads(judge.verdicts_file.read_text()).items()}
    verdicts |= judge.judge_imports() | dict.fromkeys(presumed, SURVIVED)
    return [verdicts[number] for number in range(len(found))]


# --- the command ---


def table(found: Sequence[Mutant], verdicts: Sequence[str], known: Collection[Key]) -> list[str]:
    """One line per module, and one for all modules."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, verdict in zip(found, verdicts, strict=True):
        for name in (mutant.module, "all"):
            counts[name]["equivalent" if verdict == SURVIVED and key(mutant) in known else verdict] += 1
    columns = (KILLED, TIMED_OUT, "equivalent", SURVIVED, UNTESTED)
    lines = [f"{'module':50} mutants {'  '.join(columns)}  % of all  % without equivalents"]
    for name in sorted(counts, key=lambda name: name == "all"):
        count = counts[name]
        total, caught = count.total(), count[KILLED] + count[TIMED_OUT]
        shares = [100 * caught / max(whole, 1) for whole in (total, total - count["equivalent"])]
        figures = "  ".join(f"{count[column]:{len(column)}}" for column in columns)
        lines.append(f"{name:50} {total:7} {figures}  {shares[0]:8.1f}  {shares[1]:21.1f}")
    return lines


def report(
    found: Sequence[Mutant], verdicts: Sequence[str], known: dict[Key, str], gate: float, is_whole: bool
) -> bool:
    """Print the results. False if too few mutants were killed or the list of equivalents is outdated."""
    print(*table(found, verdicts, known), sep="\n")
    seen = {key(mutant): verdict for mutant, verdict in zip(found, verdicts, strict=True)}
    for wanted in (SURVIVED, UNTESTED):
        lines = [str(mutant) for mutant in found if seen[key(mutant)] == wanted and key(mutant) not in known]
        print(f"\n{wanted}: {len(lines)}", *lines, sep="\n  ")
    print("\nequivalent:")
    for name, reason in known.items():
        if seen.get(name) == SURVIVED:
            print(f"  {name[0]} {name[1]}: {name[3]}\n      {reason}")
        elif name in seen or is_whole:
            print(f"in {SETTINGS}, but {seen.get(name, 'no such mutant')}: {name}")
    wrong = any(verdict != SURVIVED for name, verdict in seen.items() if name in known)
    share = 100 * sum(verdict in (KILLED, TIMED_OUT) for verdict in verdicts) / max(len(verdicts), 1)
    print(f"\n{share:.1f} % of {len(verdicts)} mutants were killed; at least {gate:g} % must be")
    return share >= gate and not wrong and not (is_whole and known.keys() - seen.keys())


def work_in_a_copy() -> int:
    """Copy the repository to a temporary folder and run this command there."""
    from tests.support import specifications

    with tempfile.TemporaryDirectory(prefix="motorlite-mutation-") as folder:
        copy = Path(folder) / "repository"
        shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        environment = os.environ | {COPY: str(copy)}
        if (suites := specifications.root()) is not None:
            environment["MOTORLITE_SPECIFICATIONS"] = str(suites)
        command = [sys.executable, "-m", "scripts.mutation", *sys.argv[1:]]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def main() -> int:
    """Create the mutants, judge them and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="module", help="paths of modules to change; all by default")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--sample", type=int, metavar="N", help="only N random mutants, always the same ones")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of concurrent processes (2)")
    parser.add_argument("--trust-list", action="store_true", help="do not run mutants that are listed as equivalent")
    arguments = parser.parse_args()
    settings = tomllib.loads((REPOSITORY / SETTINGS).read_text(encoding="utf-8"))
    if unknown := set(arguments.modules) - set(settings["targets"]):
        parser.error(f"not a target module: {', '.join(sorted(unknown))}")
    trees, found = {}, []
    for module in arguments.modules or settings["targets"]:
        trees[module], some = mutants((REPOSITORY / module).read_text(encoding="utf-8"), module)
        found += some
    if arguments.sample is not None:
        chosen = random.Random(0).sample(range(len(found)), min(arguments.sample, len(found)))
        found = [found[position] for position in sorted(chosen)]
    if arguments.list:
        print(*found, f"{len(found)} mutants", sep="\n")
        return 0
    if os.environ.get(COPY) != str(REPOSITORY):
        return work_in_a_copy()
    started, known = time.monotonic(), equivalents(settings["equivalent"])
    presumed = {number for number, mutant in enumerate(found) if arguments.trust_list and key(mutant) in known}
    verdicts = judge(REPOSITORY, trees, found, settings["tests"], arguments.jobs, presumed)
    is_whole = arguments.sample is None and not arguments.modules
    succeeded = report(found, verdicts, known, GATE, is_whole)
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
