"""Finds test files, and the tests in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bson import json_util

from tests.spec.unified import features, schema, suites
from tests.spec.unified.outcomes import SkipKind, Skipped
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.spec.unified.environment import Topology
    from tests.spec.unified.suites import Suite


class TestFile:
    """One test file. It is checked when it is used, and once."""

    __test__ = False

    def __init__(self, path: Path, suite: Suite) -> None:
        self.path = path
        self.suite = suite
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def name(self) -> str:
        """The path below the specifications, or the whole one, without the ending."""
        path = suites.below_specifications(self.path) or self.path
        return path.with_suffix("").as_posix()

    @property
    def is_unified(self) -> bool:
        """Whether it means to be in the unified format."""
        return self.suite.expects == "refusal" or (isinstance(self.plain, dict) and "schemaVersion" in self.plain)

    @cached_property
    def plain(self) -> Any:
        """The content as plain JSON."""
        return json.loads(self.text)

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The content as BSON."""
        content: Mapping[str, Any] = json_util.loads(self.text)
        return content

    @cached_property
    def problem(self) -> schema.InvalidFile | None:
        """What is wrong with the file, or None."""
        try:
            schema.check_version(self.plain)
            schema.check(self.plain)
        except schema.InvalidFile as error:
            return error
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One test: the place of it in its file."""

    file: TestFile
    index: int
    description: str

    @property
    def suite(self) -> Suite:
        return self.file.suite

    @property
    def content(self) -> Mapping[str, Any]:
        return self.file.content

    @property
    def test(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.file.content["tests"][self.index]
        return found

    @property
    def client_options(self) -> Mapping[str, Any]:
        return self.suite.client_options

    @property
    def id(self) -> str:
        """A readable name."""
        return f"{self.file.name}: {self.description}"

    @property
    def needs_auth(self) -> bool:
        """Whether it runs with authentication only."""
        return any(found and all(one.get("auth") for one in found) for found in self._requirements())

    def topologies(self, known: Sequence[Topology]) -> Sequence[Topology]:
        """Those of the known topologies that it may run on; the first one when there is none, to say why not."""
        if self.suite.expects == "refusal":
            return known[:1]
        requirements = self._requirements()
        return [
            topology
            for topology in known
            if all(
                not found or any(topology in one.get("topologies", known) for one in found) for found in requirements
            )
        ] or known[:1]

    def _requirements(self) -> list[list[Mapping[str, Any]]]:
        """The file's and the test's own, not checked yet."""
        if self.suite.expects == "refusal":
            return []
        return [where.get("runOnRequirements", []) for where in (self.file.plain, self.file.plain["tests"][self.index])]

    def check_format(self) -> None:
        """Check the file.

        Raises:
            InvalidFile: it is not in the format.
        """
        if self.file.problem is not None:
            raise self.file.problem

    def check_listed(self) -> None:
        """Check that neither the file nor suites.toml keeps the test from being run.

        Raises:
            Skipped: one does.
        """
        listed = suites.load()
        for skip in listed.skips:
            if skip.file == self.file.name and skip.test in (None, self.description):
                raise Skipped(SkipKind.LISTED, skip.reason)
        if "skipReason" in self.test:
            raise Skipped(SkipKind.FILE, self.test["skipReason"])
        for feature in features.used(self.content, self.test):
            kind, name = feature.split(".", 1) if "." in feature else (feature, "")
            found = listed.features.get(feature) or listed.features.get(f"{kind}.*")
            if found is not None:
                raise Skipped(found[0], f"{name or kind}: {found[1]}" if found[0] is SkipKind.PENDING else found[1])


def find(paths: Iterable[Path] | None = None, text: str = "") -> Iterator[Case]:
    """The tests in files and folders; of all suites in suites.toml without `paths`.

    Args:
        paths: Files and folders.
        text: Only tests whose id has this in it.

    Raises:
        FileNotFoundError: there are no test files.
    """
    for file in files(paths):
        for case in cases_of(file):
            if text.lower() in case.id.lower():
                yield case


def files(paths: Iterable[Path] | None = None) -> Iterator[TestFile]:
    """The test files; see `find`."""
    base = specifications.root()
    listed = suites.load()
    if paths is None:
        paths = [] if base is None else [base / suite.path for suite in listed.suites]
    for path in paths:
        place = path if path.exists() or base is None else base / path
        found = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        if not found:
            raise FileNotFoundError(f"there is no test file in {place}")
        for file in found:
            made = TestFile(file, listed.suite_of(file))
            # Folders hold files of other formats as well, which have runners of their own.
            if made.is_unified or not place.is_dir():
                yield made


def cases_of(file: TestFile) -> Iterator[Case]:
    """The tests of a file; the file itself where it should be refused, or has none."""
    plain = file.plain
    tests = plain.get("tests") if isinstance(plain, dict) else None
    if file.suite.expects == "refusal" or not isinstance(tests, list) or not tests:
        yield Case(file, 0, "the file")
        return
    for index, test in enumerate(tests):
        yield Case(file, index, str(test.get("description", index)))
