"""Pure: what log messages say about reasons (pooling specification, "Connection Pool Logging")."""

from __future__ import annotations

from typing import Final

from motorlite import monitoring as events
from motorlite.errors import NetworkTimeout
from motorlite.retry import RetryReason

CLOSED_REASONS: Final = {
    events.ConnectionClosedReason.STALE: "Connection became stale because the pool was cleared",
    events.ConnectionClosedReason.IDLE: (
        "Connection has been available but unused for longer than the configured max idle time"
    ),
    events.ConnectionClosedReason.ERROR: "An error occurred while using the connection",
    events.ConnectionClosedReason.POOL_CLOSED: "Connection pool was closed",
}
CHECK_OUT_FAILED_REASONS: Final = {
    events.ConnectionCheckOutFailedReason.TIMEOUT: (
        "Wait queue timeout elapsed without a connection becoming available"
    ),
    events.ConnectionCheckOutFailedReason.CONN_ERROR: ("An error occurred while trying to establish a new connection"),
    events.ConnectionCheckOutFailedReason.POOL_CLOSED: "Connection pool was closed",
}


def is_late_reply(event: events.RetryEvent) -> bool:
    """Whether no reply arrived in time: the same reason as that of a lost connection, but this one may be kept."""
    return event.reason == RetryReason.CONNECTION_LOST_IN_FLIGHT and isinstance(event.error, NetworkTimeout)
