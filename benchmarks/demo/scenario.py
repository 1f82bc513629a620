"""Pure: the loads, the phases of the server and the policies of the demo."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DATABASE = "demo"
COLLECTION = "items"
TASKS = 200
RETRIES = 5
# The default capacity of a client's retry budget.
TOKENS = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """Tasks that each send one request per interval (seconds), one after the other.

    Each request is due at a fixed time, regardless of earlier outcomes; a late task catches up. Every policy thus gets
    the same requests.
    """

    interval: float
    seconds: int
    tasks: int = TASKS

    @property
    def requests_per_task(self) -> int:
        return int(self.seconds / self.interval)

    @property
    def rate(self) -> float:
        return self.tasks / self.interval

    def due(self, task: int, request: int) -> float:
        """Seconds after the start; the tasks are spread evenly over the interval."""
        return self.interval * (request + task / self.tasks)


@dataclass(frozen=True, slots=True)
class Phase:
    """A period (seconds) in which the server rejects a share of all commands."""

    name: str
    seconds: int
    rejected: float


REJECTED = 0.6
PHASES = (Phase("healthy", 2, 0.0), Phase(f"rejects {REJECTED:.0%}", 10, REJECTED), Phase("recovered", 4, 0.0))
# 100 requests a second. At 60 % rejections, a request costs the token bucket 0.73 tokens on average: a full bucket
# lasts for 13 seconds.
SURVIVAL_LOAD = Load(interval=2.0, seconds=sum(phase.seconds for phase in PHASES))


def timeline() -> list[Phase]:
    """The phase of every second of the first part."""
    return [phase for phase in PHASES for _ in range(phase.seconds)]


@dataclass(frozen=True, slots=True)
class Policy:
    """How an application handles rejected requests."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    # Immediate retries in a loop of the application.
    application_retries: int = 0
    is_pymongo: bool = False


_NO_RETRIES = {"maxAdaptiveRetries": 0, "retryReads": False, "retryWrites": False}
POLICIES = (
    Policy("motorlite's default"),
    Policy("no retries", _NO_RETRIES),
    Policy("immediate retries", _NO_RETRIES, application_retries=RETRIES),
)

PYMONGO = Policy("PyMongo Async", is_pymongo=True)


def policies(backend: str) -> tuple[Policy, ...]:
    """What the second part compares; PyMongo runs on asyncio alone."""
    return (*POLICIES, PYMONGO) if backend == "asyncio" else POLICIES


COMPARISON_LOAD = Load(interval=0.5, seconds=6)
CAPACITY = 800.0  # attempts per second that the server admits
OVERLOADED_CAPACITY = 160.0  # 40 % of the load: without any retry 60 % are rejected
OVERLOADS = ((1.0, 2.0), (3.5, 4.5))  # from and to, in seconds


def capacity(elapsed: float) -> float:
    """Attempts per second that the server admits at this time of the comparison."""
    overloaded = any(begin <= elapsed < end for begin, end in OVERLOADS)
    return OVERLOADED_CAPACITY if overloaded else CAPACITY
