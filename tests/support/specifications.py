"""Finds and reads the public specification suites, which are not in this repository (spec-tests/README.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from bson import json_util

REPOSITORY: Final = Path(__file__).resolve().parents[2]
VARIABLE: Final = "MOTORLITE_SPECIFICATIONS"
PLACES: Final = (
    REPOSITORY.parent / "shared" / "specifications",
    REPOSITORY / "spec-tests" / "specifications",
)


def root() -> Path | None:
    """The folder of the suites, or None.

    The first existing place applies; a place named by the environment variable is the only one tried. Each may be the
    folder of the suites or a clone of the repository, which has that folder as `source`.
    """
    return next((found for place in _places() if (found := _suites_in(place)) is not None), None)


def _places() -> tuple[Path, ...]:
    named = os.environ.get(VARIABLE)
    return (Path(named),) if named else PLACES


def _suites_in(place: Path) -> Path | None:
    """The folder of the suites at a place, or None if it has no suite."""
    return next((folder for folder in (place, place / "source") if any(folder.glob("*/tests"))), None)


def load(suite: str, *, extended: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Every test file of a suite, as pairs of an id and its content; empty if the suites are missing.

    Args:
        suite: A folder, for example ``"uri-options/tests"``, including its subfolders.
        extended: Read MongoDB Extended JSON into BSON's types.

    Raises:
        FileNotFoundError: the suites exist, but this one is missing.
    """
    base = root()
    if base is None:
        return []
    files = sorted((base / suite).rglob("*.json"))
    if not files:
        raise FileNotFoundError(f"there is no test file in {base / suite}")
    read = json_util.loads if extended else json.loads
    return [
        (file.relative_to(base / suite).with_suffix("").as_posix(), read(file.read_text(encoding="utf-8")))
        for file in files
    ]


def not_run() -> str | None:
    """The reason why the public suites are not run, or None if they are."""
    if root() is not None:
        return None
    if named := os.environ.get(VARIABLE):
        why = f"{VARIABLE}={named} is not a folder with suites"
    else:
        why = f"{VARIABLE} is not set, and neither {' nor '.join(map(str, PLACES))} has suites"
    return f"public suites not run: {why} (see spec-tests/README.md)"
