"""One event of every kind, with every field set, and some with as few as can be; and what is logged about them."""

from __future__ import annotations

from math import inf
from typing import Any, TypeAlias

from bson.objectid import ObjectId

from motorlite import monitoring as events
from motorlite._topology.server_description import ServerDescription
from motorlite.errors import NetworkTimeout, OperationFailure, ServerSelectionTimeoutError, WaitQueueFullError
from motorlite.read_preferences import ReadPreference

ADDRESS = ("db.example", 27018)
TOPOLOGY = ObjectId("00000000000000000000000a")
SERVICE = ObjectId("00000000000000000000000b")
# Text shows where a description goes.
BEFORE: Any = "before"
AFTER: Any = "after"
UNKNOWN: Any = ServerDescription.unknown(ADDRESS)

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


def degraded(preference: Any) -> events.DegradedEvent:
    error = WaitQueueFullError("full")
    error.address = ADDRESS
    return events.DegradedEvent("find", 8, preference, error)


_TAIL = (
    "using a connection with driver-generated ID 10 and server-generated ID 9 to db.example:27018 "
    "with service ID 00000000000000000000000b. The requestID is 7 and the operation ID is 8."
)
_IN_TOPOLOGY = "in topology with ID 00000000000000000000000a"
_HEARTBEAT = "for db.example:27018 on connection with driver-generated ID 0"


# Each with its sentence in the log, or None if it is not logged.
Sample: TypeAlias = tuple[Any, str | None]

