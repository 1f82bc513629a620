"""Pure: a request of the simulated application, and the driver's operation on its behalf."""

from __future__ import annotations

import enum
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._base.deadline import NO_DEADLINE, Deadline

if TYPE_CHECKING:
    from benchmarks.storm.twin.client import Client
    from benchmarks.storm.twin.connection import Connection
    from benchmarks.storm.twin.link import Link
    from motorlite._admission.circuit_breaker import Visit
    from motorlite._admission.pool_queue import Request
    from motorlite._retry.decision import Retry


class State(enum.Enum):
    """What a request waits for."""

    NEW = "new"
    SELECTING = "a server"
    WAITING = "a connection"
    IN_FLIGHT = "the reply"
    BACKOFF = "the next attempt"
    DONE = "nothing"


NEW, DONE = State.NEW, State.DONE


class Call:
    """A request. When the application itself tries again, its operation starts anew (`restart`)."""

    __slots__ = (
        "client",
        "connection",
        "deadline",
        "deprioritized",
        "due",
        "entered",
        "is_retry",
        "left",
        "link",
        "request",
        "retry",
        "state",
        "visit",
        "worker",
    )

    def __init__(self, due: float, client: Client, patience: float | None, left: int, worker: int) -> None:
        self.due: float = due
        self.client: Client = client
        self.deadline: Deadline = NO_DEADLINE if patience is None else Deadline(due + patience, timeout=patience)
        # How often the application may still try again.
        self.left: int = left
        # The worker of a closed loop.
        self.worker: int = worker
        self.restart()

    def restart(self) -> None:
        """Forget the operation, for another one."""
        self.state: State = NEW
        self.link: Link | None = None
        self.connection: Connection | None = None
        # Its wait for a connection.
        self.request: Request | None = None
        self.retry: Retry | None = None
        self.is_retry: bool = False
        # The addresses of servers that the next attempt avoids.
        self.deprioritized: tuple[Any, ...] = ()
        self.visit: Visit | None = None
        # When it first had to ask for a connection, for configured wait queues.
        self.entered: float = inf

    def served(self, value: object) -> None:
        """Take the connection that it waited for, or an error."""
        self.client.served(self, value)
