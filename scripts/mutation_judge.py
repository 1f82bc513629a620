"""Judges mutants: finds the tests that reach each of them, and whether one of these tests fails.

Everything runs in forks, so that no damage from a mutant remains. First, without mutants, a traced run records the
lines that each test reaches. Two control runs must succeed, so that no mutant is killed by the method itself: one
replaces every function by an unchanged compilation of itself, the other imports every module from its unchanged tree.
Both run the tests in the order used for mutants.
"""

from __future__ import annotations

import gc
import importlib
import json
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import bson
import pytest
import trio

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from types import CodeType, FrameType, ModuleType

    from scripts.mutants import Mutant

KILLED: Final = "killed"
TIMED_OUT: Final = "timed out"
SURVIVED: Final = "survived"
UNTESTED: Final = "no tests"

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
# Exit codes of a fork. Any other code was caused by the mutant.
_EXIT_SURVIVED: Final = 0
_EXIT_KILLED: Final = 1
_EXIT_TOOL_FAILED: Final = 99
# Bytes of a shared integer, and the number of preceding mutants to consider.
_SLOT: Final = 4
_NEIGHBOURS: Final = 40
_PYTEST: Final = ("-q", "-p", "no:cacheprovider", "-o", "timeout=0")


def _say(text: str) -> None:
    os.write(_CONSOLE, f"{text}\n".encode())


@dataclass
class Reach:
    """A test: its file, its duration in seconds (traced), and the lines that it executes."""

    test: str
    file: str
    seconds: float
    lines: dict[str, list[int]]
    # Its position in the order of all tests.
    position: int = 0


