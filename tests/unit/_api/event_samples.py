"""One event of every kind, with every field set, and one with as few as can be."""

from __future__ import annotations

from math import inf
from typing import Any

from bson.objectid import ObjectId

from motorlite import monitoring as events
from motorlite.errors import NetworkTimeout, OperationFailure, ServerSelectionTimeoutError

ADDRESS = ("db.example", 27018)
TOPOLOGY = ObjectId("00000000000000000000000a")
SERVICE = ObjectId("00000000000000000000000b")
# Text shows where a description goes.
BEFORE: Any = "before"
AFTER: Any = "after"

_COMMAND: dict[str, Any] = {
    "command_name": "insert",
    "database_name": "shop",
    "request_id": 7,
    "operation_id": 8,
    "connection_id": ADDRESS,
    "server_connection_id": 9,
    "driver_connection_id": 10,
    "service_id": SERVICE,
}
_SELECTION: tuple[str, int, str, Any] = ("insert", 8, "a write", BEFORE)
_SOCKET = ("/tmp/mongodb.sock", None)


def retry(**changes: Any) -> events.RetryEvent:
    settings: dict[str, Any] = {
        "permitted": True,
        "reason": "overload",
        "refusal": None,
        "delay": 0.12,
        "attempt": 1,
        "tokens": 999.0,
        "address": ADDRESS,
        "error": OperationFailure("secret", 462, {"errmsg": "secret", "errorLabels": ["RetryableError"]}),
        "deprioritized": True,
        **changes,
    }
    return events.RetryEvent("find", 8, **settings)


FULL: tuple[Any, ...] = (
    events.CommandStartedEvent({"insert": "goods", "documents": [{"_id": 1}]}, **_COMMAND),
    events.CommandSucceededEvent(0.0015, {"ok": 1.0}, **_COMMAND),
    events.CommandFailedEvent(0.0015, {"ok": 0.0, "code": 1}, NetworkTimeout("late"), **_COMMAND),
    retry(),
    events.ServerSelectionStartedEvent(*_SELECTION),
    events.ServerSelectionWaitingEvent(*_SELECTION, 2.5),
    events.ServerSelectionSucceededEvent(*_SELECTION, ADDRESS),
    events.ServerSelectionFailedEvent(*_SELECTION, ServerSelectionTimeoutError("No server: none. a:1 is bad")),
    events.PoolCreatedEvent(ADDRESS, {"maxPoolSize": 5, "minPoolSize": 1, "maxIdleTimeMS": 10000}),
    events.PoolReadyEvent(ADDRESS),
    events.PoolClearedEvent(ADDRESS, SERVICE),
    events.PoolClosedEvent(ADDRESS),
    events.ConnectionCreatedEvent(ADDRESS, 3),
    events.ConnectionReadyEvent(ADDRESS, 3, 0.25),
    events.ConnectionClosedEvent(ADDRESS, 3, "error", NetworkTimeout("late")),
    events.ConnectionCheckOutStartedEvent(ADDRESS),
    events.ConnectionCheckOutFailedEvent(ADDRESS, "connectionError", 0.5, NetworkTimeout("late")),
    events.ConnectionCheckedOutEvent(ADDRESS, 3, 0.0),
    events.ConnectionCheckedInEvent(ADDRESS, 3),
    events.PendingReplyStartedEvent(ADDRESS, 3, 17),
    events.PendingReplySucceededEvent(ADDRESS, 3, 17, 0.25),
    events.PendingReplyFailedEvent(ADDRESS, 3, 17, 0.25, NetworkTimeout("late")),
    events.TopologyOpenedEvent(TOPOLOGY),
    events.TopologyDescriptionChangedEvent(TOPOLOGY, BEFORE, AFTER),
    events.TopologyClosedEvent(TOPOLOGY),
    events.ServerOpeningEvent(TOPOLOGY, ADDRESS),
    events.ServerDescriptionChangedEvent(TOPOLOGY, ADDRESS, BEFORE, AFTER),
    events.ServerClosedEvent(TOPOLOGY, ADDRESS),
    events.ServerHeartbeatStartedEvent(ADDRESS, False),
    events.ServerHeartbeatSucceededEvent(ADDRESS, True, 0.01, {"ok": 1, "connectionId": 4}),
    events.ServerHeartbeatFailedEvent(ADDRESS, True, 0.01, NetworkTimeout("late")),
)

BARE: tuple[Any, ...] = (
    events.CommandStartedEvent({}, "ping", "admin", 1, 2, _SOCKET),
    events.PoolCreatedEvent(_SOCKET, {}),
    events.PoolClearedEvent(_SOCKET),
    events.ConnectionClosedEvent(_SOCKET, 1, "idle"),
    events.ConnectionCheckOutFailedEvent(_SOCKET, "timeout", 0.5),
    events.PendingReplyFailedEvent(_SOCKET, 1, 17, 0.25, None),
    events.ServerHeartbeatSucceededEvent(_SOCKET, False, 0.01, {"ok": 1}),
    retry(permitted=False, refusal="not retryable", reason="none", delay=0.0, tokens=inf, address=None),
)


def kinds() -> set[type]:
    """Every class of event that can be published: those that have no subclass."""

    def leaves(kind: type) -> set[type]:
        below: list[type] = kind.__subclasses__()
        return {leaf for each in below for leaf in leaves(each)} if below else {kind}

    base = events.TopologyEvent.__base__
    assert base is not None
    return leaves(base)
