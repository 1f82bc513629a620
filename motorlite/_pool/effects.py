"""Pure: what the state of a pool asks its shell to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from motorlite._pool.connection import Connection
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
    """Effect: receive the reply that is owed, and report it with `drained` or `drain_failed`.

    `overdue` is to be called at the loop time `overdue_at`, if the reply has not arrived by then.
    """

    connection: Connection
    overdue_at: float


class Interrupt(NamedTuple):
    """Effect: make the operation that is using this connection fail."""

    connection: Connection


Effect: TypeAlias = Establish | Abandon | Close | Drain | Interrupt
