"""Shell: all runs of one command in one file, with what they ran on."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.storm.arms import Arm
from benchmarks.storm.results import Run
from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.summary import Estimate, Summary, over_seeds, summarize

KIND: Final = "motorlite storm"
SCHEMA: Final = 1
CPUS: Final = Path("/proc/cpuinfo")


class SessionError(Exception):
    """A file is not a session, or not one that this version can read."""


@dataclass(frozen=True, slots=True)
class Record:
    """A run and its figures, which outlive its requests."""

    run: Run
    summary: Summary


@dataclass(frozen=True, slots=True)
class Group:
    """One arm in one scenario on one backend, with all seeds.

    Attributes:
        records: The valid runs.
        invalid: Why other runs must not be used, each reason once.
        left_out: The number of those runs.
    """

    scenario: str
    arm: str
    backend: str
    records: tuple[Record, ...]
    invalid: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The figures over all seeds; without valid runs they have no values."""
        return over_seeds([record.summary for record in self.records])


@dataclass(slots=True)
class Session:
    """All runs of one command.

    Attributes:
        scenarios: In the order of the report.
        arms: What the runs' arms are.
        facts: What the runs ran on, as texts: the machine, versions, the command, the date.
        records: The runs, in the order in which they ended.
    """

    scenarios: list[Scenario]
    arms: list[Arm]
    facts: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def add(self, run: Run) -> Summary:
        """Take a run in. The requests of one point of a sweep are let go: only their figures are ever shown."""
        summary = summarize(run)
        if self.scenario(run.scenario).point:
            run.requests = []
        self.records.append(Record(run, summary))
        return summary

    def scenario(self, name: str) -> Scenario:
        return {scenario.name: scenario for scenario in self.scenarios}[name]

    def backends(self, scenario: str) -> list[str]:
        return sorted({record.run.backend for record in self.records if record.run.scenario == scenario})

    def sweep(self, family: str, backend: str) -> dict[str, dict[tuple[float, ...], Group]]:
        """The groups of a family by arm and by their place in the sweep."""
        found: dict[str, dict[tuple[float, ...], Group]] = {}
        for scenario in self.scenarios:
            if scenario.family == family and scenario.point:
                for group in self.groups(scenario.name, backend):
                    if group.records:
                        found.setdefault(group.arm, {})[tuple(value for _, value in scenario.point)] = group
        return found

    def groups(self, scenario: str, backend: str) -> list[Group]:
        """The arms of a scenario on a backend, in the order of the scenario; others follow."""
        by_arm: dict[str, list[Record]] = {arm: [] for arm in self.scenario(scenario).arms}
        for record in self.records:
            if (record.run.scenario, record.run.backend) == (scenario, backend):
                by_arm.setdefault(record.run.arm, []).append(record)
        found = []
        for arm, records in by_arm.items():
            valid = tuple(record for record in records if not record.run.invalid)
            reasons = tuple(dict.fromkeys(reason for record in records for reason in record.run.invalid))
            if records:
                found.append(Group(scenario, arm, backend, valid, reasons, len(records) - len(valid)))
        return found

    def all_groups(self) -> list[Group]:
        return [
            group
            for scenario in self.scenarios
            for backend in self.backends(scenario.name)
            for group in self.groups(scenario.name, backend)
        ]


def machine(command: str = "") -> dict[str, str]:
    """What every session says of where and when it was made."""
    one, five, _ = os.getloadavg()
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": f"{os.cpu_count()} x {_cpu_model()}",
        "load average": f"{one:.1f}, {five:.1f} before",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _cpu_model() -> str:
    """The name of the processor, or of its kind where the system does not tell."""
    for line in CPUS.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def save(session: Session, path: Path) -> None:
    """Write a session as JSON, compressed if the name ends with `.gz`."""
    document = {
        "kind": KIND,
        "schema": SCHEMA,
        "facts": session.facts,
        "scenarios": [{**asdict(scenario), "tags": sorted(scenario.tags)} for scenario in session.scenarios],
        "arms": [asdict(arm) for arm in session.arms],
        "runs": [{**record.run.to_json(), "summary": asdict(record.summary)} for record in session.records],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (json.dumps(document, separators=(",", ":")) + "\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def load(path: Path) -> Session:
    """Read a session.

    Raises:
        OSError: The file cannot be read.
        SessionError: It is no session, or one of another version.
    """
    data = path.read_bytes()
    try:
        document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (ValueError, OSError, EOFError) as error:
        raise SessionError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise SessionError(f"{path} is not a session of storms")
    if document.get("schema") != SCHEMA:
        raise SessionError(f"{path} has schema {document.get('schema')}; this version reads {SCHEMA}")
    try:
        return Session(
            [_scenario(scenario) for scenario in document["scenarios"]],
            [Arm(**arm) for arm in document["arms"]],
            document["facts"],
            [_record(run) for run in document["runs"]],
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise SessionError(f"{path} is damaged: {error!r}") from error


def _record(document: dict[str, Any]) -> Record:
    summary = document.pop("summary")
    return Record(Run.from_json(document), Summary(**summary))


def _scenario(document: dict[str, Any]) -> Scenario:
    changes = tuple(Change(**{**change, "servers": tuple(change["servers"])}) for change in document["changes"])
    return Scenario(
        **{
            **document,
            "load": Load(**document["load"]),
            "servers": tuple(Server(**server) for server in document["servers"]),
            "changes": changes,
            "arms": tuple(document["arms"]),
            "tags": frozenset(document["tags"]),
            "point": tuple((name, value) for name, value in document["point"]),
        }
    )
