"""Pure: the statistics of a client, from the state of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._client.limits import breaker_stats
from motorlite.stats import ServerStats

if TYPE_CHECKING:
    from motorlite._topology.server import Server
    from motorlite.retry import RetryBudget


def server_stats(server: Server, budget: RetryBudget | None, now: float) -> ServerStats:
    """Return the current statistics of one server and its pool."""
    state = server.pool.state
    description = server.description
    return ServerStats(
        server_type=description.server_type_name,
        round_trip_time=description.round_trip_time,
        min_round_trip_time=description.min_round_trip_time,
        in_use=len(state.in_use),
        idle=len(state.idle),
        connecting=len(state.connecting),
        pending=len(state.pending),
        waiting=len(state.queue),
        connections_created=state.created,
        replies_drained=server.pool.replies_drained,
        replies_given_up=server.pool.replies_given_up,
        generation=state.generation,
        operations=server.operation_count,
        breaker=breaker_stats(server.gate, now),
        concurrency_limit=None if state.limit is None else state.limit.own,
        attempts=server.attempts,
        queue=None if state.bounded is None else state.bounded.stats(),
        retry_tokens=None if budget is None else budget.tokens_for(server.address),
    )
