"""Pure: makes log messages from events: structured fields and a sentence.

Field names, messages and sentences come from the public specifications: command logging and monitoring, connection
monitoring and pooling ("Connection Pool Logging"), server discovery and monitoring ("Log Messages"). Messages about
retries are motorlite's own. Fields without a value are omitted, along with their part of the sentence ("Omitting Null
Values from Log Messages").
"""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite._observe.log_documents import DEFAULT_MAX_LENGTH, error_text, extended_json, short_error_text
from motorlite.errors import NetworkTimeout
from motorlite.retry import RetryReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address


# What log messages say about reasons (pooling specification, "Connection Pool Logging").

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


Fields: TypeAlias = dict[str, Any]

# Monitoring connections belong to no pool; the ids of pooled connections start at 1.
_MONITOR_CONNECTION_ID: Final = 0

_POOL_OPTIONS: Final = ("maxIdleTimeMS", "minPoolSize", "maxPoolSize", "maxConnecting", "waitQueueTimeoutMS")

_COMMAND_TAIL: Final = (
    " using a connection with driver-generated ID {driverConnectionId}",
    " and server-generated ID {serverConnectionId}",
    " to {server}",
    " with service ID {serviceId}",
    ". The requestID is {requestId}",
    " and the operation ID is {operationId}",
)
_HEARTBEAT_TAIL: Final = (
    " for {server} on connection with driver-generated ID {driverConnectionId}",
    " and server-generated ID {serverConnectionId}",
    " in topology with ID {topologyId}",
    ". Awaited: {awaited}",
)
_IN_TOPOLOGY: Final = (" in topology with ID {topologyId}",)
_RETRY_HEAD: Final = (
    'Attempt {attempt} of "{commandName}" with operation ID {operationId}',
    " on {server}",
    " failed ({reason})",
)
_LEFT_OUT: Final = (". Similar messages left out: {leftOut}",)
_RETRY_TAIL: Final = (". Tokens left: {tokens}", ". Error: {error}", *_LEFT_OUT)
_OPERATION_HEAD: Final = ('Operation "{operation}" with ID {operationId} on {namespace}',)
_SELECTION_HEAD: Final = (" for operation {operation}", " with ID {operationId}")
_SELECTION_FACTS: Final = (". Selector: {selector}", ", topology description: {topologyDescription}")

