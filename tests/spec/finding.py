"""Finds the tests of a run: of the suites in suites.toml, or in the files and folders that somebody names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tests.spec import suites
from tests.spec.files import TestFile
from tests.spec.formats import cases as format_cases
from tests.spec.unified import cases as unified_cases
from tests.spec.unified.judge import Record
from tests.spec.unified.outcomes import SkipKind
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.spec.formats.cases import FormatCase
    from tests.spec.suites import Suite
    from tests.spec.unified.cases import Case
    from tests.spec.unified.judge import Outcome


Found: TypeAlias = "Case | FormatCase | NotRun"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A test of a suite that waits as a whole, or a suite that is not there: how it ends is known already."""

    suite: Suite
    file: str
    description: str
    outcome: Outcome
    reason: str
    kind: str = ""

    @property
    def id(self) -> str:
        """A readable name."""
        return f"{self.file}: {self.description}"

    @property
    def record(self) -> Record:
        """What is written down of it."""
        identity = (self.suite.name, self.file, self.description, format_cases.NO_LOOP, "")
        return Record(*identity, self.outcome, self.reason, self.kind)


def find(paths: Iterable[Path] | None = None, text: str = "") -> Iterator[Found]:
    """The tests in files and folders; of all suites in suites.toml without `paths`.

    Args:
        paths: Files and folders, by themselves, or below the public suites or spec-tests.
        text: Only tests whose id has this in it.

    Raises:
        FileNotFoundError: there are no test files in one of the paths.
        ValueError: a file is in no format that is known.
    """
    found = _all() if paths is None else _below(paths)
    return (case for case in found if text.lower() in case.id.lower())


# --- everything ---


def _all() -> Iterator[Found]:
    for suite in suites.load().suites:
        yield from cases_of_suite(suite)


def cases_of_suite(suite: Suite) -> Iterator[Found]:
    """The tests of one suite, be it run or not; none where the public suites are not there."""
    if suite.folder is None:
        return
    files = list(files_of(suite))
    if not files:
        yield _missing(suite)
    for file in files:
        if suite.waits_for is None:
            yield from _cases_of(file)
        else:
            for description in file.descriptions or [file.description or "the file"]:
                reason = f"the suite waits for {suite.waits_for}"
                yield NotRun(suite, file.name, description, "skipped", reason, SkipKind.PENDING)


def files_of(suite: Suite) -> Iterator[TestFile]:
    """The files of a suite; those in a suite of their own below it are not among them."""
    for file in sorted(suite.folder.rglob("*.json")) if suite.folder is not None else ():
        if suites.load().suite_of(file) is suite:
            yield TestFile(file, suite)


def _missing(suite: Suite) -> NotRun:
    if suite.may_be_missing is not None:
        return NotRun(suite, suite.path, "the suite", "skipped", suite.may_be_missing, SkipKind.LISTED)
    return NotRun(suite, suite.path, "the suite", "failed", f"there is no test file in {suite.folder}")


# --- what somebody names ---


def _below(paths: Iterable[Path]) -> Iterator[Found]:
    seen: set[Path] = set()
    for path in paths:
        for file in _files_below(_place(path)):
            if file not in seen:
                seen.add(file)
                yield from _cases_of(TestFile(file, suites.load().suite_of(file)))


def _place(path: Path) -> Path:
    """Where it is: as it stands, else below the public suites, else below spec-tests.

    Raises:
        FileNotFoundError: nowhere.
    """
    places = [path, *(base / path for base in (specifications.root(), suites.FOLDER) if base is not None)]
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(f"there is no {path}, nor {' nor '.join(map(str, places[1:]))}")


def _files_below(place: Path) -> Iterator[Path]:
    """Test files; from a folder without those that suites.toml says are none."""
    if not place.is_dir():
        yield place
        return
    found = {file: suites.load().excluded_by(file) for file in sorted(place.rglob("*.json"))}
    if all(found.values()):
        reasons = {f": {excluded.reason}" for excluded in found.values() if excluded is not None}
        raise FileNotFoundError(f"there is no test file in {place}{''.join(sorted(reasons))}")
    yield from (file for file, excluded in found.items() if excluded is None)


def _cases_of(file: TestFile) -> Iterator[Case | FormatCase]:
    if file.format is None:
        raise ValueError(f"{file.path} is in no format that is known (spec-tests/README.md has the list)")
    if file.format == suites.UNIFIED:
        yield from unified_cases.cases_of(file)
    else:
        yield from format_cases.cases_of(file, file.format)
