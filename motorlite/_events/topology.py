"""Pure: discovery and monitoring events and their listeners (discovery and monitoring specification).

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._events.base import Event, Public
from motorlite.errors import detached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address
    from motorlite.topology_description import ServerDescription, TopologyDescription


class TopologyEvent(Event):
    """The base class of topology events, with the id of the client's topology."""

    __slots__ = ("topology_id",)

    def __init__(self, topology_id: ObjectId) -> None:
        self.topology_id: ObjectId = topology_id


class TopologyOpenedEvent(TopologyEvent):
    """A client started to discover its deployment."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client stopped monitoring its deployment."""

    __slots__ = ()


class TopologyDescriptionChangedEvent(TopologyEvent):
    """The client's description of its deployment changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self,
        topology_id: ObjectId,
        previous_description: TopologyDescription,
        new_description: TopologyDescription,
    ) -> None:
        super().__init__(topology_id)
        self.previous_description: TopologyDescription = previous_description
        self.new_description: TopologyDescription = new_description


class ServerEvent(TopologyEvent):
    """The base class of the topology events of one server."""

    __slots__ = ("server_address",)

    def __init__(self, topology_id: ObjectId, server_address: Address) -> None:
        super().__init__(topology_id)
        self.server_address: Address = server_address


class ServerOpeningEvent(ServerEvent):
    """A server was added to the topology."""

    __slots__ = ()


class ServerClosedEvent(ServerEvent):
    """A server was removed from the topology."""

    __slots__ = ()


class ServerDescriptionChangedEvent(ServerEvent):
    """The client's description of a server changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self,
        topology_id: ObjectId,
        server_address: Address,
        previous_description: ServerDescription,
        new_description: ServerDescription,
    ) -> None:
        super().__init__(topology_id, server_address)
        self.previous_description: ServerDescription = previous_description
        self.new_description: ServerDescription = new_description


class ServerHeartbeatEvent(Event):
    """The base class of heartbeat events. `awaited`: the server may delay its reply (streaming)."""

    __slots__ = ("awaited", "connection_id")

    def __init__(self, connection_id: Address, awaited: bool) -> None:
        self.connection_id: Address = connection_id
        self.awaited: bool = awaited


class ServerHeartbeatStartedEvent(ServerHeartbeatEvent):
    """A monitor is about to check its server."""

    __slots__ = ()


class HeartbeatReply(Public, dict[str, Any]):
    """The server's reply to a check."""

    __slots__ = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The reply itself, under PyMongo's name for it."""
        return self


class ServerHeartbeatSucceededEvent(ServerHeartbeatEvent):
    """A server replied to its monitor after `duration` seconds."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: Mapping[str, Any]) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        self.reply: HeartbeatReply = HeartbeatReply(reply)


class ServerHeartbeatFailedEvent(ServerHeartbeatEvent):
    """A server did not reply to its monitor within `duration` seconds, or replied with an error."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: BaseException) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        # The error, under PyMongo's name for it.
        self.reply: BaseException = detached(reply)


class ServerHeartbeatListener(Public):
    """A listener for heartbeats. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Called when a check started."""

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """Called when a check succeeded."""

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Called when a check failed."""


class ServerListener(Public):
    """A listener for servers that appear, change and disappear."""

    def opened(self, event: ServerOpeningEvent) -> None:
        """Called when a server was added."""

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """Called when a server's description changed."""

    def closed(self, event: ServerClosedEvent) -> None:
        """Called when a server was removed."""


class TopologyListener(Public):
    """A listener for changes of the whole topology."""

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Called when discovery started."""

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Called when the topology's description changed."""

    def closed(self, event: TopologyClosedEvent) -> None:
        """Called when monitoring stopped."""
