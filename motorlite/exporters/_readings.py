"""Pure: the metrics that a snapshot of a client contains: one row each, and their values in `ClientStats`.

The metrics of queues have the names of the ADR on backpressure and queueing, and its labels: `server` is its host.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from motorlite.stats import Durations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from motorlite._base.values import Address
    from motorlite.stats import BreakerStats, ClientStats, QueueStats, ServerStats

Value: TypeAlias = float | Durations

# Reasons of refusals for which an operation was or could have been queued; the rest is backpressure alone.
_QUEUE_REASONS: Final = frozenset({"queue_full", "memory_limit", "timeout", "standing_queue"})
_NOT_UP: Final = ("Unknown", "PossiblePrimary")
_BREAKER_STATES: Final = ("closed", "half-open", "open")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. Its name has no prefix, unit or suffix; every metric also has the label `client`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    unit: Literal["", "seconds", "bytes"] = ""

    @property
    def prometheus_name(self) -> str:
        """The name in Prometheus, for example ``"motorlite_queue_memory_bytes"``."""
        parts = ("motorlite", self.name, self.unit, "total" if self.kind == "counter" else "")
        return "_".join(part for part in parts if part)

    @property
    def opentelemetry_name(self) -> str:
        """The name in OpenTelemetry, for example ``"motorlite.queue_memory"``."""
        return f"motorlite.{self.name}"


class Reading(NamedTuple):
    """The value of a metric, with the values of its labels in the order of `Metric.labels`."""

    name: str
    labels: tuple[str, ...]
    value: Value


METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric("server_up", "gauge", ("server", "type"), "1 if the server is available, else 0."),
        Metric("round_trip_time", "gauge", ("server",), "Moving average of the round-trip time.", "seconds"),
        Metric("connections", "gauge", ("server", "state"), "Connections: in_use, idle, connecting, pending."),
        Metric("connections_created", "counter", ("server",), "Connections that were created."),
        Metric("pool_cleared", "counter", ("server",), "How often the pool was cleared."),
        Metric("replies_drained", "counter", ("server",), "Late replies that arrived and saved their connection."),
        Metric("replies_given_up", "counter", ("server",), "Late replies that cost their connection."),
        Metric("operations", "gauge", ("server",), "Operations that have or wait for a connection."),
        Metric("attempts", "counter", ("server",), "Attempts of operations."),
        Metric("queue_depth", "gauge", ("server", "level"), "Operations that wait for a connection."),
        Metric("queue_wait_duration", "histogram", ("server",), "Time that operations waited in the queue.", "seconds"),
        Metric("queue_rejected", "counter", ("server", "reason"), "Operations that the queue refused."),
        Metric("queue_timeout", "counter", ("server",), "Operations that waited too long for a connection."),
        Metric("queue_memory", "gauge", ("server",), "Estimated size of the waiting operations.", "bytes"),
        Metric("queue_standing", "gauge", ("server",), "1 while an adaptive queue does not drain, else 0."),
        Metric("queue_admitted", "counter", ("server", "priority"), "Operations that a priority queue admitted."),
        Metric("backpressure", "counter", ("server", "strategy", "reason"), "Operations that were refused."),
        Metric("retry_after", "histogram", ("server",), "When refused operations should be tried again.", "seconds"),
        Metric("breaker_state", "gauge", ("server", "state"), "1 for the state of the circuit breaker, else 0."),
        Metric("breaker_opened", "counter", ("server",), "How often the circuit breaker opened."),
        Metric("concurrency_limit", "gauge", ("server",), "How many operations may run at once."),
        Metric("rate_limit_tokens", "gauge", ("namespace",), "Operations that may start at once."),
        Metric("rate_limit_waiting", "gauge", ("namespace",), "Operations that wait for the rate limit."),
        Metric(
            "rate_limit_wait_duration",
            "histogram",
            ("namespace",),
            "Time that operations waited for a token.",
            "seconds",
        ),
        Metric("rate_limit_rejected", "counter", ("namespace",), "Operations that the rate limit refused."),
        Metric("degraded", "counter", (), "Operations that were answered by their fallback."),
        Metric("retries", "counter", ("reason",), "Retries."),
        Metric("retries_refused", "counter", ("refusal",), "Retries that were refused."),
        Metric("retry_tokens", "gauge", (), "Tokens in the retry budget."),
        Metric("retry_token_capacity", "gauge", (), "The capacity of the retry budget."),
        Metric("retry_server_tokens", "gauge", ("server",), "Tokens for retries after errors of one server."),
        Metric("operation_failures", "counter", (), "Operations that raised an error of the driver or the server."),
        Metric("sessions", "gauge", (), "Server sessions available for reuse."),
    )
}


MEASURED: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "operation_duration",
            "histogram",
            ("operation", "outcome"),
            "Time of operations, retries included; outcomes: ok, error, cancelled.",
            "seconds",
        ),
        Metric("operation_errors", "counter", ("operation", "error"), "Operations by the class of their error."),
        Metric("queue_wait_duration", "histogram", ("server",), METRICS["queue_wait_duration"].meaning, "seconds"),
        Metric("queue_timeout", "counter", ("server",), METRICS["queue_timeout"].meaning),
        Metric("connect_duration", "histogram", ("server",), "Time to establish a connection.", "seconds"),
        Metric("connections_closed", "counter", ("server", "reason"), "Connections that were closed."),
    )
}
"""Metrics that need events. Those of queues are for clients without the option `wait_queue`."""


def readings(stats: ClientStats) -> Iterator[Reading]:
    """Yield what a snapshot contains."""
    depth = 0
    for address, server in stats.servers.items():
        depth += server.waiting
        yield from _server(label_of(address), server)
    yield Reading("queue_depth", ("", "client"), depth)
    yield Reading("degraded", (), stats.degraded)
    yield Reading("operation_failures", (), stats.failures)
    yield Reading("sessions", (), stats.sessions)
    yield from (Reading("retries", (str(reason),), count) for reason, count in stats.retries.items())
    yield from (Reading("retries_refused", (str(refusal),), count) for refusal, count in stats.refusals.items())
    if isfinite(stats.token_capacity):
        yield Reading("retry_tokens", (), stats.tokens)
        yield Reading("retry_token_capacity", (), stats.token_capacity)
    for namespace, limit in stats.rate_limits.items():
        yield Reading("rate_limit_tokens", (namespace,), limit.tokens)
        yield Reading("rate_limit_waiting", (namespace,), limit.waiting)
        yield Reading("rate_limit_rejected", (namespace,), limit.rejected)
        yield Reading("rate_limit_wait_duration", (namespace,), limit.queue.waits)
    if stats.rate_limits:
        # Not by server: the limit applies before a server is selected.
        yield Reading("retry_after", ("",), _sum(limit.queue.retry_after for limit in stats.rate_limits.values()))
        rejected = sum(limit.rejected for limit in stats.rate_limits.values())
        yield Reading("backpressure", ("", "reject", "rate_limit"), rejected)


def label_of(address: Address) -> str:
    """Return the label of a server: ``"host:port"``, or the path of its socket."""
    host, port = address
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _sum(histograms: Iterable[Durations]) -> Durations:
    """Return the durations of all histograms, which have the same bounds unless they are empty."""
    count, total, buckets = 0, 0.0, dict[float, int]()
    for each in histograms:
        count, total = count + each.count, total + each.total
        for bound, number in each.buckets.items():
            buckets[bound] = buckets.get(bound, 0) + number
    return Durations(count, total, buckets)


def _server(name: str, server: ServerStats) -> Iterator[Reading]:
    here = (name,)
    yield Reading("server_up", (name, server.server_type), float(server.server_type not in _NOT_UP))
    if server.round_trip_time is not None:
        yield Reading("round_trip_time", here, server.round_trip_time)
    for state in ("in_use", "idle", "connecting", "pending"):
        yield Reading("connections", (name, state), getattr(server, state))
    yield Reading("connections_created", here, server.connections_created)
    yield Reading("pool_cleared", here, server.generation)
    yield Reading("replies_drained", here, server.replies_drained)
    yield Reading("replies_given_up", here, server.replies_given_up)
    yield Reading("operations", here, server.operations)
    yield Reading("attempts", here, server.attempts)
    yield Reading("queue_depth", (name, "server"), server.waiting)
    advised = []
    if server.queue is not None:
        advised.append(server.queue.retry_after)
        yield from _queue(name, server.queue)
    if server.breaker is not None:
        advised.append(server.breaker.advised)
        yield from _breaker(name, server.breaker)
    if advised:
        yield Reading("retry_after", here, _sum(advised))
    if server.concurrency_limit is not None:
        yield Reading("concurrency_limit", here, server.concurrency_limit)
    if server.retry_tokens is not None:
        yield Reading("retry_server_tokens", here, server.retry_tokens)


def _queue(name: str, queue: QueueStats) -> Iterator[Reading]:
    yield Reading("queue_memory", (name,), queue.memory)
    yield Reading("queue_timeout", (name,), queue.timeouts)
    yield Reading("queue_standing", (name,), float(queue.is_standing))
    yield Reading("queue_wait_duration", (name,), queue.waits)
    for reason, count in queue.rejected.items():
        if reason in _QUEUE_REASONS:
            yield Reading("queue_rejected", (name, reason), count)
    # Whatever the queue's reason, the connections of the server are the limit that was met.
    yield Reading("backpressure", (name, queue.strategy, "concurrency_limit"), sum(queue.rejected.values()))
    for priority, count in queue.priorities.items():
        yield Reading("queue_admitted", (name, str(priority)), count)


def _breaker(name: str, breaker: BreakerStats) -> Iterator[Reading]:
    for state in _BREAKER_STATES:
        yield Reading("breaker_state", (name, state), float(state == breaker.state))
    yield Reading("breaker_opened", (name,), breaker.opened)
    yield Reading("backpressure", (name, "reject", "circuit_breaker"), breaker.refused)
