"""Pure: the result of `client.stats()`, a plain snapshot of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from motorlite._base.values import Address

__all__ = ["BreakerStats", "ClientStats", "Durations", "QueueStats", "RateLimitStats", "ServerStats"]


# Significant digits of numbers in the repr: a millionth of a second is not read by anyone.
_DIGITS: Final = 4


class _Stats:
    """Shows numbers rounded. The attributes have them as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))  # type: ignore[arg-type]  # a dataclass
        return f"{type(self).__name__}({', '.join(f'{name}={_rounded(value)}' for name, value in values)})"


def _rounded(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10**_DIGITS else f"{value:.{_DIGITS}g}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_rounded(item)}' for key, item in value.items())}}}"
    return repr(value)


@dataclass(frozen=True, slots=True, repr=False)
class Durations(_Stats):
    """A histogram of durations since the client was made.

    Attributes:
        count: The number of durations.
        total: Their sum in seconds.
        buckets: For each upper bound in seconds, the number of durations that are not longer.
    """

    count: int
    total: float
    buckets: Mapping[float, int]


_NO_DURATIONS: Final = Durations(0, 0.0, {})


@dataclass(frozen=True, slots=True, repr=False)
class QueueStats(_Stats):
    """The configured wait queue of one server (client option `wait_queue`), or of one rate limit.

    All counts begin with the client.

    Attributes:
        strategy: ``"reject"``, ``"queue"`` or ``"degrade"``.
        depth: Operations that are waiting for a connection, or a token.
        memory: Estimated bytes of these operations; 0 without a memory limit.
        rejected: Refused operations by reason: ``"pool_full"``, ``"queue_full"``, ``"memory_limit"``,
            ``"timeout"``, ``"standing_queue"`` (dropped by the adaptive order) and ``"rate_limit"`` (there was no
            token, or none in time).
        timeouts: Operations that waited until the queue's timeout or their own time limit.
        waits: The waits of operations that got a connection, or a token.
        retry_after: The values of `retry_after` in the errors.
        priorities: Admitted operations by priority; empty unless the queue orders by it.
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


_NO_QUEUE: Final = QueueStats("reject", 0, 0, {}, 0, _NO_DURATIONS, _NO_DURATIONS, {}, False)


@dataclass(frozen=True, slots=True, repr=False)
class BreakerStats(_Stats):
    """The circuit breaker of one server.

    Attributes:
        state: ``"closed"``, ``"open"`` or ``"half-open"``. An open breaker becomes half-open with the next operation
            after its time.
        operations: The attempts that count at present; 0 unless it is closed.
        failures: How many of them failed.
        opened: How often it has opened so far.
        refused: How many attempts it has refused so far.
        retry_after: Seconds until a refused operation may pass; 0.0 while it is closed.
        advised: The values of `retry_after` in the errors.
    """

    state: str
    operations: int
    failures: int
    opened: int
    refused: int
    retry_after: float
    advised: Durations = _NO_DURATIONS


@dataclass(frozen=True, slots=True, repr=False)
class RateLimitStats(_Stats):
    """One rate limit.

    Attributes:
        tokens: How many operations may start at once; negative while later ones pay for getMores.
        waiting: Operations waiting for a token.
        rejected: How many operations it has refused so far.
        queue: The operations that wait, waited, or were refused.
    """

    tokens: float
    waiting: int
    rejected: int
    queue: QueueStats = _NO_QUEUE


@dataclass(frozen=True, slots=True, repr=False)
class ServerStats(_Stats):
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
        attempts: Attempts of operations on this server so far, including those that are running.
        retry_tokens: Tokens left for retries after errors of this server; None unless the option `retry_budget` has
            tokens for each server.
        queue: The configured wait queue; None without the option `wait_queue`.
        breaker: Its circuit breaker; None without the option ``circuit_breaker``.
        concurrency_limit: How many operations may run at once; None without the option ``concurrency_limit``.
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
    attempts: int = 0
    queue: QueueStats | None = None
    breaker: BreakerStats | None = None
    concurrency_limit: int | None = None
    retry_tokens: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class ClientStats(_Stats):
    """The state of a client at one moment.

    Attributes:
        servers: The servers by address.
        tokens: Tokens left in the retry budget; infinity when retries are not budgeted.
        token_capacity: The capacity of the retry budget; infinity when retries are not budgeted.
        retries: The number of permitted retries by reason, including retries cancelled during their backoff.
        refusals: The number of refused retries by cause. Errors that no retry rule covers, such as a duplicate key,
            are not counted.
        sessions: Server sessions available for reuse.
        failures: Operations that raised an error of the driver or the server.
        degraded: Calls that were answered by their fallback.
        rate_limits: The rate limits by namespace; ``"*"`` is that of the whole client.
    """

    servers: Mapping[Address, ServerStats]
    tokens: float
    token_capacity: float
    retries: Mapping[str, int]
    refusals: Mapping[str, int]
    sessions: int
    failures: int = 0
    degraded: int = 0
    rate_limits: Mapping[str, RateLimitStats] = field(default_factory=dict)
