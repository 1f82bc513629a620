"""Shell: the data of the public benchmark, which is not in this repository."""

from __future__ import annotations

import json
import os
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
VARIABLE: Final = "MOTORLITE_BENCHMARK_DATA"
PLACES: Final = (
    ROOT.parent / "shared" / "benchmark-data",
    ROOT / "spec-tests" / "specifications" / "source" / "benchmarking" / "data",
)
ARCHIVES: Final = ("single_and_multi_document.tgz", "parallel.tgz")


class DataMissingError(Exception):
    """The archives are in none of the places."""


def folder() -> Path:
    """The folder of the archives: the one named by the environment variable, or the first place that has them.

    Raises:
        DataMissingError: There is none.
    """
    named = os.environ.get(VARIABLE)
    places = (Path(named),) if named else PLACES
    for place in places:
        if all((place / archive).is_file() for archive in ARCHIVES):
            return place
    raise DataMissingError(
        f"the data of the public benchmark is not there: {' and '.join(ARCHIVES)} in {' or '.join(map(str, places))}"
        f" (or in the folder that {VARIABLE} names)"
    )


def extract(target: Path, *, text_files: int, binary_files: int) -> None:
    """Unpack the documents, the large file and the first so many files of the parallel tasks."""
    with tarfile.open(folder() / ARCHIVES[0]) as archive:
        archive.extractall(target, filter="data")
    with tarfile.open(folder() / ARCHIVES[1]) as archive:
        wanted = _first(archive.getnames(), "ldjson_multi/", text_files)
        wanted |= _first(archive.getnames(), "gridfs_multi/", binary_files)
        for member in archive:
            if member.name in wanted:
                archive.extract(member, target, filter="data")


def _first(names: Sequence[str], part: str, count: int) -> set[str]:
    return set(sorted(name for name in names if part in name and not Path(name).name.startswith("."))[:count])


class Data:
    """What `extract` has unpacked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cache  # noqa: B019 -- one object for the whole program
    def document(self, name: str) -> dict[str, Any]:
        """`small_doc`, `large_doc` or `tweet`."""
        path = self.root / "single_and_multi_document" / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    @cache  # noqa: B019 -- one object for the whole program
    def large_file(self) -> bytes:
        return (self.root / "single_and_multi_document" / "gridfs_large.bin").read_bytes()

    def text_files(self) -> list[Path]:
        """Files with a JSON document on each line."""
        return sorted((self.root / "parallel" / "ldjson_multi").glob("ldjson*"))

    def binary_files(self) -> list[Path]:
        """Files for GridFS."""
        return sorted((self.root / "parallel" / "gridfs_multi").glob("file*"))
