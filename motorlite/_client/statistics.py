"""Pure: the statistics of a client, from the state of its parts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from motorlite._client.limits import breaker_stats
from motorlite.stats import ClientStats, ServerStats

if TYPE_CHECKING:
    from collections.abc import Collection

    from motorlite._client.limits import Limits
    from motorlite._execution.reports import Reports
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


def budget_stats(budget: RetryBudget | None) -> tuple[float, float]:
    """Return the tokens of a budget and its capacity; infinite without one."""
    return (inf, inf) if budget is None else (budget.tokens, budget.capacity)


def client_stats(
    servers: Collection[Server],
    reports: Reports,
    budget: RetryBudget | None,
    limits: Limits,
    sessions: int,
    now: float,
) -> ClientStats:
    """Return the current statistics of a client. `sessions` is the number of pooled server sessions."""
    tokens, capacity = budget_stats(budget)
    return ClientStats(
        # A tuple, which is made at once: exporters call this in threads of their own.
        servers={server.address: server_stats(server, budget, now) for server in tuple(servers)},
        tokens=tokens,
        token_capacity=capacity,
        retries=dict(reports.retries),
        refusals=dict(reports.refusals),
        sessions=sessions,
        rate_limits=limits.rate_stats(now),
        failures=reports.failures,
        degraded=reports.degraded_count,
    )
