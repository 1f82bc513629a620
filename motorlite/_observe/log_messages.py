"""Pure: makes log messages from events: structured fields and a sentence.

Field names, messages and sentences come from the public specifications: command logging and monitoring, connection
monitoring and pooling ("Connection Pool Logging"), server discovery and monitoring ("Log Messages"). Messages about
retries are motorlite's own. Fields without a value are omitted, along with their part of the sentence ("Omitting Null
Values from Log Messages").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite._observe.log_documents import DEFAULT_MAX_LENGTH, error_text, extended_json, short_error_text
from motorlite.errors import NetworkTimeout
from motorlite.retry import RetryReason

if TYPE_CHECKING:
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

# Bars separate the parts of sentences. A part is omitted if one of its fields has no value.
_COMMAND: Final = (
    "| using a connection with driver-generated ID {driverConnectionId}| and server-generated ID {serverConnectionId}"
    "| to {server}| with service ID {serviceId}|. The requestID is {requestId}| and the operation ID is {operationId}|"
)
_HEARTBEAT: Final = (
    "| for {server} on connection with driver-generated ID {driverConnectionId}"
    "| and server-generated ID {serverConnectionId}| in topology with ID {topologyId}|. Awaited: {awaited}|"
)
_RETRY: Final = 'Attempt {attempt} of "{commandName}" with operation ID {operationId}| on {server}| failed ({reason})|'
_LEFT_OUT: Final = "|. Similar messages left out: {leftOut}"
_RETRY_END: Final = "|. Tokens left: {tokens}|. Error: {error}" + _LEFT_OUT
_OPERATION: Final = 'Operation "{operation}" with ID {operationId} on {namespace}'
_SELECTION: Final = "| for operation {operation}| with ID {operationId}|"
_SELECTION_FACTS: Final = "|. Selector: {selector}|, topology description: {topologyDescription}"
_CONNECTION: Final = "address={server}, driver-generated ID={driverConnectionId}"

# The message of each event, then its sentence. ServerDescriptionChangedEvent is missing on purpose: the topology's
# message has the same content.
_MESSAGES: Final[Mapping[type, str]] = {
    events.CircuitBreakerOpenedEvent: (
        "Circuit breaker opened|Circuit breaker of {server} opened: {failures} of {operations} attempts failed"
        "|. Probes pass after {retryAfterMS} ms"
    ),
    events.CircuitBreakerHalfOpenedEvent: "Circuit breaker half-opened|Circuit breaker of {server} lets probes pass",
    events.CircuitBreakerClosedEvent: (
        "Circuit breaker closed|Circuit breaker of {server} closed after {operations} successful probes"
    ),
    events.CommandStartedEvent: (
        'Command started|Command "{commandName}" started on database "{databaseName}"'
        + _COMMAND
        + ". Command: {command}"
    ),
    events.CommandSucceededEvent: (
        'Command succeeded|Command "{commandName}" succeeded on database "{databaseName}" in {durationMS} ms'
        + _COMMAND
        + ". Command reply: {reply}"
    ),
    events.CommandFailedEvent: (
        'Command failed|Command "{commandName}" failed on database "{databaseName}" in {durationMS} ms'
        + _COMMAND
        + ". Error: {failure}"
    ),
    events.OperationStartedEvent: "Operation started|" + _OPERATION + " started",
    events.OperationSucceededEvent: "Operation succeeded|" + _OPERATION + " succeeded in {durationMS} ms",
    events.OperationFailedEvent: "Operation failed|" + _OPERATION + " failed in {durationMS} ms|. Error: {error}",
    events.RetryEvent: "Retry permitted|" + _RETRY + ": retrying in {delayMS} ms" + _RETRY_END,
    events.DegradedEvent: (
        'Operation degraded|"{commandName}" with operation ID {operationId}| on {server}| was refused: a fallback '
        "answered| (read preference {readPreference})|. Error: {error}"
    ),
    events.ServerSelectionStartedEvent: (
        "Server selection started|Server selection started" + _SELECTION + _SELECTION_FACTS
    ),
    events.ServerSelectionWaitingEvent: (
        "Waiting for suitable server to become available|Waiting for server to become available"
        + _SELECTION
        + ". Remaining time: {remainingTimeMS} ms"
        + _SELECTION_FACTS
        + _LEFT_OUT
    ),
    events.ServerSelectionSucceededEvent: (
        "Server selection succeeded|Server selection succeeded"
        + _SELECTION
        + ". Selected server: {server}"
        + _SELECTION_FACTS
    ),
    events.ServerSelectionFailedEvent: (
        "Server selection failed|Server selection failed" + _SELECTION + ". Failure: {failure}" + _SELECTION_FACTS
    ),
    events.PoolCreatedEvent: "Connection pool created|Connection pool created for {server}| using options {options}",
    events.PoolReadyEvent: "Connection pool ready|Connection pool ready for {server}",
    events.PoolClearedEvent: "Connection pool cleared|Connection pool for {server} cleared| for serviceId {serviceId}",
    events.PoolClosedEvent: "Connection pool closed|Connection pool closed for {server}",
    events.ConnectionCreatedEvent: "Connection created|Connection created: " + _CONNECTION,
    events.ConnectionReadyEvent: (
        "Connection ready|Connection ready: " + _CONNECTION + "|, established in={durationMS} ms"
    ),
    events.ConnectionClosedEvent: (
        "Connection closed|Connection closed: " + _CONNECTION + "|. Reason: {reason}|. Error: {error}"
    ),
    events.ConnectionCheckOutStartedEvent: "Connection checkout started|Checkout started for connection to {server}",
    events.ConnectionCheckOutFailedEvent: (
        "Connection checkout failed|Checkout failed for connection to {server}"
        "|. Reason: {reason}|. Error: {error}|. Duration: {durationMS} ms"
    ),
    events.ConnectionCheckedOutEvent: (
        "Connection checked out|Connection checked out: " + _CONNECTION + "|, duration={durationMS} ms"
    ),
    events.ConnectionCheckedInEvent: "Connection checked in|Connection checked in: " + _CONNECTION,
    events.PendingReplyStartedEvent: (
        "Pending reply started|Request {requestId} was abandoned, its reply is pending: " + _CONNECTION
    ),
    events.PendingReplySucceededEvent: (
        "Pending reply succeeded|Reply to abandoned request {requestId} arrived: "
        + _CONNECTION
        + "|, duration={durationMS} ms"
    ),
    events.PendingReplyFailedEvent: (
        "Pending reply failed|Gave up on the reply to abandoned request {requestId}: "
        + _CONNECTION
        + "|, duration={durationMS} ms|. Error: {error}"
    ),
    events.TopologyOpenedEvent: "Starting topology monitoring|Starting monitoring for topology with ID {topologyId}",
    events.TopologyClosedEvent: "Stopped topology monitoring|Stopped monitoring for topology with ID {topologyId}",
    events.TopologyDescriptionChangedEvent: (
        "Topology description changed|Description changed for topology with ID {topologyId}"
        "|. Previous description: {previousDescription}|. New description: {newDescription}"
    ),
    events.ServerOpeningEvent: (
        "Starting server monitoring|Starting monitoring for server {server}| in topology with ID {topologyId}"
    ),
    events.ServerClosedEvent: (
        "Stopped server monitoring|Stopped monitoring for server {server}| in topology with ID {topologyId}"
    ),
    events.ServerHeartbeatStartedEvent: "Server heartbeat started|Heartbeat started" + _HEARTBEAT,
    events.ServerHeartbeatSucceededEvent: (
        "Server heartbeat succeeded|Heartbeat succeeded in {durationMS} ms" + _HEARTBEAT + ". Reply: {reply}"
    ),
    events.ServerHeartbeatFailedEvent: (
        "Server heartbeat failed|Heartbeat failed in {durationMS} ms" + _HEARTBEAT + ". Failure: {failure}"
    ),
}
_RETRY_REFUSED: Final = "Retry refused|" + _RETRY + ": not retried ({refusal})" + _RETRY_END
# The sentences of messages that no event has.
_REACHABILITY: Final[Mapping[str, str]] = {
    "Server unreachable": "Server {server} is unreachable|. Error: {error}" + _LEFT_OUT,
    "Server reachable": "Server {server} is reachable again" + _LEFT_OUT,
    "Credentials refused": "Server {server} refused the client's credentials|. Error: {error}" + _LEFT_OUT,
    "Server unusable": "Server {server} replies, but cannot be used|. Error: {error}" + _LEFT_OUT,
    "Server usable": "Server {server} can be used again" + _LEFT_OUT,
}

_POOL_OPTIONS: Final = ("maxIdleTimeMS", "minPoolSize", "maxPoolSize", "maxConnecting", "waitQueueTimeoutMS")


class LogMessage:
    """A log message. `str()` returns the sentence, which is formatted only when a handler needs it.

    Attributes:
        fields: The structured form of the message.
    """

    __slots__ = ("_sentence", "fields")

    def __init__(self, sentence: str, fields: Fields) -> None:
        self._sentence = sentence
        self.fields: Fields = {name: value for name, value in fields.items() if value is not None}

    def __str__(self) -> str:
        fields = dict(self.fields)
        if "serverHost" in fields:
            fields["server"] = format_address((fields["serverHost"], fields.get("serverPort")))
        if options := [f"{name}={fields[name]}" for name in _POOL_OPTIONS if name in fields]:
            fields["options"] = ", ".join(options)
        if "replyTimedOut" in fields:
            fields["reason"] = "no reply in time"
        parts = []
        for part in self._sentence.split("|"):
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
    if type(event) not in _MESSAGES:
        return None
    is_refusal = isinstance(event, events.RetryEvent) and not event.permitted
    message, _, sentence = (_RETRY_REFUSED if is_refusal else _MESSAGES[type(event)]).partition("|")
    fields: Fields = {"message": message, "topologyId": None if topology_id is None else str(topology_id)}
    for kind in reversed(type(event).__mro__):
        for name, read in _FIELDS.get(kind, {}).items():
            value = getattr(event, read) if isinstance(read, str) else read(event, max_length)
            fields.update(value if isinstance(value, Mapping) else {name: value})
    return LogMessage(sentence, {**fields, "leftOut": left_out or None})


def reachability_message(
    message: str, address: Address, error: BaseException | None, left_out: int, max_length: int
) -> LogMessage:
    """Return the log message for a server that cannot be used because of `error`, or can again."""
    shown = None if error is None else short_error_text(error, max_length)
    fields = {"message": message, **_host(address, 0), "error": shown, "leftOut": left_out or None}
    return LogMessage(_REACHABILITY[message], fields)


# --- fields; None means "no value" ---

_Read: TypeAlias = str | Callable[[Any, int], Any]


def _formed(attribute: str, form: Callable[[Any, int], Any]) -> _Read:
    """Return what reads an attribute of an event: `form` of its value and of the maximum length."""
    value_of = attrgetter(attribute)

    def read(event: Any, limit: int) -> Any:
        value = value_of(event)
        return None if value is None else form(value, limit)

    return read


def _text(value: object, limit: int) -> str:
    return str(value)


def _description(value: object, limit: int) -> str:
    return repr(value)


def _milliseconds(seconds: float, limit: int) -> float:
    return round(seconds * 1000, 3)


def _host(address: Address, limit: int) -> Fields:
    return {"serverHost": address[0], "serverPort": address[1]}


def _namespace(event: events.OperationEvent, limit: int) -> str:
    return ".".join(name for name in (event.database_name, event.collection_name) if name is not None)


def _first_sentence(failure: BaseException, limit: int) -> str:
    """Leave out what comes after it: the state of each server, which the topology description also contains."""
    return error_text(failure, limit).partition(". ")[0]


_DURATION: Final[_Read] = _formed("duration", _milliseconds)
_ERROR_TEXT: Final[_Read] = _formed("error", error_text)
_SERVER: Final[Mapping[str, _Read]] = {"server": _formed("address", _host)}

# The fields that each class of events adds to those of its base classes: an attribute, or a function of the event and
# of the maximum length. A mapping stands for several fields.
_FIELDS: Final[Mapping[type, Mapping[str, _Read]]] = {
    events.CircuitBreakerEvent: _SERVER,
    events.CircuitBreakerOpenedEvent: {
        "operations": "operations",
        "failures": "failures",
        "retryAfterMS": _formed("retry_after", _milliseconds),
    },
    events.CircuitBreakerClosedEvent: {"operations": "operations"},
    events.CommandEvent: {
        "commandName": "command_name",
        "databaseName": "database_name",
        "requestId": "request_id",
        "operationId": "operation_id",
        "driverConnectionId": "driver_connection_id",
        "serverConnectionId": "server_connection_id",
        "serviceId": _formed("service_id", _text),
        "server": _formed("connection_id", _host),
    },
    events.CommandStartedEvent: {"command": _formed("command", extended_json)},
    events.CommandSucceededEvent: {"durationMS": _DURATION, "reply": _formed("reply", extended_json)},
    events.CommandFailedEvent: {"durationMS": _DURATION, "failure": _formed("failure", extended_json)},
    events.OperationEvent: {"operation": "operation_name", "operationId": "operation_id", "namespace": _namespace},
    events.OperationSucceededEvent: {"durationMS": _DURATION},
    events.OperationFailedEvent: {"durationMS": _DURATION, "error": _formed("failure", short_error_text)},
    events.RetryEvent: {
        "commandName": "command_name",
        "operationId": "operation_id",
        "attempt": "attempt",
        "reason": "reason",
        "replyTimedOut": lambda event, limit: is_late_reply(event) or None,
        "rule": "rule",
        "refusal": "refusal",
        "delayMS": lambda event, limit: _milliseconds(event.delay, limit) if event.permitted else None,
        "deprioritized": "deprioritized",
        # Without a bucket the number of tokens is infinite.
        "tokens": lambda event, limit: round(event.tokens, 1) if isfinite(event.tokens) else None,
        "error": _formed("error", short_error_text),
        **_SERVER,
    },
    events.DegradedEvent: {
        "commandName": "command_name",
        "operationId": "operation_id",
        "readPreference": _formed("read_preference", lambda preference, limit: preference.mongos_mode),
        "error": _formed("error", short_error_text),
        "server": _formed("error.address", _host),
    },
    events.PoolEvent: _SERVER,
    events.PoolCreatedEvent: {"options": "options"},
    events.PoolClearedEvent: {"serviceId": _formed("service_id", _text)},
    events.ConnectionEvent: {"driverConnectionId": "connection_id"},
    events.ConnectionReadyEvent: {"durationMS": _DURATION},
    events.ConnectionCheckedOutEvent: {"durationMS": _DURATION},
    events.ConnectionClosedEvent: {
        "reason": lambda event, limit: CLOSED_REASONS.get(event.reason, event.reason),
        "error": _ERROR_TEXT,
    },
    events.PendingReplyEvent: {"requestId": "request_id"},
    events.PendingReplySucceededEvent: {"durationMS": _DURATION},
    events.PendingReplyFailedEvent: {"durationMS": _DURATION, "error": _ERROR_TEXT},
    events.ConnectionCheckOutFailedEvent: {
        "reason": lambda event, limit: CHECK_OUT_FAILED_REASONS.get(event.reason, event.reason),
        "error": _ERROR_TEXT,
        "durationMS": _DURATION,
    },
    events.ServerSelectionEvent: {
        "operation": "operation_name",
        "operationId": "operation_id",
        "selector": "selector",
        "topologyDescription": _formed("topology_description", _description),
    },
    events.ServerSelectionWaitingEvent: {"remainingTimeMS": lambda event, limit: round(event.remaining_time * 1000)},
    events.ServerSelectionSucceededEvent: {"server": _formed("server_address", _host)},
    events.ServerSelectionFailedEvent: {"failure": _formed("failure", _first_sentence)},
    events.TopologyEvent: {"topologyId": _formed("topology_id", _text)},
    events.TopologyDescriptionChangedEvent: {
        "previousDescription": _formed("previous_description", _description),
        "newDescription": _formed("new_description", _description),
    },
    events.ServerEvent: {"server": _formed("server_address", _host)},
    events.ServerHeartbeatEvent: {
        "server": _formed("connection_id", _host),
        # Monitoring connections belong to no pool; the ids of pooled connections start at 1.
        "driverConnectionId": lambda event, limit: 0,
        "awaited": "awaited",
    },
    events.ServerHeartbeatSucceededEvent: {
        "serverConnectionId": lambda event, limit: event.reply.get("connectionId"),
        "durationMS": _DURATION,
        "reply": _formed("reply", extended_json),
    },
    events.ServerHeartbeatFailedEvent: {"durationMS": _DURATION, "failure": _formed("reply", error_text)},
}
