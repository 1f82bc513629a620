"""Pure: what a storm is: the load, the servers, and what changes while it lasts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Load:
    """What the application wants, whatever the driver makes of it.

    Attributes:
        rate: Requests per second of all clients together, due at random times (Poisson) whatever becomes of earlier
            ones. Latency counts from then.
        clients: Clients (each with its own pool and its own retry budget).
        patience: `timeoutMS` of each request, in seconds. None: no limit.
        application_retries: Immediate retries by the application itself, around the driver.
        cancelled: The share of requests that the application cancels, at a random time within `patience` or 100 ms.
        warm: Connections of each client to each server when the run begins, but at most `max_pool_size` of the arm.
            Clients that have been at work for a while have as many as their busiest moment needed.
    """

    rate: float
    clients: int = 10
    patience: float | None = None
    application_retries: int = 0
    cancelled: float = 0.0
    warm: int = 100


@dataclass(frozen=True, slots=True)
class Server:
    """One server behind an ingress that works through `work` units per second in order of arrival.

    An admitted request costs one unit. Neither rejections nor handshakes are free.

    Attributes:
        work: Units per second.
        mode: "shed" rejects what the limiter does not admit with code 462; "queue" has no limiter, and lets requests
            wait until their clients give up.
        admission_rate: Requests per second that the limiter admits (`ingressRequestAdmissionRatePerSec`).
        admission_burst: Seconds of that rate that it admits at once (`ingressRequestAdmissionBurstCapacitySecs`).
        connection_rate: New connections per second (`ingressConnectionEstablishmentRatePerSec`). None: no limit.
        connection_burst: Seconds of that rate at once (`ingressConnectionEstablishmentBurstCapacitySecs`).
        connection_queue: Connections that wait for the limiter; beyond it they are closed before the handshake
            (`ingressConnectionEstablishmentMaxQueueDepth`).
        base_backoff: `baseBackoffMS` in rejections, in seconds. None: absent.
        rejection_cost: Units of one rejection.
        handshake_cost: Units of one new connection.
        latency: Seconds of a request beside its place in the queue.
        failure_rate: The share of admitted requests that fail with an overload error at random.
    """

    work: float = 750.0
    mode: Literal["shed", "queue"] = "shed"
    admission_rate: float = 500.0
    admission_burst: float = 0.1
    connection_rate: float | None = None
    connection_burst: float = 1.0
    connection_queue: int = 0
    base_backoff: float | None = None
    rejection_cost: float = 0.1
    handshake_cost: float = 5.0
    latency: float = 0.001
    failure_rate: float = 0.0

    @property
    def capacity(self) -> float:
        """Requests per second that it can answer while no work is wasted."""
        return min(self.work, self.admission_rate) if self.mode == "shed" else self.work


@dataclass(frozen=True, slots=True)
class Change:
    """What is different from `start` to `end` (seconds after the beginning of the run).

    Attributes:
        load: Multiplies the rate.
        capacity: Multiplies the work and the admission rate of the servers.
        servers: The indices of the servers that it concerns; empty: all.
        down: The servers refuse connections and close those that are open; the primary among them fails over.
        failure_rate: Replaces the servers' own.
        unreachable: The servers answer every request with "host unreachable" (code 6), at the cost of a rejection: an
            error of the retryable reads specification, which is not one of overload. They stay what they are to the
            clients.
    """

    start: float
    end: float
    load: float = 1.0
    capacity: float = 1.0
    servers: tuple[int, ...] = ()
    down: bool = False
    failure_rate: float | None = None
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question and the experiment that answers it.

    Attributes:
        name: As on the command line.
        question: What the reader learns from it, one sentence that ends with a question mark.
        load: What the application wants.
        seconds: The duration of a run.
        servers: One standalone server, or the members of a replica set whose first member is the primary.
        read_preference: For a replica set, the mode with which requests choose among its members.
        changes: What happens in the meantime. The overload is from the first start to the last end.
        arms: Names of the arms of `arms.ARMS`, in the order of the tables.
        quick_seconds: The duration with `--quick`; changes shrink in proportion.
        family: What the scenarios of a sweep have in common: the report draws them in one heat map or as curves.
        point: Where in the sweep this scenario is: the values of one or two quantities, by name.
    """

    name: str
    question: str
    load: Load
    seconds: float
    servers: tuple[Server, ...] = (Server(),)
    read_preference: str = "primary"
    changes: tuple[Change, ...] = ()
    arms: tuple[str, ...] = ()
    quick_seconds: float = 6.0
    tags: frozenset[str] = field(default_factory=frozenset)
    family: str = ""
    point: tuple[tuple[str, float], ...] = ()

    @property
    def overload(self) -> tuple[float, float]:
        if not self.changes:
            return (0.0, self.seconds)
        return (min(change.start for change in self.changes), max(change.end for change in self.changes))


def shortened(scenario: Scenario, seconds: float) -> Scenario:
    """The same scenario in `seconds`; its changes come earlier and are shorter in proportion."""
    part = seconds / scenario.seconds
    changes = tuple(replace(change, start=change.start * part, end=change.end * part) for change in scenario.changes)
    return replace(scenario, seconds=seconds, changes=changes)


def reshaped(
    scenario: Scenario, *, capacity: float | None = None, clients: int | None = None, rate: float | None = None
) -> Scenario:
    """The scenario for another deployment.

    Args:
        scenario: The scenario.
        capacity: Requests per second of each server. The load grows or shrinks with it, unless `rate` is set.
        clients: The number of clients.
        rate: Requests per second outside of the overload.

    Raises:
        ValueError: A number is not positive.
    """
    for name, number in (("capacity", capacity), ("clients", clients), ("rate", rate)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, not {number}")
    load, servers = scenario.load, scenario.servers
    if capacity is not None:
        part = capacity / servers[0].capacity
        servers = tuple(
            replace(server, work=server.work * part, admission_rate=server.admission_rate * part) for server in servers
        )
        load = replace(load, rate=load.rate * part)
    load = replace(load, rate=load.rate if rate is None else rate, clients=clients or load.clients)
    return replace(scenario, load=load, servers=servers)
