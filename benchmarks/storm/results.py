"""Pure: what a run of a storm yields, on sockets and in the simulation alike, and its JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from benchmarks.storm.timeline import capacity_at

if TYPE_CHECKING:
    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario

STEP: Final = 0.1
"""Seconds between two values of a series."""
RESOLUTION: Final = 0.0001
"""Seconds: times of requests are rounded to it in files."""
SERIES: Final = (
    "offered",  # requests that became due
    "attempts",  # commands that reached the servers, as the servers count them
    "goodput",  # requests that succeeded within the application's patience
    "rejected",  # rejections by the servers (attempts, never part of goodput)
    "timed_out",  # requests that failed because their time was up
    "failed",  # requests that failed otherwise, rejections that reached the application included
    "cancelled",  # requests that the application cancelled
    "connections",  # connections opened
    "server_queue",  # work (units) that waits at the servers, mean
    "client_queue",  # operations that wait for a connection, mean of the motorlite arms
    "tokens",  # tokens left, mean of all clients; empty where the driver shows none
    "capacity",  # requests that the servers could have answered
)
"""Counts per step of `STEP` seconds, except where they say mean."""
OUTCOMES: Final = ("ok", "rejected", "timed_out", "failed", "cancelled")
"""What became of a request. "rejected": an overload error reached the application."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the application: when it was due and when it ended, in seconds after the start of the run."""

    due: float
    ended: float
    outcome: str


@dataclass(slots=True)
class Run:
    """One arm in one scenario with one seed.

    Attributes:
        requests: All of them, failed ones too. A percentile of latencies counts a request that failed as one that did
            not end in time: it stands at the upper end.
        cpu: CPU seconds by process ("client", "ingress", "mongod"); empty in the simulation.
        invalid: Why the figures must not be used (the ingress came within a quarter of its own ceiling, the load
            generator fell behind ...). Empty: they are valid.
    """

    scenario: str
    arm: str
    seed: int
    backend: Literal["sockets", "twin"]
    seconds: float
    overload: tuple[float, float]
    capacity: float
    series: dict[str, list[float]]
    requests: list[Request] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    invalid: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, scenario: Scenario, arm: Arm, seed: int, backend: Literal["sockets", "twin"], **found: Any) -> Run:
        """A run with what was found; without series it has none of any length."""
        series = found.pop("series", None) or {name: [] for name in SERIES}
        conditions = (scenario.seconds, scenario.overload, capacity_at(scenario, 0.0))
        return cls(scenario.name, arm.name, seed, backend, *conditions, series, **found)

    def to_json(self) -> dict[str, Any]:
        """A JSON document, with the requests as columns of small integers: they are most of a file.

        `due` counts from the request before, `took` from when the request was due, both in units of `RESOLUTION`;
        `outcome` has one digit for each request. The values of the series are rounded to four digits.
        """
        document = asdict(replace(self, requests=[]))
        due = [round(request.due / RESOLUTION) for request in self.requests]
        document["series"] = {name: [round(value, 4) for value in values] for name, values in self.series.items()}
        document["requests"] = {
            "due": [now - before for now, before in zip(due, [0, *due], strict=False)],
            "took": [round(request.ended / RESOLUTION) - at for request, at in zip(self.requests, due, strict=True)],
            "outcome": "".join(str(OUTCOMES.index(request.outcome)) for request in self.requests),
        }
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Run:
        columns = document["requests"]
        due = list(accumulate(columns["due"]))
        requests = [
            Request(round(at * RESOLUTION, 4), round((at + took) * RESOLUTION, 4), OUTCOMES[int(outcome)])
            for at, took, outcome in zip(due, columns["took"], columns["outcome"], strict=True)
        ]
        return cls(**{**document, "overload": tuple(document["overload"]), "requests": requests})
