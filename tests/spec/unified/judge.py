"""Runs tests on their deployments and records how each ended."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from motorlite.errors import PyMongoError
from tests.spec.unified.contention import Contention
from tests.spec.unified.environment import FACADES, Environment
from tests.spec.unified.errors import describe
from tests.spec.unified.outcomes import BadTest, Failed, SkipKind, Skipped
from tests.spec.unified.run import check_requirements, run_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.spec.unified.cases import Case
    from tests.spec.unified.environment import Topology

# Seconds after which a test that failed has no other chance: it waited in vain.
_TOO_LONG: Final = 10.0

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Record:
    """How one execution of a test ended.

    Attributes:
        deployment: Where it ran; empty when it ran nowhere.
        reason: Of a failure or a skip; why a test that passed is not quite the file's.
        kind: Of a skip; "deviation" or "pace" of a test that passed.
        seconds: How long it took.
    """

    suite: str
    file: str
    test: str
    backend: str
    deployment: str
    outcome: Outcome
    reason: str = ""
    kind: str = ""
    seconds: float = 0.0


class Deployments:
    """The deployments of a run; each is started when it is first needed."""

    def __init__(self, topologies: Sequence[Topology], *, auth: bool | None, members: int | None = None) -> None:
        self._topologies = topologies
        # None: what each test asks for.
        self._auth = auth
        self._members = members
        self._running: dict[tuple[Topology, bool, int], Environment] = {}

    def __enter__(self) -> Deployments:
        return self

    def __exit__(self, *_exc: object) -> None:
        # Those that share a server with an earlier one stop before it.
        for environment in reversed(self._running.values()):
            environment.stop()

    def get(self, topology: Topology, *, has_auth: bool, members: int = 1) -> Environment:
        """One deployment; `members` counts for replica sets, unless all have the same number."""
        key = topology, has_auth, 1 if topology == "single" else self._members or members
        if key not in self._running:
            if topology in FACADES:
                made = self.get("replicaset", has_auth=has_auth, members=members).facade(topology)
            else:
                made = Environment.start(topology, has_auth=has_auth, members=key[2])
            self._running[key] = made
        return self._running[key]

    def suitable(self, case: Case) -> tuple[list[Environment], Skipped | None]:
        """The deployments that a test can run on; and why it cannot, when there is none."""
        found: list[Environment] = []
        skipped: Skipped | None = None
        if case.suite.expects == "refusal":
            return [self.get(self._topologies[0], has_auth=bool(self._auth))], None
        needs_auth = case.needs_auth
        for topology in case.topologies(self._topologies):
            for has_auth in [needs_auth] if self._auth is None else [self._auth]:
                environment = self.get(topology, has_auth=has_auth, members=case.members)
                try:
                    if case.file.problem is None:
                        check_requirements(case, environment)
                    found.append(environment)
                except Skipped as error:
                    # What no server can show yet says more than what this one cannot.
                    if skipped is None or error.kind is not SkipKind.SERVER:
                        skipped = error
        return found, skipped


async def _ends_as_expected(case: Case, environment: Environment, slower: int) -> None:
    """Run a test, and turn the outcome round where it should fail."""
    if case.suite.expects == "success":
        await run_case(case, environment, slower)
        return
    if case.suite.expects == "refusal":
        if case.file.problem is None:
            raise Failed("the schema does not refuse the file")
        return
    try:
        await run_case(case, environment)
    except (Failed, BadTest, PyMongoError, TypeError, ValueError):
        return
    raise Failed("the test passes, and should fail")


def judge(case: Case, environment: Environment, backend: str) -> Record:
    """Run a test and record how it ended.

    A test of a suite with times of a few milliseconds says nothing on a machine on which processes wait as long for a
    processor: one that fails there has another chance, with longer times. On a machine with processors to spare the
    first failure counts.
    """
    contention = Contention()
    first = found = _judged(case, environment, backend, 1)
    for slower in case.suite.slower:
        if found.outcome != "failed" or found.seconds > _TOO_LONG or not contention.was_busy:
            break
        contention = Contention()
        found = _judged(case, environment, backend, slower)
        if found.outcome == "passed":
            (reason, *_) = first.reason.splitlines()
            return replace(found, kind="pace", reason=f"times {slower} times as long; with those of the file: {reason}")
    return found


def _judged(case: Case, environment: Environment, backend: str, slower: int) -> Record:
    identity: Mapping[str, Any] = {
        "suite": case.suite.name,
        "file": case.file.name,
        "test": case.description,
        "backend": backend,
        "deployment": environment.name,
    }
    start = time.monotonic()

    def made(outcome: Outcome, reason: str = "", kind: str = "") -> Record:
        return Record(**identity, outcome=outcome, reason=reason, kind=kind, seconds=time.monotonic() - start)

    try:
        anyio.run(_ends_as_expected, case, environment, slower, backend=backend)
    except Skipped as skipped:
        return made("skipped", skipped.reason, skipped.kind)
    except (Failed, BadTest) as failure:
        return made("failed", f"{type(failure).__name__}: {failure}")
    except Exception as error:
        return made("failed", f"{describe(error)}\n{''.join(traceback.format_exception(error))}")
    deviation = case.deviation
    return made("passed") if deviation is None else made("passed", deviation.reason, "deviation")


def judge_all(cases: Sequence[Case], deployments: Deployments, backends: Sequence[str]) -> Iterator[Record]:
    """Run tests, each on every deployment that it can run on."""
    for case in cases:
        environments, skipped = deployments.suitable(case)
        for backend in backends:
            if not environments:
                assert skipped is not None
                yield Record(
                    case.suite.name,
                    case.file.name,
                    case.description,
                    backend,
                    "",
                    "skipped",
                    skipped.reason,
                    skipped.kind,
                )
            for environment in environments:
                yield judge(case, environment, backend)