WITH_EVERYTHING: tuple[Sample, ...] = (
    (
        events.CommandStartedEvent({"insert": "goods", "documents": [{"_id": 1}]}, **_COMMAND),
        (
            f'Command "insert" started on database "shop" {_TAIL} '
            'Command: {"insert": "goods", "documents": [{"_id": 1}]}'
        ),
    ),
    (
        events.CommandSucceededEvent(0.0015, {"ok": 1.0}, **_COMMAND),
        f'Command "insert" succeeded on database "shop" in 1.5 ms {_TAIL} Command reply: {{"ok": 1.0}}',
    ),
    (
        events.CommandFailedEvent(0.0015, {"ok": 0.0, "code": 1}, NetworkTimeout("late"), **_COMMAND),
        f'Command "insert" failed on database "shop" in 1.5 ms {_TAIL} Error: {{"ok": 0.0, "code": 1}}',
    ),
    (
        events.CircuitBreakerOpenedEvent(ADDRESS, 20, 11, 5.0),
        "Circuit breaker of db.example:27018 opened: 11 of 20 attempts failed. Probes pass after 5000.0 ms",
    ),
    (events.CircuitBreakerHalfOpenedEvent(ADDRESS), "Circuit breaker of db.example:27018 lets probes pass"),
    (
        events.CircuitBreakerClosedEvent(ADDRESS, 2),
        "Circuit breaker of db.example:27018 closed after 2 successful probes",
    ),
    (events.OperationStartedEvent("insert", "shop", "goods", 8), 'Operation "insert" with ID 8 on shop.goods started'),
    (
        events.OperationSucceededEvent(0.0015, "insert", "shop", "goods", 8),
        'Operation "insert" with ID 8 on shop.goods succeeded in 1.5 ms',
    ),
    (
        events.OperationFailedEvent(0.0015, NetworkTimeout("late"), "insert", "shop", "goods", 8),
        'Operation "insert" with ID 8 on shop.goods failed in 1.5 ms. Error: NetworkTimeout: late',
    ),
    (
        retry(),
        (
            'Attempt 1 of "find" with operation ID 8 on db.example:27018 failed (overload): retrying in 120.0 ms. '
            "Tokens left: 999.0. Error: OperationFailure: code 462, RetryableError"
        ),
    ),
    (
        degraded(ReadPreference.SECONDARY),
        (
            '"find" with operation ID 8 on db.example:27018 was refused: a fallback answered (read preference '
            "secondary). Error: WaitQueueFullError: full (server db.example:27018)"
        ),
    ),
    (
        events.ServerSelectionStartedEvent(*_SELECTION),
        "Server selection started for operation insert with ID 8. Selector: a write, topology description: 'before'",
    ),
    (
        events.ServerSelectionWaitingEvent(*_SELECTION, 2.5),
        (
            "Waiting for server to become available for operation insert with ID 8. Remaining time: 2500 ms. "
            "Selector: a write, topology description: 'before'"
        ),
    ),
    (
        events.ServerSelectionSucceededEvent(*_SELECTION, ADDRESS),
        (
            "Server selection succeeded for operation insert with ID 8. Selected server: db.example:27018. "
            "Selector: a write, topology description: 'before'"
        ),
    ),
    (
        events.ServerSelectionFailedEvent(*_SELECTION, ServerSelectionTimeoutError("No server: none. a:1 is bad")),
        (
            "Server selection failed for operation insert with ID 8. "
            "Failure: ServerSelectionTimeoutError: No server: none. Selector: a write, topology description: 'before'"
        ),
    ),
    (
        events.PoolCreatedEvent(ADDRESS, {"maxPoolSize": 5, "minPoolSize": 1, "maxIdleTimeMS": 10000}),
        "Connection pool created for db.example:27018 using options maxIdleTimeMS=10000, minPoolSize=1, maxPoolSize=5",
    ),
    (events.PoolReadyEvent(ADDRESS), "Connection pool ready for db.example:27018"),
    (
        events.PoolClearedEvent(ADDRESS, SERVICE),
        "Connection pool for db.example:27018 cleared for serviceId 00000000000000000000000b",
    ),
    (events.PoolClosedEvent(ADDRESS), "Connection pool closed for db.example:27018"),
    (events.ConnectionCreatedEvent(ADDRESS, 3), "Connection created: address=db.example:27018, driver-generated ID=3"),
    (
        events.ConnectionReadyEvent(ADDRESS, 3, 0.25),
        "Connection ready: address=db.example:27018, driver-generated ID=3, established in=250.0 ms",
    ),
    (
        events.ConnectionClosedEvent(ADDRESS, 3, "error", NetworkTimeout("late")),
        (
            "Connection closed: address=db.example:27018, driver-generated ID=3. Reason: An error occurred while "
            "using the connection. Error: NetworkTimeout: late"
        ),
    ),
    (events.ConnectionCheckOutStartedEvent(ADDRESS), "Checkout started for connection to db.example:27018"),
    (
        events.ConnectionCheckOutFailedEvent(ADDRESS, "connectionError", 0.5, NetworkTimeout("late")),
        (
            "Checkout failed for connection to db.example:27018. Reason: An error occurred while trying to "
            "establish a new connection. Error: NetworkTimeout: late. Duration: 500.0 ms"
        ),
    ),
    (
        events.ConnectionCheckedOutEvent(ADDRESS, 3, 0.0),
        "Connection checked out: address=db.example:27018, driver-generated ID=3, duration=0.0 ms",
    ),
    (
        events.ConnectionCheckedInEvent(ADDRESS, 3),
        "Connection checked in: address=db.example:27018, driver-generated ID=3",
    ),
    (
        events.PendingReplyStartedEvent(ADDRESS, 3, 17),
        "Request 17 was abandoned, its reply is pending: address=db.example:27018, driver-generated ID=3",
    ),
    (
        events.PendingReplySucceededEvent(ADDRESS, 3, 17, 0.25),
        "Reply to abandoned request 17 arrived: address=db.example:27018, driver-generated ID=3, duration=250.0 ms",
    ),
    (
        events.PendingReplyFailedEvent(ADDRESS, 3, 17, 0.25, NetworkTimeout("late")),
        (
            "Gave up on the reply to abandoned request 17: address=db.example:27018, driver-generated ID=3, "
            "duration=250.0 ms. Error: NetworkTimeout: late"
        ),
    ),
    (events.TopologyOpenedEvent(TOPOLOGY), "Starting monitoring for topology with ID 00000000000000000000000a"),
    (
        events.TopologyDescriptionChangedEvent(TOPOLOGY, BEFORE, AFTER),
        (
            "Description changed for topology with ID 00000000000000000000000a. Previous description: 'before'. New "
            "description: 'after'"
        ),
    ),
    (events.TopologyClosedEvent(TOPOLOGY), "Stopped monitoring for topology with ID 00000000000000000000000a"),
    (events.ServerOpeningEvent(TOPOLOGY, ADDRESS), f"Starting monitoring for server db.example:27018 {_IN_TOPOLOGY}"),
    (events.ServerDescriptionChangedEvent(TOPOLOGY, ADDRESS, UNKNOWN, UNKNOWN), None),
    (events.ServerClosedEvent(TOPOLOGY, ADDRESS), f"Stopped monitoring for server db.example:27018 {_IN_TOPOLOGY}"),
    (
        events.ServerHeartbeatStartedEvent(ADDRESS, False),
        f"Heartbeat started {_HEARTBEAT} {_IN_TOPOLOGY}. Awaited: False",
    ),
    (
        events.ServerHeartbeatSucceededEvent(ADDRESS, True, 0.01, {"ok": 1, "connectionId": 4}),
        (
            f"Heartbeat succeeded in 10.0 ms {_HEARTBEAT} and server-generated ID 4 {_IN_TOPOLOGY}. Awaited: True. "
            'Reply: {"ok": 1, "connectionId": 4}'
        ),
    ),
    (
        events.ServerHeartbeatFailedEvent(ADDRESS, True, 0.01, NetworkTimeout("late")),
        f"Heartbeat failed in 10.0 ms {_HEARTBEAT} {_IN_TOPOLOGY}. Awaited: True. Failure: NetworkTimeout: late",
    ),
)