@dataclass
class Measured:
    """The lines that each test reaches; tests are in running order, fastest first."""

    tests: list[Reach]
    by_line: dict[tuple[str, int], set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tests.sort(key=lambda reach: (reach.seconds, reach.test))
        for position, reach in enumerate(self.tests):
            reach.position = position
            for module, lines in reach.lines.items():
                for line in lines:
                    self.by_line.setdefault((module, line), set()).add(position)

    def reaching(self, mutant: Mutant) -> list[Reach]:
        """The tests that execute the changed code; for code that runs at import, all tests that use the module."""
        if mutant.function:
            found: set[int] = set().union(*(self.by_line.get((mutant.module, line), ()) for line in mutant.lines))
            return [self.tests[position] for position in sorted(found)]
        return [reach for reach in self.tests if mutant.module in reach.lines]


class Forks:
    """Runs jobs in forks of this process, a few at a time, each with memory and time limits."""

    def __init__(self, at_most: int, names: Sequence[str] = ()) -> None:
        self._at_most = at_most
        # The names of the jobs, printed for those that survive.
        self._names = names
        self._running: dict[int, int] = {}
        self.verdicts: dict[int, str] = {}

    def start(self, number: int, job: Callable[[], int], seconds: float = _WALL_SECONDS) -> None:
        """Run `job` as soon as a slot is free; its result is the exit code."""
        while len(self._running) >= self._at_most:
            self._wait()
        pid = os.fork()
        if pid == 0:
            _be_a_fork(job, seconds)
        self._running[pid] = number

    def finish(self) -> None:
        """Wait for all jobs."""
        while self._running:
            self._wait()

    def _wait(self) -> None:
        pid, status = os.wait()
        number = self._running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code == _EXIT_TOOL_FAILED:
            raise RuntimeError(f"mutant {number} could not be judged")
        if code in (-signal.SIGALRM, -signal.SIGPROF):
            self.verdicts[number] = TIMED_OUT
        else:
            self.verdicts[number] = SURVIVED if code == _EXIT_SURVIVED else KILLED
        if self._names and self.verdicts[number] == SURVIVED:
            _say(f"survived: {self._names[number]}")
        if len(self.verdicts) % 100 == 0:
            _say(f"{len(self.verdicts)} judged")


def _be_a_fork(job: Callable[[], int], seconds: float) -> None:
    """Run `job` silently and within limits, then end this process."""
    code = _EXIT_TOOL_FAILED
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        code = job()
    except BaseException:
        _say(traceback.format_exc())
    finally:
        os._exit(code)


def _one(job: Callable[[], int]) -> str:
    forks = Forks(1)
    forks.start(0, job, seconds=24 * 3600)
    forks.finish()
    return forks.verdicts[0]


# --- running tests ---


class Plugin:
    """Takes over from pytest once the tests are collected, and stops at the first failure."""

    def __init__(self, run: Callable[[Plugin], int] | None = None, tests: Mapping[str, str] | None = None) -> None:
        self._run = run
        # The required part of a test id, by folder or file; None: run all tests.
        self._tests = tests
        self._chosen: dict[str, Reach] = {}
        self.items: dict[str, pytest.Item] = {}
        self.has_failed = False
        # The chosen test that failed.
        self.failed: Reach | None = None

    def choose(self, tests: Sequence[Reach]) -> Plugin:
        """Run only these tests, in this order, each with a time limit based on its measured duration."""
        self._chosen = {reach.test: reach for reach in tests}
        return self

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.get_closest_marker("real_time") is None and self._is_wanted(item)]

    def _is_wanted(self, item: pytest.Item) -> bool:
        test, tests = item.nodeid, self._tests
        return tests is None or any(test.startswith(place) and part in test for place, part in tests.items())

    def pytest_configure(self) -> None:
        """Use the same examples in every run, without a database of failures from other mutants."""
        hypothesis = importlib.import_module("hypothesis")
        hypothesis.settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
        hypothesis.settings.load_profile("mutation")
        if self._run is None:
            signal.setitimer(signal.ITIMER_PROF, _COLLECTION_SECONDS)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("errors during collection")
        self.items = {item.nodeid: item for item in session.items}
        if self._run is None:
            self.run()
        elif self._run(self) != _EXIT_SURVIVED:
            self.has_failed = True
        session.testsfailed = int(self.has_failed)
        return True

    def run(self) -> int:
        """Run the chosen tests until one fails."""
        # The id of a test may depend on the mutated code.
        items = [self.items[test] for test in self._chosen if test in self.items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            signal.setitimer(signal.ITIMER_PROF, _LEAST_SECONDS + _MORE_TIMES * self._chosen[item.nodeid].seconds)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.has_failed:
                self.failed = self._chosen[item.nodeid]
                return _EXIT_KILLED
        return _EXIT_SURVIVED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed


def _pytest(arguments: Sequence[str], plugin: Plugin) -> int:
    return int(pytest.main([*_PYTEST, *arguments], plugins=[plugin]))


def _trace(plugin: Plugin, modules: dict[str, str], output: Path) -> int:
    """Run every test and record the lines it reaches; `modules` has the relative paths by full path."""
    reached: dict[str, set[int]] = {}

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            reached.setdefault(modules[frame.f_code.co_filename], set()).add(frame.f_lineno)
        return local

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename in modules else None

    found = []
    items = list(plugin.items.values())
    for item, following in zip(items, [*items[1:], None], strict=True):
        reached.clear()
        started = time.process_time()
        sys.settrace(enter)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            sys.settrace(None)
        seconds = time.process_time() - started
        lines = {module: sorted(numbers) for module, numbers in reached.items()}
        found.append({"test": item.nodeid, "file": str(item.path), "seconds": seconds, "lines": lines})
        if plugin.has_failed:
            _say(f"{item.nodeid} fails without a mutant")
            return _EXIT_KILLED
    output.write_text(json.dumps(found), encoding="utf-8")
    return _EXIT_SURVIVED


# --- applying mutants ---


def _module_name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _code_of(tree: ast.Module, path: str, function: str) -> CodeType:
    """The code of a function in a module's tree."""
    code = compile(tree, path, "exec", dont_inherit=True)
    for name in function.split("."):
        code = next(item for item in code.co_consts if getattr(item, "co_name", None) == name)
    return code


def _live(module: ModuleType, function: str) -> FunctionType:
    """The function with this qualified name in an imported module."""
    value: Any = module
    for name in function.split("."):
        value = vars(value)[name]
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    assert isinstance(value, FunctionType)
    return value


def _replace(root: Path, tree: ast.Module, path: str, function: str) -> None:
    """Replace the code of a function in the imported module by its code in `tree`."""
    _live(sys.modules[_module_name(path)], function).__code__ = _code_of(tree, str(root / path), function)


class _Loader(SourceFileLoader):
    """Loads a module from a syntax tree instead of its file."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._tree, self.path)


class _Finder(MetaPathFinder):
    """Finds one mutated module."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self._loader) if fullname == self._loader.name else None


# --- judging ---


class _Judge:
    def __init__(
        self, root: Path, trees: dict[str, ast.Module], found: Sequence[Mutant], jobs: int, presumed: Collection[int]
    ) -> None:
        self.root = root
        self.trees = trees
        self.found = found
        self.jobs = jobs
        # Numbers of mutants that are not run, because they are known to survive.
        self.presumed = presumed
        self.names = [str(mutant) for mutant in found]
        # Results of the process that collects the tests.
        self.measured_file = root / "mutation-measured.json"
        self.verdicts_file = root / "mutation-verdicts.json"
        # Shared with the forks: for each mutant, the position of the test that killed it, plus one.
        self._noticed = mmap.mmap(-1, _SLOT * max(len(found), 1))

    def measured(self) -> Measured:
        """Read the measurements."""
        text = self.measured_file.read_text(encoding="utf-8")
        return Measured([Reach(**entry) for entry in json.loads(text)])

    def judge_functions(self, plugin: Plugin) -> int:
        """In the process that has collected all tests: measure, run the control, and judge mutants of functions."""
        files = {str(self.root / module): module for module in self.trees}
        if _one(lambda: _trace(plugin, files, self.measured_file)) != SURVIVED:
            return _EXIT_KILLED
        measured = self.measured()
        _say(f"{len(measured.tests)} tests measured")

        def control() -> int:
            for module, function in {(mutant.module, mutant.function) for mutant in self.found if mutant.function}:
                _replace(self.root, self.trees[module], module, function)
            return plugin.choose(measured.tests).run()

        if _one(control) != SURVIVED:
            _say("the tests fail in the order of the mutation run without a mutant")
            return _EXIT_KILLED
        # Keeps the forks' garbage collectors from touching, and thereby copying, existing objects.
        gc.freeze()
        forks = Forks(self.jobs, self.names)
        for number, mutant in enumerate(self.found):
            if not mutant.function or number in self.presumed:
                continue
            tests = measured.reaching(mutant)
            if not tests:
                forks.verdicts[number] = UNTESTED
                continue

            def job(number: int = number, mutant: Mutant = mutant, tests: list[Reach] = tests) -> int:
                mutant.apply()
                _replace(self.root, self.trees[mutant.module], mutant.module, mutant.function)
                return self._run(number, plugin, tests)

            forks.start(number, job)
        forks.finish()
        self.verdicts_file.write_text(json.dumps(forks.verdicts), encoding="utf-8")
        return _EXIT_SURVIVED

    def _run(self, number: int, plugin: Plugin, tests: list[Reach]) -> int:
        """Run tests, starting with those that killed the preceding mutants: they are likely to kill this one too."""
        slots = memoryview(self._noticed).cast("I")[max(number - _NEIGHBOURS, 0) : number]
        likely = {position - 1 for position in slots if position}
        code = plugin.choose(sorted(tests, key=lambda reach: reach.position not in likely)).run()
        if plugin.failed is not None:
            memoryview(self._noticed).cast("I")[number] = plugin.failed.position + 1
        return code

    def judge_imports(self) -> dict[int, str]:
        """In a process without any import of the package: run the control, and judge code that runs at import."""
        measured = self.measured()
        if _one(lambda: self._import(list(self.trees), measured.tests)) != SURVIVED:
            raise SystemExit("the tests fail with modules that are imported unchanged")
        forks = Forks(self.jobs, self.names)
        for number, mutant in enumerate(self.found):
            if mutant.function or number in self.presumed:
                continue
            tests = measured.reaching(mutant)
            if not tests:
                forks.verdicts[number] = UNTESTED
                continue

            def job(mutant: Mutant = mutant, tests: list[Reach] = tests) -> int:
                mutant.apply()
                return self._import([mutant.module], tests)

            forks.start(number, job)
        forks.finish()
        return forks.verdicts

    def _import(self, modules: Sequence[str], tests: Sequence[Reach]) -> int:
        """Run tests with modules imported from their trees."""
        for path in modules:
            loader = _Loader(_module_name(path), str(self.root / path), self.trees[path])
            sys.meta_path.insert(0, _Finder(loader))
        files = sorted({reach.file for reach in tests})
        return min(_pytest(files, Plugin().choose(tests)), _EXIT_KILLED)


def judge(
    root: Path,
    trees: dict[str, ast.Module],
    found: Sequence[Mutant],
    tests: Mapping[str, str],
    jobs: int,
    presumed: Collection[int] = (),
) -> list[str]:
    """The verdict for each mutant.

    Args:
        root: The copy of the repository; the current folder.
        trees: The syntax trees of the modules, by their paths.
        found: Mutants of these trees.
        tests: Folders or files with tests, and a required part of the test ids.
        jobs: The maximum number of concurrent processes.
        presumed: Numbers of mutants that are not run, because they are known to survive.
    """
    judge = _Judge(root, trees, found, jobs, presumed)
    if _one(lambda: min(_pytest(list(tests), Plugin(judge.judge_functions, tests)), _EXIT_KILLED)) != SURVIVED:
        raise SystemExit("the tests could not be run without a mutant")
    verdicts = {int(number): verdict for number, verdict in json.loads(judge.verdicts_file.read_text()).items()}
    verdicts |= judge.judge_imports() | dict.fromkeys(presumed, SURVIVED)
    return [verdicts[number] for number in range(len(found))]
