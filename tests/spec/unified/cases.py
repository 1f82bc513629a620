"""The tests of a file in the unified format."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tests.spec import suites
from tests.spec.unified import changes, features, members, requirements
from tests.spec.unified.outcomes import SkipKind, Skipped
from tests.spec.unified.schema import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.spec.files import TestFile
    from tests.spec.suites import Deviation, Suite
    from tests.spec.unified.environment import Topology


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
    def deviation(self) -> Deviation | None:
        """What is asserted instead of what the file says."""
        return suites.load().deviation_of(self.file.name, self.description)

    def prepared(self, slower: int = 1) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Copies of the file without its tests, and of the test, as they are run.

        Args:
            slower: How many times as long all times in them are.

        Raises:
            BadTest: suites.toml replaces what the test does not have.
        """
        deviation = self.deviation
        test = self.test if deviation is None else changes.replaced(self.test, deviation.replace)
        shared = {name: value for name, value in self.content.items() if name != "tests"}
        return changes.slowed(shared, slower), changes.slowed(test, slower)

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
        needed = self._requirements()
        found = [
            topology
            for topology in known
            if all(
                not each or any(requirements.allows(one.get("topologies", known), topology) for one in each)
                for each in needed
            )
        ]
        if self._needs_bulk_writes:
            return [topology for topology in found if topology == "sharded-8.0"] or known[:1]
        found = [topology for topology in found if topology != "sharded-8.0"]
        plain = [topology for topology in found if topology not in ("sharded", "load-balanced")]
        if plain and not self._is_about_mongos:
            return plain
        # What needs no load balancer is shown without it.
        return [topology for topology in found if not plain or topology != "load-balanced"] or known[:1]

    @property
    def _is_about_mongos(self) -> bool:
        """Whether a sharded cluster may show more than other servers."""
        if any(fnmatchcase(self.file.path.stem, pattern) for pattern in self.suite.sharded):
            return True
        file = self.file.plain if isinstance(self.file.plain, dict) else {}
        content = [file.get("createEntities"), *self.file.tests[self.index : self.index + 1]]
        return any(name == "useMultipleMongoses" and value is True for name, value in members.fields(content))

    @property
    def _needs_bulk_writes(self) -> bool:
        """Whether it is about what MongoDB 8.0 has and the facade adds: bulk writes of a client."""
        # As plain JSON: converting the values of all files, or checking them, would take seconds.
        test = self.file.tests[self.index : self.index + 1]
        if ("name", "clientBulkWrite") not in members.fields(test):
            return False
        lowest = [
            version(one["minServerVersion"])
            for each in self._requirements()
            for one in each[:1]
            if "minServerVersion" in one
        ]
        return (8, 0) <= max(lowest, default=(0,)) < (8, 1)

    @property
    def members(self) -> int:
        """How many members a replica set needs for it."""
        file = self.file.plain if isinstance(self.file.plain, dict) else {}
        is_for_replica_sets_only = any(
            found and all(one.get("topologies") == ["replicaset"] for one in found) for found in self._requirements()
        )
        content = [file.get("createEntities"), *self.file.tests[self.index : self.index + 1]]
        return members.needed(content, is_for_replica_sets_only=is_for_replica_sets_only)

    def _requirements(self) -> list[list[Mapping[str, Any]]]:
        """The file's and the test's own, not checked yet."""
        if self.suite.expects == "refusal":
            return []
        places = [self.file.plain, *self.file.tests[self.index : self.index + 1]]
        found = [place.get("runOnRequirements") for place in places if isinstance(place, dict)]
        return [[one for one in each if isinstance(one, dict)] for each in found if isinstance(each, list)]

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
        skip = listed.skip_of(self.file.name, self.description)
        if skip is not None:
            raise Skipped(SkipKind.LISTED, skip.reason)
        if "skipReason" in self.test:
            raise Skipped(SkipKind.FILE, self.test["skipReason"])
        for feature in features.used(self.content, self.test):
            kind, name = feature.split(".", 1) if "." in feature else (feature, "")
            found = listed.features.get(feature) or listed.features.get(f"{kind}.*")
            if found is not None:
                raise Skipped(found[0], f"{name or kind}: {found[1]}" if found[0] is SkipKind.PENDING else found[1])


def cases_of(file: TestFile) -> Iterator[Case]:
    """The tests of a file; the file itself where it should be refused, or has none."""
    if file.suite.expects == "refusal" or not file.tests:
        yield Case(file, 0, "the file")
        return
    for index, description in enumerate(file.descriptions):
        yield Case(file, index, description)
