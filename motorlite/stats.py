"""Pure: the result of `client.stats()`, a plain snapshot of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address

__all__ = ["ClientStats", "Durations", "QueueStats", "ServerStats"]


@dataclass(frozen=True, slots=True)
class Durations:
    """A histogram of durations since the client was made.

    Attributes:
        count: The number of durations.
        total: Their sum in seconds.
        buckets: For each upper bound in seconds, the number of durations that are not longer.
    """

    count: int
    total: float
    buckets: Mapping[float, int]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The configured wait queue of one server (client option `wait_queue`). All counts begin with the client.

    Attributes:
        strategy: ``"reject"``, ``"queue"`` or ``"degrade"``.
        depth: Operations that wait for a connection now.
        memory: Estimated bytes of these operations; 0 without a memory limit.
        rejected: Refused operations by reason: ``"concurrency_limit"``, ``"queue_full"``, ``"memory_limit"``,
            ``"timeout"``, and ``"standing_queue"`` (dropped by the adaptive order).
        timeouts: Operations that waited until the queue's timeout or their own time limit.
        waits: How long the operations waited that then got a connection.
        retry_after: The values of `retry_after` in the errors.
        priorities: Operations that were let in by priority; empty unless the queue orders by it.
        is_standing: Whether an adaptive queue serves the newest operations first, because it does not drain.
    """

    strategy: str
    depth: int
    memory: int
    rejected: Mapping[str, int]
    timeouts: int
    waits: Durations
    retry_after: Durations
    priorities: Mapping[int, int]
    is_standing: bool


@dataclass(frozen=True, slots=True)
class ServerStats:
    """One server and its connection pool.

    Attributes:
        server_type: For example ``"RSPrimary"``.
        round_trip_time: Moving average in seconds, or None while unknown.
        min_round_trip_time: Minimum of the last ten samples in seconds; 0.0 until there are two.
        in_use: Checked-out connections.
        idle: Idle connections.
        connecting: Connections being established.
        pending: Connections with a pending reply, because their last operation was cancelled or timed out.
        waiting: Operations waiting for a connection.
        connections_created: Connections that this pool has created so far.
        replies_drained: Pending replies that arrived and made their connection usable again.
        replies_given_up: Pending replies that did not arrive in time, or whose connection was needed or broke.
        generation: The number of times that the pool was cleared.
        operations: Operations that have a connection to this server or wait for one.
        queue: The configured wait queue; None without the option `wait_queue`.
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
    queue: QueueStats | None = None


@dataclass(frozen=True, slots=True)
class ClientStats:
    """The state of a client at one moment.

    Attributes:
        servers: The servers by address.
        tokens: Tokens left in the retry budget; infinity when retries are not budgeted.
        token_capacity: The capacity of the retry budget; infinity when retries are not budgeted.
        retries: The number of permitted retries by reason, including retries cancelled during their backoff.
        refusals: The number of refused retries by cause. Errors that no retry rule covers, such as a duplicate key,
            are not counted.
        sessions: Server sessions available for reuse.
        degraded: Calls that were answered by their fallback.
    """

    servers: Mapping[Address, ServerStats]
    tokens: float
    token_capacity: float
    retries: Mapping[str, int]
    refusals: Mapping[str, int]
    sessions: int
    degraded: int = 0
