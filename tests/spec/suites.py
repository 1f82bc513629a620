"""Reads spec-tests/suites.toml: which suites are run, how, and what is not run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from motorlite import OverloadRetry
from tests.spec.unified.outcomes import SkipKind
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER: Final = specifications.REPOSITORY / "spec-tests"
FILE: Final = FOLDER / "suites.toml"
UNIFIED: Final = "unified"

Expects = Literal["success", "failure", "refusal"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A folder of test files.

    Attributes:
        name: For reports.
        path: Below the public suites, or below this project's spec-tests; or any folder.
        format: The runner, by its name in `tests.spec.formats`; None for files that are looked at one by one.
        expects: What each of its tests ends with.
        preset: The overload policy that it is run with; None for the default.
        options: The client options that it is run with.
        sharded: The files whose tests are run on a sharded cluster too, by name or pattern. Of other files only those
            are that need one, or two mongos.
        slower: A test that fails is judged with times that are so many times as long, one factor after the other.
        waits_for: Why the whole suite is not run yet; None for those that are.
        may_be_missing: Why the public data need not have it.
    """

    name: str
    path: str
    format: str | None = UNIFIED
    expects: Expects = "success"
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sharded: tuple[str, ...] = ()
    slower: tuple[int, ...] = ()
    waits_for: str | None = None
    may_be_missing: str | None = None

    @property
    def client_options(self) -> dict[str, Any]:
        """What its clients are made with."""
        if self.preset is None:
            return dict(self.options)
        return {"overload_policy": getattr(OverloadRetry, self.preset)(), **self.options}

    @property
    def is_own(self) -> bool:
        """Whether it is one of this project's own."""
        return (FOLDER / self.path).exists()

    @property
    def folder(self) -> Path | None:
        """Where it is; None where it would be one of the public suites, and those are not there."""
        base = specifications.root()
        if base is not None and ((base / self.path).exists() or not self.is_own):
            return base / self.path
        return FOLDER / self.path if self.is_own else None


@dataclass(frozen=True, slots=True)
class Skip:
    """Tests that are not run: of a file, or one of them."""

    file: str
    reason: str
    test: str | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """A test that the driver answers differently on purpose, or that contradicts its specification.

    Attributes:
        replace: What the test says instead; that is asserted. By the field of the test, in the unified format by the
            place in it (`unified.changes.replaced`).
    """

    file: str
    test: str
    replace: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """JSON files that are no tests, or no tests for this driver."""

    path: str
    reason: str
    files: str = "*"

    def has(self, path: Path) -> bool:
        """Whether a file, named by its path below the public suites, is one of them."""
        return path.is_relative_to(self.path) and fnmatchcase(path.name, self.files)


@dataclass(frozen=True, slots=True)
class Suites:
    """The whole file."""

    suites: tuple[Suite, ...]
    features: Mapping[str, tuple[SkipKind, str]]
    skips: tuple[Skip, ...]
    deviations: tuple[Deviation, ...]
    excluded: tuple[Excluded, ...]

    def suite_of(self, file: Path) -> Suite:
        """The suite that a file belongs to, or one of its own for its folder."""
        path = relative(file)
        if path is not None:
            # Compared as text: pathlib takes a second for all files.
            name = f"{path.as_posix()}/"
            found = [suite for suite in self.suites if name.startswith(f"{suite.path}/")]
            if found:
                return max(found, key=lambda suite: len(suite.path))
        return Suite(file.parent.name, str(file.parent), format=None)

    def excluded_by(self, file: Path) -> Excluded | None:
        """Why a file is not looked at."""
        path = relative(file)
        return next((one for one in self.excluded if path is not None and one.has(path)), None)

    def skip_of(self, file: str, test: str) -> Skip | None:
        """Why a test is not run."""
        return next((skip for skip in self.skips if _is(file, skip.file) and skip.test in (None, test)), None)

    def deviation_of(self, file: str, test: str) -> Deviation | None:
        """What is asserted instead of a test."""
        return next((one for one in self.deviations if _is(file, one.file) and one.test == test), None)


def _is(file: str, listed: str) -> bool:
    """Whether a file is one that suites.toml names, be it the public one or a copy in another place."""
    return file == listed or file.endswith(f"/{listed}")


def relative(file: Path) -> Path | None:
    """The path of a test file below the public suites or below spec-tests, or None for other files."""
    path = file.resolve()
    for base in (specifications.root(), FOLDER):
        if base is not None and path.is_relative_to(resolved := _resolved(base)):
            return path.relative_to(resolved)
    return None


@cache
def _resolved(base: Path) -> Path:
    return base.resolve()


@cache
def load() -> Suites:
    """Read the file."""
    data = tomllib.loads(FILE.read_text(encoding="utf-8"))
    features = {
        **{name: (SkipKind.PENDING, f"waits for {reason}") for name, reason in data["pending"].items()},
        **{
            name: (SkipKind.UNAVAILABLE, f"{name.partition('.')[2]}: {reason}")
            for name, reason in data["unavailable"].items()
        },
    }
    return Suites(
        tuple(
            Suite(**{**fields, **{name: tuple(fields.get(name, ())) for name in ("sharded", "slower")}})
            for fields in [*data["suite"], *data.get("pending_suite", ())]
        ),
        features,
        tuple(Skip(**fields) for fields in data.get("skip", ())),
        tuple(Deviation(**fields) for fields in data.get("deviation", ())),
        tuple(Excluded(**fields) for fields in data.get("excluded", ())),
    )