# The parts of each message's sentence. A part is omitted if one of its fields has no value.
_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "Command started": (
        'Command "{commandName}" started on database "{databaseName}"',
        *_COMMAND_TAIL,
        ". Command: {command}",
    ),
    "Command succeeded": (
        'Command "{commandName}" succeeded on database "{databaseName}" in {durationMS} ms',
        *_COMMAND_TAIL,
        ". Command reply: {reply}",
    ),
    "Command failed": (
        'Command "{commandName}" failed on database "{databaseName}" in {durationMS} ms',
        *_COMMAND_TAIL,
        ". Error: {failure}",
    ),
    "Operation started": (*_OPERATION_HEAD, " started"),
    "Operation succeeded": (*_OPERATION_HEAD, " succeeded in {durationMS} ms"),
    "Operation failed": (*_OPERATION_HEAD, " failed in {durationMS} ms", ". Error: {error}"),
    "Server unreachable": ("Server {server} is unreachable", ". Error: {error}", *_LEFT_OUT),
    "Server reachable": ("Server {server} is reachable again", *_LEFT_OUT),
    "Credentials refused": ("Server {server} refused the client's credentials", ". Error: {error}", *_LEFT_OUT),
    "Server unusable": ("Server {server} replies, but cannot be used", ". Error: {error}", *_LEFT_OUT),
    "Server usable": ("Server {server} can be used again", *_LEFT_OUT),
    "Server selection started": ("Server selection started", *_SELECTION_HEAD, *_SELECTION_FACTS),
    "Waiting for suitable server to become available": (
        "Waiting for server to become available",
        *_SELECTION_HEAD,
        ". Remaining time: {remainingTimeMS} ms",
        *_SELECTION_FACTS,
        *_LEFT_OUT,
    ),
    "Server selection succeeded": (
        "Server selection succeeded",
        *_SELECTION_HEAD,
        ". Selected server: {server}",
        *_SELECTION_FACTS,
    ),
    "Server selection failed": ("Server selection failed", *_SELECTION_HEAD, ". Failure: {failure}", *_SELECTION_FACTS),
    "Connection pool created": ("Connection pool created for {server}", " using options {options}"),
    "Connection pool ready": ("Connection pool ready for {server}",),
    "Connection pool cleared": ("Connection pool for {server} cleared", " for serviceId {serviceId}"),
    "Connection pool closed": ("Connection pool closed for {server}",),
    "Connection created": ("Connection created: address={server}, driver-generated ID={driverConnectionId}",),
    "Connection ready": (
        "Connection ready: address={server}, driver-generated ID={driverConnectionId}",
        ", established in={durationMS} ms",
    ),
    "Connection closed": (
        "Connection closed: address={server}, driver-generated ID={driverConnectionId}",
        ". Reason: {reason}",
        ". Error: {error}",
    ),
    "Connection checkout started": ("Checkout started for connection to {server}",),
    "Connection checkout failed": (
        "Checkout failed for connection to {server}",
        ". Reason: {reason}",
        ". Error: {error}",
        ". Duration: {durationMS} ms",
    ),
    "Connection checked out": (
        "Connection checked out: address={server}, driver-generated ID={driverConnectionId}",
        ", duration={durationMS} ms",
    ),
    "Connection checked in": ("Connection checked in: address={server}, driver-generated ID={driverConnectionId}",),
    "Pending reply started": (
        "Request {requestId} was abandoned, its reply is pending: address={server}",
        ", driver-generated ID={driverConnectionId}",
    ),
    "Pending reply succeeded": (
        "Reply to abandoned request {requestId} arrived: address={server}",
        ", driver-generated ID={driverConnectionId}",
        ", duration={durationMS} ms",
    ),
    "Pending reply failed": (
        "Gave up on the reply to abandoned request {requestId}: address={server}",
        ", driver-generated ID={driverConnectionId}",
        ", duration={durationMS} ms",
        ". Error: {error}",
    ),
    "Starting topology monitoring": ("Starting monitoring for topology with ID {topologyId}",),
    "Stopped topology monitoring": ("Stopped monitoring for topology with ID {topologyId}",),
    "Topology description changed": (
        "Description changed for topology with ID {topologyId}",
        ". Previous description: {previousDescription}",
        ". New description: {newDescription}",
    ),
    "Starting server monitoring": ("Starting monitoring for server {server}", *_IN_TOPOLOGY),
    "Stopped server monitoring": ("Stopped monitoring for server {server}", *_IN_TOPOLOGY),
    "Server heartbeat started": ("Heartbeat started", *_HEARTBEAT_TAIL),
    "Server heartbeat succeeded": (
        "Heartbeat succeeded in {durationMS} ms",
        *_HEARTBEAT_TAIL,
        ". Reply: {reply}",
    ),
    "Server heartbeat failed": (
        "Heartbeat failed in {durationMS} ms",
        *_HEARTBEAT_TAIL,
        ". Failure: {failure}",
    ),
    "Circuit breaker opened": (
        "Circuit breaker of {server} opened: {failures} of {operations} attempts failed",
        ". Probes pass after {retryAfterMS} ms",
    ),
    "Circuit breaker half-opened": ("Circuit breaker of {server} lets probes pass",),
    "Circuit breaker closed": ("Circuit breaker of {server} closed after {operations} successful probes",),
    "Retry permitted": (*_RETRY_HEAD, ": retrying in {delayMS} ms", *_RETRY_TAIL),
    "Retry refused": (*_RETRY_HEAD, ": not retried ({refusal})", *_RETRY_TAIL),
    "Operation degraded": (
        '"{commandName}" with operation ID {operationId}',
        " on {server}",
        " was refused: a fallback answered",
        " (read preference {readPreference})",
        ". Error: {error}",
    ),
}