WITH_LITTLE: tuple[Sample, ...] = (
    (
        events.CommandStartedEvent({}, "ping", "admin", 1, 2, _SOCKET),
        (
            'Command "ping" started on database "admin" to /tmp/mongodb.sock. The requestID is 1 and the operation '
            "ID is 2. Command: {}"
        ),
    ),
    (events.OperationStartedEvent("runCommand", "admin", None, 2), 'Operation "runCommand" with ID 2 on admin started'),
    (
        events.DegradedEvent("find", 8, None, WaitQueueFullError("full")),
        '"find" with operation ID 8 was refused: a fallback answered. Error: WaitQueueFullError: full',
    ),
    (events.PoolCreatedEvent(_SOCKET, {}), "Connection pool created for /tmp/mongodb.sock"),
    (events.PoolClearedEvent(_SOCKET), "Connection pool for /tmp/mongodb.sock cleared"),
    (
        events.ConnectionClosedEvent(_SOCKET, 1, "idle"),
        (
            "Connection closed: address=/tmp/mongodb.sock, driver-generated ID=1. Reason: Connection has been "
            "available but unused for longer than the configured max idle time"
        ),
    ),
    (
        events.ConnectionCheckOutFailedEvent(_SOCKET, "timeout", 0.5),
        (
            "Checkout failed for connection to /tmp/mongodb.sock. Reason: Wait queue timeout elapsed "
            "without a connection becoming available. Duration: 500.0 ms"
        ),
    ),
    (
        events.PendingReplyFailedEvent(_SOCKET, 1, 17, 0.25, None),
        (
            "Gave up on the reply to abandoned request 17: address=/tmp/mongodb.sock, driver-generated ID=1, "
            "duration=250.0 ms"
        ),
    ),
    (
        events.ServerHeartbeatSucceededEvent(_SOCKET, False, 0.01, {"ok": 1}),
        (
            "Heartbeat succeeded in 10.0 ms for /tmp/mongodb.sock on connection with driver-generated ID 0 "
            f'{_IN_TOPOLOGY}. Awaited: False. Reply: {{"ok": 1}}'
        ),
    ),
    (
        retry(permitted=False, refusal="not retryable", reason="none", delay=0.0, tokens=inf, address=None),
        (
            'Attempt 1 of "find" with operation ID 8 failed (none): not retried (not retryable). '
            "Error: OperationFailure: code 462, RetryableError"
        ),
    ),
)

FULL: tuple[Any, ...] = tuple(event for event, _ in WITH_EVERYTHING)
BARE: tuple[Any, ...] = tuple(event for event, _ in WITH_LITTLE)


def kinds() -> set[type]:
    """Every class of event that can be published: those that have no subclass."""

    def leaves(kind: type) -> set[type]:
        below: list[type] = kind.__subclasses__()
        return {leaf for each in below for leaf in leaves(each)} if below else {kind}

    base = events.TopologyEvent.__base__
    assert base is not None
    return leaves(base)
