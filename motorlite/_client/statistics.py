"""Pure: the statistics of a client, from the state of its parts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from motorlite.stats import BreakerStats, ClientStats, ServerStats

if TYPE_CHECKING:
    from collections.abc import Collection

    from motorlite._admission.gate import Gate
    from motorlite._client.limits import Limits
    from motorlite._execution.reports import Reports
    from motorlite._topology.topology import Server
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
        replies_drained=server.pool.late_replies.drained,
        replies_given_up=server.pool.late_replies.given_up,
        generation=state.generation,
        operations=server.operation_count,
        breaker=breaker_stats(server.gate, now),
        concurrency_limit=None if state.limit is None else state.limit.own,
        attempts=server.attempts,
        queue=None if state.bounded is None else state.bounded.stats(),
        retry_tokens=None if budget is None else budget.tokens_for(server.address),
    )


def breaker_stats(gate: Gate | None, now: float) -> BreakerStats | None:
    """Return the statistics of a server's breaker, if it has one."""
    breaker = None if gate is None else gate.breaker
    if breaker is None:
        return None
    operations, failures = breaker.counts(now)
    return BreakerStats(
        str(breaker.state),
        operations,
        failures,
        breaker.opened,
        breaker.refused,
        breaker.retry_after(now),
        breaker.advised.snapshot(),
    )


def _budget_stats(budget: RetryBudget | None) -> tuple[float, float]:
    """Return the tokens of a budget and its capacity; infinite without one."""
    return (inf, inf) if budget is None else (budget.tokens, budget.capacity)


def initial_stats(budget: RetryBudget | None) -> ClientStats:
    """Return the statistics of a client before its first operation."""
    return ClientStats({}, *_budget_stats(budget), {}, {}, 0)


def client_stats(
    servers: Collection[Server],
    reports: Reports,
    budget: RetryBudget | None,
    limits: Limits | None,
    sessions: int,
    now: float,
) -> ClientStats:
    """Return the current statistics of a client. `sessions` is the number of pooled server sessions."""
    tokens, capacity = _budget_stats(budget)
    return ClientStats(
        # A tuple, which is made at once: exporters call this in threads of their own.
        servers={server.address: server_stats(server, budget, now) for server in tuple(servers)},
        tokens=tokens,
        token_capacity=capacity,
        retries=dict(reports.retries),
        refusals=dict(reports.refusals),
        sessions=sessions,
        rate_limits={} if limits is None else limits.rate_stats(now),
        failures=reports.failures,
        degraded=reports.degraded_count,
    )
