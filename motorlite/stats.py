"""Pure: what `client.stats()` answers: a plain snapshot, taken in one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.values import Address


@dataclass(frozen=True, slots=True)
class ServerStats:
    """One server and its connection pool.

    Attributes:
        server_type: For example ``"RSPrimary"``.
        round_trip_time: Moving average in seconds, or None while unknown.
        min_round_trip_time: Smallest of the last ten samples in seconds; 0.0 until there are two.
        in_use: Connections that operations have checked out.
        idle: Connections that wait to be checked out.
        connecting: Connections that are being established.
        pending: Connections whose last operation was cancelled or ran out of time, while the reply is awaited.
        waiting: Operations that wait for a connection.
        connections_created: All connections of this pool so far.
        replies_drained: Late replies that arrived, so that the connection could be used again.
        replies_given_up: Late replies that did not arrive in time, or whose connection was needed or broke.
        generation: How often the pool was cleared.
        operations: Operations that have a connection to this server or wait for one.
    """

    server_type: str
    round_trip_time: float | None
    min_round_trip_time: float
    in_use: int
    idle: int
    connecting: int
    pending: int
    waiting: int
    connections_created: int
    replies_drained: int
    replies_given_up: int
    generation: int
    operations: int


@dataclass(frozen=True, slots=True)
class ClientStats:
    """A client at one moment.

    Attributes:
        servers: By address.
        tokens: What is left in the retry budget; infinity when retries are not budgeted.
        token_capacity: What the budget can hold; infinity when retries are not budgeted.
        retries: How many retries were decided on, by reason; those included that were cancelled during their backoff.
        refusals: How many were refused, by why. Errors that no rule about retries is about, such as a duplicate key,
            count as none.
        sessions: Server sessions that wait to be used again.
    """

    servers: Mapping[Address, ServerStats]
    tokens: float
    token_capacity: float
    retries: Mapping[str, int]
    refusals: Mapping[str, int]
    sessions: int
