"""Reads spec-tests/suites.toml: which suites are run, how, and what is not run."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from motorlite import OverloadRetry
from tests.spec.unified.outcomes import SkipKind
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = specifications.REPOSITORY / "spec-tests" / "suites.toml"

Expects = Literal["success", "failure", "refusal"]


@dataclass(frozen=True, slots=True)
class Suite:
    """A folder of test files.

    Attributes:
        name: For reports.
        path: Below the specifications; or any folder.
        expects: What each of its tests ends with.
        preset: The overload policy that it is run with; None for the default.
        options: The client options that it is run with.
    """

    name: str
    path: str
    expects: Expects = "success"
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def client_options(self) -> dict[str, Any]:
        """What its clients are made with."""
        if self.preset is None:
            return dict(self.options)
        return {"overload_policy": getattr(OverloadRetry, self.preset)(), **self.options}


@dataclass(frozen=True, slots=True)
class Skip:
    """Tests that are not run: of a file, or one of them."""

    file: str
    reason: str
    test: str | None = None


@dataclass(frozen=True, slots=True)
class Suites:
    """The whole file."""

    suites: tuple[Suite, ...]
    features: Mapping[str, tuple[SkipKind, str]]
    skips: tuple[Skip, ...]

    def suite_of(self, file: Path) -> Suite:
        """The suite that a file belongs to, or one of its own for its folder."""
        path = below_specifications(file)
        for suite in self.suites:
            if path is not None and path.is_relative_to(suite.path):
                return suite
        return Suite(file.parent.name, str(file.parent))


def below_specifications(file: Path) -> Path | None:
    """The path of a public test file in its repository, or None for other files."""
    base = specifications.root()
    if base is None or not file.resolve().is_relative_to(base.resolve()):
        return None
    return file.resolve().relative_to(base.resolve())


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
        tuple(Suite(**fields) for fields in data["suite"]),
        features,
        tuple(Skip(**fields) for fields in data.get("skip", ())),
    )
