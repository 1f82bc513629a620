"""Events in short form, so that tests can spell out the published events and their order."""

from __future__ import annotations

import re
from typing import Any, Final

from motorlite import monitoring as events

_SHORT: Final = {
    events.ConnectionCheckOutStartedEvent: "check-out started",
    events.ConnectionCheckedOutEvent: "checked out",
    events.ConnectionCheckOutFailedEvent: "check-out failed",
    events.ConnectionCheckedInEvent: "checked in",
    events.PendingReplyStartedEvent: "reply awaited",
    events.PendingReplySucceededEvent: "reply arrived",
    events.PendingReplyFailedEvent: "reply given up",
    events.ConnectionCreatedEvent: "created",
    events.ConnectionReadyEvent: "ready",
    events.ConnectionClosedEvent: "closed",
    events.PoolCreatedEvent: "pool created",
    events.PoolReadyEvent: "pool ready",
    events.PoolClearedEvent: "pool cleared",
    events.PoolClosedEvent: "pool closed",
    events.TopologyOpenedEvent: "topology opened",
    events.TopologyDescriptionChangedEvent: "topology changed",
    events.TopologyClosedEvent: "topology closed",
    events.ServerOpeningEvent: "server opening",
    events.ServerDescriptionChangedEvent: "server changed",
    events.ServerClosedEvent: "server closed",
    events.ServerHeartbeatStartedEvent: "heartbeat started",
    events.ServerHeartbeatSucceededEvent: "heartbeat succeeded",
    events.ServerHeartbeatFailedEvent: "heartbeat failed",
}


def words(event: Any) -> str:
    """For example ``closed 1 stale`` or ``server changed b Unknown to RSPrimary``."""
    parts: list[object] = [_SHORT[type(event)]]
    if isinstance(event, events.ServerHeartbeatEvent):
        parts.append(event.connection_id[0])
        if event.awaited:
            parts.append("awaited")
    elif isinstance(event, events.ServerEvent):
        parts.append(event.server_address[0])
    elif isinstance(event, events.ConnectionEvent):
        parts.append(event.connection_id)
    if isinstance(event, events.ConnectionClosedEvent | events.ConnectionCheckOutFailedEvent):
        parts.append(event.reason)
    if isinstance(event, events.PoolClearedEvent) and event.interrupt_connections:
        parts.append("interrupting")
    if isinstance(event, events.ServerDescriptionChangedEvent):
        old, new = event.previous_description, event.new_description
        parts += [old.server_type_name, "to", new.server_type_name]
    if isinstance(event, events.TopologyDescriptionChangedEvent):
        parts += [event.previous_description.topology_type_name, "to", event.new_description.topology_type_name]
    return " ".join(map(str, parts))


class Log:
    """All published events; pass `publish` to a pool or topology, or register the log with a client."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def publish(self, event: Any) -> None:
        self.events.append(event)

    def words(self, pattern: str = "") -> list[str]:
        """The events since the last call that match `pattern`, in short form; clears the log."""
        found, self.events = self.events, []
        return [text for text in map(words, found) if re.search(pattern, text)]

    def of(self, *kinds: type) -> list[Any]:
        """The events of these kinds since the last call of `words`."""
        return [event for event in self.events if isinstance(event, kinds)]


class PoolLog(Log, events.ConnectionPoolListener):
    """A listener for the events of all pools."""

    pool_created = pool_ready = pool_cleared = pool_closed = Log.publish
    connection_created = connection_ready = connection_closed = Log.publish
    connection_check_out_started = connection_check_out_failed = Log.publish
    connection_checked_out = connection_checked_in = Log.publish
    pending_reply_started = pending_reply_succeeded = pending_reply_failed = Log.publish


class _Servers(events.ServerListener):
    def __init__(self, log: Log) -> None:
        self.opened = self.description_changed = self.closed = log.publish  # type: ignore[method-assign]


class _Topologies(events.TopologyListener):
    def __init__(self, log: Log) -> None:
        self.opened = self.description_changed = self.closed = log.publish  # type: ignore[method-assign]


class _Heartbeats(events.ServerHeartbeatListener):
    def __init__(self, log: Log) -> None:
        self.started = self.succeeded = self.failed = log.publish  # type: ignore[method-assign]


def listeners(log: Log, *, heartbeats: bool = True) -> list[Any]:
    """Listeners that write the events of topology, servers and, if `heartbeats` is true, heartbeats to `log`."""
    found: list[Any] = [_Servers(log), _Topologies(log)]
    return [*found, _Heartbeats(log)] if heartbeats else found