class LogMessage:
    """A log message. `str()` returns the sentence, which is formatted only when a handler needs it.

    Attributes:
        fields: The structured form of the message.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def __str__(self) -> str:
        fields = dict(self.fields)
        if "serverHost" in fields:
            fields["server"] = format_address((fields["serverHost"], fields.get("serverPort")))
        if options := [f"{name}={fields[name]}" for name in _POOL_OPTIONS if name in fields]:
            fields["options"] = ", ".join(options)
        if "replyTimedOut" in fields:
            fields["reason"] = "no reply in time"
        parts = []
        for part in _SENTENCES[fields["message"]]:
            with suppress(KeyError):
                parts.append(part.format_map(fields))
        return "".join(parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"


def log_message(
    event: object, max_length: int = DEFAULT_MAX_LENGTH, topology_id: ObjectId | None = None, left_out: int = 0
) -> LogMessage | None:
    """Return the log message for `event`, or None if another message has the same content.

    Args:
        event: An event of `motorlite.monitoring`.
        max_length: The maximum length of documents and errors, in code points.
        topology_id: The topology's id for heartbeats, whose events do not carry it.
        left_out: How many messages of this kind were not logged.
    """
    found = _DESCRIPTIONS.get(type(event))
    if found is None:
        return None
    message, describe = found
    fields = {"message": message, "topologyId": _text(topology_id), **describe(event, max_length)}
    fields["leftOut"] = left_out or None
    return LogMessage({name: value for name, value in fields.items() if value is not None})


def reachability_message(
    message: str, address: Address, error: BaseException | None, left_out: int, max_length: int
) -> LogMessage:
    """Return the log message for a server that cannot be used because of `error`, or can again."""
    shown = None if error is None else short_error_text(error, max_length)
    fields = {"message": message, **_server(address), "error": shown, "leftOut": left_out or None}
    return LogMessage({name: value for name, value in fields.items() if value is not None})


# --- fields; None means "no value" ---


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _server(address: Address | None) -> Fields:
    return {} if address is None else {"serverHost": address[0], "serverPort": address[1]}


def _command(event: events.CommandEvent) -> Fields:
    return {
        "commandName": event.command_name,
        "databaseName": event.database_name,
        "requestId": event.request_id,
        "operationId": event.operation_id,
        "driverConnectionId": event.driver_connection_id,
        "serverConnectionId": event.server_connection_id,
        "serviceId": _text(event.service_id),
        **_server(event.connection_id),
    }


def _command_started(event: events.CommandStartedEvent, limit: int) -> Fields:
    return {**_command(event), "command": extended_json(event.command, limit)}


def _command_succeeded(event: events.CommandSucceededEvent, limit: int) -> Fields:
    duration = _milliseconds(event.duration)
    return {**_command(event), "durationMS": duration, "reply": extended_json(event.reply, limit)}


def _command_failed(event: events.CommandFailedEvent, limit: int) -> Fields:
    duration = _milliseconds(event.duration)
    return {**_command(event), "durationMS": duration, "failure": extended_json(event.failure, limit)}


def _breaker(event: events.CircuitBreakerEvent, limit: int) -> Fields:
    return _server(event.address)


def _breaker_opened(event: events.CircuitBreakerOpenedEvent, limit: int) -> Fields:
    return {
        **_server(event.address),
        "operations": event.operations,
        "failures": event.failures,
        "retryAfterMS": _milliseconds(event.retry_after),
    }


def _breaker_closed(event: events.CircuitBreakerClosedEvent, limit: int) -> Fields:
    return {**_server(event.address), "operations": event.operations}


def _operation(event: events.OperationEvent, limit: int) -> Fields:
    names = (event.database_name, event.collection_name)
    return {
        "operation": event.operation_name,
        "operationId": event.operation_id,
        "namespace": ".".join(name for name in names if name is not None),
    }


def _operation_succeeded(event: events.OperationSucceededEvent, limit: int) -> Fields:
    return {**_operation(event, limit), "durationMS": _milliseconds(event.duration)}


def _operation_failed(event: events.OperationFailedEvent, limit: int) -> Fields:
    error = short_error_text(event.failure, limit)
    return {**_operation(event, limit), "durationMS": _milliseconds(event.duration), "error": error}


def _retry(event: events.RetryEvent, limit: int) -> Fields:
    return {
        "message": "Retry permitted" if event.permitted else "Retry refused",
        "commandName": event.command_name,
        "operationId": event.operation_id,
        "attempt": event.attempt,
        "reason": event.reason,
        "replyTimedOut": is_late_reply(event) or None,
        "rule": event.rule,
        "refusal": event.refusal,
        "delayMS": _milliseconds(event.delay) if event.permitted else None,
        "deprioritized": event.deprioritized,
        # Without a bucket the number of tokens is infinite.
        "tokens": round(event.tokens, 1) if isfinite(event.tokens) else None,
        "error": short_error_text(event.error, limit),
        **_server(event.address),
    }


def _degraded(event: events.DegradedEvent, limit: int) -> Fields:
    preference = event.read_preference
    return {
        "commandName": event.command_name,
        "operationId": event.operation_id,
        "readPreference": None if preference is None else preference.mongos_mode,
        "error": short_error_text(event.error, limit),
        **_server(event.error.address),
    }


def _pool(event: events.PoolEvent, limit: int) -> Fields:
    return _server(event.address)


def _pool_created(event: events.PoolCreatedEvent, limit: int) -> Fields:
    return {**_server(event.address), **event.options}


def _pool_cleared(event: events.PoolClearedEvent, limit: int) -> Fields:
    return {**_server(event.address), "serviceId": _text(event.service_id)}


def _connection(event: events.ConnectionEvent, limit: int) -> Fields:
    return {**_server(event.address), "driverConnectionId": event.connection_id}


def _connection_timed(event: events.ConnectionReadyEvent | events.ConnectionCheckedOutEvent, limit: int) -> Fields:
    return {**_connection(event, limit), "durationMS": _milliseconds(event.duration)}


def _connection_closed(event: events.ConnectionClosedEvent, limit: int) -> Fields:
    return {
        **_connection(event, limit),
        "reason": CLOSED_REASONS.get(event.reason, event.reason),
        "error": None if event.error is None else error_text(event.error, limit),
    }


def _pending_reply(event: events.PendingReplyEvent, limit: int) -> Fields:
    return {**_connection(event, limit), "requestId": event.request_id}


def _pending_reply_timed(event: events.PendingReplySucceededEvent, limit: int) -> Fields:
    return {**_pending_reply(event, limit), "durationMS": _milliseconds(event.duration)}


def _pending_reply_failed(event: events.PendingReplyFailedEvent, limit: int) -> Fields:
    return {
        **_pending_reply(event, limit),
        "durationMS": _milliseconds(event.duration),
        "error": None if event.error is None else error_text(event.error, limit),
    }


def _check_out_failed(event: events.ConnectionCheckOutFailedEvent, limit: int) -> Fields:
    return {
        **_server(event.address),
        "reason": CHECK_OUT_FAILED_REASONS.get(event.reason, event.reason),
        "error": None if event.error is None else error_text(event.error, limit),
        "durationMS": _milliseconds(event.duration),
    }


def _selection(event: events.ServerSelectionEvent, limit: int) -> Fields:
    return {
        "operation": event.operation_name,
        "operationId": event.operation_id,
        "selector": event.selector,
        "topologyDescription": repr(event.topology_description),
    }


def _selection_waiting(event: events.ServerSelectionWaitingEvent, limit: int) -> Fields:
    return {**_selection(event, limit), "remainingTimeMS": round(event.remaining_time * 1000)}


def _selection_succeeded(event: events.ServerSelectionSucceededEvent, limit: int) -> Fields:
    return {**_selection(event, limit), **_server(event.server_address)}


def _selection_failed(event: events.ServerSelectionFailedEvent, limit: int) -> Fields:
    # After the first sentence comes the state of each server, which the topology description also contains.
    return {**_selection(event, limit), "failure": error_text(event.failure, limit).partition(". ")[0]}


def _topology(event: events.TopologyEvent, limit: int) -> Fields:
    return {"topologyId": str(event.topology_id)}


def _topology_changed(event: events.TopologyDescriptionChangedEvent, limit: int) -> Fields:
    return {
        **_topology(event, limit),
        "previousDescription": repr(event.previous_description),
        "newDescription": repr(event.new_description),
    }


def _topology_server(event: events.ServerEvent, limit: int) -> Fields:
    return {**_topology(event, limit), **_server(event.server_address)}


def _heartbeat(event: events.ServerHeartbeatEvent, limit: int) -> Fields:
    return {
        **_server(event.connection_id),
        "driverConnectionId": _MONITOR_CONNECTION_ID,
        "awaited": event.awaited,
    }


def _heartbeat_succeeded(event: events.ServerHeartbeatSucceededEvent, limit: int) -> Fields:
    return {
        **_heartbeat(event, limit),
        "serverConnectionId": event.reply.get("connectionId"),
        "durationMS": _milliseconds(event.duration),
        "reply": extended_json(event.reply, limit),
    }


def _heartbeat_failed(event: events.ServerHeartbeatFailedEvent, limit: int) -> Fields:
    duration = _milliseconds(event.duration)
    return {**_heartbeat(event, limit), "durationMS": duration, "failure": error_text(event.reply, limit)}


# ServerDescriptionChangedEvent is missing on purpose: the topology's message has the same content.
_DESCRIPTIONS: Final[Mapping[type, tuple[str, Callable[[Any, int], Fields]]]] = {
    events.CircuitBreakerOpenedEvent: ("Circuit breaker opened", _breaker_opened),
    events.CircuitBreakerHalfOpenedEvent: ("Circuit breaker half-opened", _breaker),
    events.CircuitBreakerClosedEvent: ("Circuit breaker closed", _breaker_closed),
    events.CommandStartedEvent: ("Command started", _command_started),
    events.CommandSucceededEvent: ("Command succeeded", _command_succeeded),
    events.CommandFailedEvent: ("Command failed", _command_failed),
    events.OperationStartedEvent: ("Operation started", _operation),
    events.OperationSucceededEvent: ("Operation succeeded", _operation_succeeded),
    events.OperationFailedEvent: ("Operation failed", _operation_failed),
    events.RetryEvent: ("Retry permitted", _retry),
    events.DegradedEvent: ("Operation degraded", _degraded),
    events.ServerSelectionStartedEvent: ("Server selection started", _selection),
    events.ServerSelectionWaitingEvent: ("Waiting for suitable server to become available", _selection_waiting),
    events.ServerSelectionSucceededEvent: ("Server selection succeeded", _selection_succeeded),
    events.ServerSelectionFailedEvent: ("Server selection failed", _selection_failed),
    events.PoolCreatedEvent: ("Connection pool created", _pool_created),
    events.PoolReadyEvent: ("Connection pool ready", _pool),
    events.PoolClearedEvent: ("Connection pool cleared", _pool_cleared),
    events.PoolClosedEvent: ("Connection pool closed", _pool),
    events.ConnectionCreatedEvent: ("Connection created", _connection),
    events.ConnectionReadyEvent: ("Connection ready", _connection_timed),
    events.ConnectionClosedEvent: ("Connection closed", _connection_closed),
    events.ConnectionCheckOutStartedEvent: ("Connection checkout started", _pool),
    events.ConnectionCheckOutFailedEvent: ("Connection checkout failed", _check_out_failed),
    events.ConnectionCheckedOutEvent: ("Connection checked out", _connection_timed),
    events.ConnectionCheckedInEvent: ("Connection checked in", _connection),
    events.PendingReplyStartedEvent: ("Pending reply started", _pending_reply),
    events.PendingReplySucceededEvent: ("Pending reply succeeded", _pending_reply_timed),
    events.PendingReplyFailedEvent: ("Pending reply failed", _pending_reply_failed),
    events.TopologyOpenedEvent: ("Starting topology monitoring", _topology),
    events.TopologyClosedEvent: ("Stopped topology monitoring", _topology),
    events.TopologyDescriptionChangedEvent: ("Topology description changed", _topology_changed),
    events.ServerOpeningEvent: ("Starting server monitoring", _topology_server),
    events.ServerClosedEvent: ("Stopped server monitoring", _topology_server),
    events.ServerHeartbeatStartedEvent: ("Server heartbeat started", _heartbeat),
    events.ServerHeartbeatSucceededEvent: ("Server heartbeat succeeded", _heartbeat_succeeded),
    events.ServerHeartbeatFailedEvent: ("Server heartbeat failed", _heartbeat_failed),
}
