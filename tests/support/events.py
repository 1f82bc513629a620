"""Records published events, and writes them in short form, so that tests can spell out their order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite import monitoring as events
from motorlite._observe.publishing import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DISCOVERY: Final = (events.TopologyEvent, events.ServerHeartbeatEvent)

# Where it is not the name of the class in words.
_SHORT: Final = {
    events.CommandStartedEvent: "started",
    events.CommandSucceededEvent: "succeeded",
    events.CommandFailedEvent: "failed",
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
    events.TopologyDescriptionChangedEvent: "topology changed",
    events.ServerDescriptionChangedEvent: "server changed",
    events.ServerHeartbeatStartedEvent: "heartbeat started",
    events.ServerHeartbeatSucceededEvent: "heartbeat succeeded",
    events.ServerHeartbeatFailedEvent: "heartbeat failed",
}


def _short(kind: type) -> str:
    return _SHORT.get(kind) or re.sub("(?<!^)([A-Z])", r" \1", kind.__name__.removesuffix("Event")).lower()


def words(event: Any) -> str:
    """For example ``started find``, ``closed 1 stale`` or ``server changed b Unknown to RSPrimary``."""
    parts: list[object] = [_short(type(event))]
    if isinstance(event, events.CommandEvent):
        parts.append(event.command_name)
    elif isinstance(event, events.ServerHeartbeatEvent):
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


def _publish(self: Recorder, event: Any) -> None:
    self.publish(event)  # which subclasses extend


if TYPE_CHECKING:
    _Listener = object
else:
    # Every listener in one: several listener classes share the name of a method; the event's class tells them apart.
    _HANDLERS = [handler for handlers in HANDLERS.values() for handler in handlers.values()]
    _Listener = type(
        "_Listener", tuple({kind: None for kind, _ in _HANDLERS}), {name: _publish for _, name in _HANDLERS}
    )


class Recorder(_Listener):
    """Published events, in order: all of them, or those of some `kinds`.

    Register it with a client, or pass `publish` to a pool or topology.
    """

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds or (object,)
        self.events: list[Any] = []
        # Seconds of the event loop's clock, one for each command event.
        self._times: list[float] = []
        # Called with each failed command, before its retry: the place to change failpoints.
        self.on_failure: Callable[[events.CommandFailedEvent], None] | None = None

    def publish(self, event: Any) -> None:
        if not isinstance(event, self._kinds):
            return
        self.events.append(event)
        if isinstance(event, events.CommandEvent):
            self._times.append(anyio.current_time())
        if isinstance(event, events.CommandFailedEvent) and self.on_failure is not None:
            self.on_failure(event)

    def clear(self) -> None:
        """Forget the events so far."""
        self.events.clear()
        self._times.clear()

    def of(self, *kinds: type) -> list[Any]:
        """The events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]

    def words(self, pattern: str = "") -> list[str]:
        """The events that match `pattern`, in short form; clears the recorder."""
        found = [text for text in map(words, self.events) if re.search(pattern, text)]
        self.clear()
        return found

    # --- commands and retries ---

    @property
    def command_events(self) -> list[events.CommandEvent]:
        return self.of(events.CommandEvent)

    @property
    def started_events(self) -> list[events.CommandStartedEvent]:
        return self.of(events.CommandStartedEvent)

    @property
    def ended_events(self) -> list[events.CommandSucceededEvent | events.CommandFailedEvent]:
        return self.of(events.CommandSucceededEvent, events.CommandFailedEvent)

    @property
    def retries(self) -> list[events.RetryEvent]:
        return self.of(events.RetryEvent)

    @property
    def cleared(self) -> list[events.PoolClearedEvent]:
        return self.of(events.PoolClearedEvent)

    @property
    def history(self) -> list[str]:
        """The command events as ``started find``, ``failed find``..."""
        return [words(event) for event in self.command_events]

    @property
    def names(self) -> list[str]:
        """The names of the started commands."""
        return [event.command_name for event in self.started_events]

    def commands(self, name: str) -> list[Mapping[str, Any]]:
        """The started commands of one name."""
        return [event.command for event in self.started_events if event.command_name == name]

    @property
    def session_ids(self) -> set[Any]:
        """The different server sessions of the commands."""
        return {event.command["lsid"]["id"] for event in self.started_events if "lsid" in event.command}

    @property
    def gaps(self) -> list[float]:
        """Seconds between the end of each command and the start of the next one."""
        timed = list(zip(self.command_events, self._times, strict=True))
        starts = [time for event, time in timed if isinstance(event, events.CommandStartedEvent)]
        ends = [time for event, time in timed if not isinstance(event, events.CommandStartedEvent)]
        return [start - end for end, start in zip(ends, starts[1:], strict=False)]
