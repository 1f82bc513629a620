"""Pure: a simulated connection, with the attributes that the driver's pool uses, and a place in the pool's queue."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from motorlite._connection.handshake import Purpose

if TYPE_CHECKING:
    from benchmarks.storm.twin.call import Call
    from benchmarks.storm.twin.clock import Clock
    from benchmarks.storm.twin.link import Link
    from motorlite._retry.failure import Failure

_OTHER = Purpose.OTHER


class Connection:
    """A connection of one client to one server. It is its own stream."""

    __slots__ = (
        "asked_for_at",
        "call",
        "failure",
        "generation",
        "id",
        "idle_since",
        "in_use_since",
        "interruption",
        "is_closed",
        "link",
        "owed",
        "owed_until",
        "purpose",
        "sent_at",
        "serial",
        "service_id",
        "urgency",
    )

    # Idle connections of a server that is up are healthy.
    ask_after = inf

    def __init__(self, link: Link, number: int, generation: int) -> None:
        self.link = link
        self.id = number
        self.generation = generation
        self.service_id = None
        self.purpose = _OTHER
        self.idle_since = self.in_use_since = self.asked_for_at = self.sent_at = -inf
        self.urgency: int | None = None
        self.interruption = None
        self.is_closed = False
        # The operation that waits for the reply; None: nobody does.
        self.call: Call | None = None
        # A number if the reply of an abandoned request is still to come, and until when it is waited for.
        self.owed: int | None = None
        self.owed_until = -inf
        # The number of requests so far, and how the newest one fails; None: it succeeds.
        self.serial = 0
        self.failure: Failure | None = None

    @property
    def stream(self) -> Connection:
        """The socket."""
        return self

    def is_healthy(self) -> bool:
        """Whether the socket is open."""
        return not self.is_closed


class Waiter:
    """The wait of one operation for a connection."""

    __slots__ = ("_call", "_clock", "is_waiting")

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call = call
        self._clock = clock
        self.is_waiting = True

    def offer(self, value: object) -> bool:
        """Take a connection or an error, unless the operation has given up."""
        if not self.is_waiting:
            return False
        self.is_waiting = False
        # Not now: the state of the pool is being changed.
        self._clock.soon(self._call.served, value)
        return True
