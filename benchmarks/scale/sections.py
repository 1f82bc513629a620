"""Pure: what `scale` measures: sections, each with its cases and the servers that they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.documents import SIZES
from benchmarks.speed.workloads import ALL_TASKS, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

TASKS: Final = 50
PROCESSES: Final = (1, 2, 4, 8)
COMPRESSORS: Final = ("zlib", "zstd", "snappy")
PLAIN: Final = ""
SERVERS: Final[dict[str, dict[str, Any]]] = {
    "standalone": {"topology": "standalone"},
    "TLS": {"topology": "standalone", "tls": True},
    "replica set": {"topology": "replicaset", "nodes": 3},
}
"""Arguments of `LocalServer.start`."""


class Variant(NamedTuple):
    """How the clients of a case connect: to which server, with which options of the connection string."""

    server: str
    options: str = ""


VARIANTS: Final = {
    PLAIN: Variant("standalone"),
    "TLS": Variant("TLS"),
    **{name: Variant("standalone", f"compressors={name}") for name in COMPRESSORS},
    "nearest": Variant("replica set", "readPreference=nearest"),
}


class Case(NamedTuple):
    """What each arm does in a round, under which title."""

    title: str
    operation: str
    tasks: int = TASKS
    processes: int = 1
    variant: str = PLAIN


@dataclass(frozen=True, slots=True)
class Section:
    """Cases that are measured in the same rounds, and are one table."""

    title: str
    cases: tuple[Case, ...]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(case.variant for case in self.cases))

    def processes(self, variant: str = PLAIN) -> int:
        return max(case.processes for case in self.cases if case.variant == variant)

    def without(self, tasks: Sequence[int], processes: Sequence[int]) -> Section:
        """The section without its cases at these numbers of tasks and of processes."""
        cases = [case for case in self.cases if case.tasks not in tasks and case.processes not in processes]
        return replace(self, cases=tuple(cases))


def _case(operation: str, extra: str = "", **numbers: Any) -> Case:
    return Case(", ".join(filter(None, (WORKLOADS[operation].title, extra))), operation, **numbers)


SECTIONS: Final = {
    "a": Section(
        "Tasks", tuple(_case(operation, tasks=tasks) for operation in ("find_one", "mixed") for tasks in ALL_TASKS)
    ),
    "b": Section(
        "Processes", tuple(_case("find_one", f"client processes: {count}", processes=count) for count in PROCESSES)
    ),
    "c": Section("Size of the reply", tuple(_case(f"reply_{size}") for size in SIZES)),
    "d": Section(
        "TLS and compression",
        tuple(
            _case(f"reply_{size}", variant, variant=variant)
            for size in (1_000, 10_000)
            for variant in (PLAIN, "TLS", *COMPRESSORS)
        ),
    ),
    "e": Section(
        "Replica set",
        tuple(_case("find_one", "three members, nearest", tasks=tasks, variant="nearest") for tasks in (50, 500)),
    ),
}
GROWTH: Final = "f"
NAMES: Final = {**{letter: section.title for letter, section in SECTIONS.items()}, GROWTH: "Growth"}
