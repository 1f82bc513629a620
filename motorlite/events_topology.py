"""Pure: events of discovery and monitoring, and their listeners (discovery and monitoring specification).

`motorlite.monitoring` is where applications import them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite.errors import detached
from motorlite.events_base import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite.values import Address


class TopologyEvent(Event):
    """What all topology events have in common: the id of the client's topology."""

    __slots__ = ("topology_id",)

    def __init__(self, topology_id: ObjectId) -> None:
        self.topology_id: ObjectId = topology_id


class TopologyOpenedEvent(TopologyEvent):
    """A client began to discover its deployment."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client stopped monitoring its deployment."""

    __slots__ = ()


class TopologyDescriptionChangedEvent(TopologyEvent):
    """What the client knows of its deployment changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(self, topology_id: ObjectId, previous_description: Any, new_description: Any) -> None:
        super().__init__(topology_id)
        self.previous_description: Any = previous_description
        self.new_description: Any = new_description


class ServerEvent(TopologyEvent):
    """What the events about one server have in common."""

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
    """What the client knows of a server changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self, topology_id: ObjectId, server_address: Address, previous_description: Any, new_description: Any
    ) -> None:
        super().__init__(topology_id, server_address)
        self.previous_description: Any = previous_description
        self.new_description: Any = new_description


class ServerHeartbeatEvent(Event):
    """What the heartbeat events have in common. `awaited`: the server may wait before it answers (streaming)."""

    __slots__ = ("awaited", "connection_id")

    def __init__(self, connection_id: Address, awaited: bool) -> None:
        self.connection_id: Address = connection_id
        self.awaited: bool = awaited


class ServerHeartbeatStartedEvent(ServerHeartbeatEvent):
    """A monitor is about to check its server."""

    __slots__ = ()


class HeartbeatReply(dict[str, Any]):
    """The server's answer to a check."""

    __slots__ = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The answer itself, under PyMongo's name for it."""
        return self


class ServerHeartbeatSucceededEvent(ServerHeartbeatEvent):
    """A server answered its monitor after `duration` seconds."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: Mapping[str, Any]) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        self.reply: HeartbeatReply = HeartbeatReply(reply)


class ServerHeartbeatFailedEvent(ServerHeartbeatEvent):
    """A server did not answer its monitor within `duration` seconds, or answered with an error."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: BaseException) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        # The error, under PyMongo's name for it.
        self.reply: BaseException = detached(reply)


class ServerHeartbeatListener:
    """Subclass it, override what you need, and pass it to the client as ``event_listeners=[...]``."""

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """A check started."""

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """A check succeeded."""

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """A check failed."""


class ServerListener:
    """Is told of servers that appear, change and disappear."""

    def opened(self, event: ServerOpeningEvent) -> None:
        """A server was added."""

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """A server's description changed."""

    def closed(self, event: ServerClosedEvent) -> None:
        """A server was removed."""


class TopologyListener:
    """Is told of changes of the whole topology."""

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Discovery started."""

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """The topology's description changed."""

    def closed(self, event: TopologyClosedEvent) -> None:
        """Monitoring stopped."""
