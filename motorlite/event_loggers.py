"""Pure: listeners that log events with level INFO, bad news with level WARNING.

    client = AsyncMongoClient(event_listeners=[CommandLogger()])

Their logger is ``motorlite.event_loggers``. The driver's own loggers (docs/events.md) say more, need no listener and
can be set to different levels: these classes are for programs written for PyMongo.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from motorlite._base.values import format_address
from motorlite.monitoring import (
    CommandListener,
    ConnectionPoolListener,
    ServerHeartbeatListener,
    ServerListener,
    TopologyListener,
)

if TYPE_CHECKING:
    from motorlite import monitoring

__all__ = ["CommandLogger", "ConnectionPoolLogger", "HeartbeatLogger", "ServerLogger", "TopologyLogger"]

_logger: Final = logging.getLogger("motorlite.event_loggers")


class CommandLogger(CommandListener):
    """Logs commands and their replies, without the documents."""

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Log the command's name, request and server."""
        _logger.info("%s, request %s to %s: started", *_request(event))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Log the duration."""
        _logger.info("%s, request %s to %s: succeeded in %s µs", *_request(event), event.duration_micros)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Log the duration and the error."""
        _logger.info("%s, request %s to %s: failed in %s µs", *_request(event), event.duration_micros)


def _request(event: monitoring.CommandEvent) -> tuple[str, int, str]:
    return event.command_name, event.request_id, format_address(event.connection_id)


class ServerLogger(ServerListener):
    """Logs servers that appear, change their type or disappear."""

    def opened(self, event: monitoring.ServerOpeningEvent) -> None:
        """Log the server and the topology."""
        _logger.info("server %s: added to topology %s", format_address(event.server_address), event.topology_id)

    def description_changed(self, event: monitoring.ServerDescriptionChangedEvent) -> None:
        """Log the types, if they differ."""
        before, after = event.previous_description.server_type_name, event.new_description.server_type_name
        if before != after:
            _logger.info("server %s: was %s, is %s", format_address(event.server_address), before, after)

    def closed(self, event: monitoring.ServerClosedEvent) -> None:
        """Log the server and the topology."""
        _logger.warning("server %s: removed from topology %s", format_address(event.server_address), event.topology_id)


class HeartbeatLogger(ServerHeartbeatListener):
    """Logs the monitors' checks of their servers."""

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None:
        """Log the server."""
        _logger.info("heartbeat of %s: started", format_address(event.connection_id))

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        """Log the reply."""
        _logger.info("heartbeat of %s: %s", format_address(event.connection_id), event.reply)

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        """Log the error."""
        _logger.warning("heartbeat of %s: failed: %s", format_address(event.connection_id), event.reply)


class TopologyLogger(TopologyListener):
    """Logs changes of the deployment, and when no server can be read from or written to."""

    def opened(self, event: monitoring.TopologyOpenedEvent) -> None:
        """Log the topology."""
        _logger.info("topology %s: opened", event.topology_id)

    def description_changed(self, event: monitoring.TopologyDescriptionChangedEvent) -> None:
        """Log the types, if they differ, and warn when there is no server to use."""
        before, after = event.previous_description.topology_type_name, event.new_description.topology_type_name
        if before == after:
            _logger.info("topology %s: changed", event.topology_id)
        else:
            _logger.info("topology %s: was %s, is %s", event.topology_id, before, after)
        if not event.new_description.has_writable_server():
            _logger.warning("topology %s: no server accepts writes", event.topology_id)
        if not event.new_description.has_readable_server():
            _logger.warning("topology %s: no server accepts reads", event.topology_id)

    def closed(self, event: monitoring.TopologyClosedEvent) -> None:
        """Log the topology."""
        _logger.info("topology %s: closed", event.topology_id)


class ConnectionPoolLogger(ConnectionPoolListener):
    """Logs what becomes of pools and their connections."""

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Log the pool's server."""
        _log_pool(event, "created")

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Log the pool's server."""
        _log_pool(event, "ready")

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Log the pool's server."""
        _log_pool(event, "cleared")

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Log the pool's server."""
        _log_pool(event, "closed")

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        """Log the connection."""
        _log_connection(event, "created")

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Log the connection."""
        _log_connection(event, "ready")

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        """Log the connection and the reason."""
        _log_connection(event, f"closed ({event.reason})")

    def connection_check_out_started(self, event: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Log the pool's server."""
        _log_pool(event, "check-out started")

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Log the pool's server and the reason."""
        _log_pool(event, f"check-out failed ({event.reason})")

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        """Log the connection."""
        _log_connection(event, "checked out")

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        """Log the connection."""
        _log_connection(event, "checked in")


def _log_pool(event: monitoring.PoolEvent, what: str) -> None:
    _logger.info("pool %s: %s", format_address(event.address), what)


def _log_connection(event: monitoring.ConnectionEvent, what: str) -> None:
    _logger.info("pool %s, connection %s: %s", format_address(event.address), event.connection_id, what)
