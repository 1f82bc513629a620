"""Pure: the effects that the state of a pool requests from its shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection
    from motorlite._pool.requests import Establishment


class Establish(NamedTuple):
    """Effect: start establishing a connection."""

    establishment: Establishment


class Abandon(NamedTuple):
    """Effect: stop establishing a connection; it has left the pool."""

    establishment: Establishment
    reason: str


class Close(NamedTuple):
    """Effect: close a connection that has left the pool."""

    connection: Connection
    reason: str


class Drain(NamedTuple):
    """Effect: receive the owed reply, and report the outcome with `drained` or `drain_failed`.

    If the reply has not arrived by the loop time `overdue_at`, call `overdue` then.
    """

    connection: Connection
    overdue_at: float


class Interrupt(NamedTuple):
    """Effect: make the operation on this connection fail."""

    connection: Connection


Effect: TypeAlias = Establish | Abandon | Close | Drain | Interrupt
