"""Shell: publishes the driver's events to the client's listeners and loggers.

Every kind of event has one publisher per client: a list of its receivers, which is empty, and so false, without
listener and enabled logger. An unused kind costs the driver one truth test. A logger's level may change at any time:
each operation looks whether any level has changed since the last one (`Publishers.levels`). `log_messages` defines the
messages. A record carries the structured fields as its attribute ``motorlite``, and as ``fields`` of its only argument.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from motorlite import monitoring as events
from motorlite._base.arguments import is_like
from motorlite._observe.log_documents import DEFAULT_MAX_LENGTH
from motorlite._observe.reachability import ENDS_PROGRAM, Limiter, Reachability, safe_log
from motorlite.errors import PyMongoError
from motorlite.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Sized

    from bson.objectid import ObjectId


# The logger of each kind of event, by the fields of `Publishers`.
LOGGERS: Final[Mapping[str, str]] = {
    "breaker": "motorlite.circuitBreaker",
    "command": "motorlite.command",
    "operation": "motorlite.operation",
    "pool": "motorlite.connection",
    "topology": "motorlite.topology",
    "retry": "motorlite.retry",
    "selection": "motorlite.serverSelection",
}

# As the logging HOWTO asks of a library: without it, Python prints warnings in programs that set up no logging. Every
# client imports this module before any part of it logs.
logging.getLogger("motorlite").addHandler(logging.NullHandler())
_client_logger: Final = logging.getLogger("motorlite.client")

# The events of each kind, with the listener class and method called for each.
HANDLERS: Final[Mapping[str, Mapping[type, tuple[type, str]]]] = {
    "command": {
        events.CommandStartedEvent: (events.CommandListener, "started"),
        events.CommandSucceededEvent: (events.CommandListener, "succeeded"),
        events.CommandFailedEvent: (events.CommandListener, "failed"),
    },
    "breaker": {
        events.CircuitBreakerOpenedEvent: (events.CircuitBreakerListener, "breaker_opened"),
        events.CircuitBreakerHalfOpenedEvent: (events.CircuitBreakerListener, "breaker_half_opened"),
        events.CircuitBreakerClosedEvent: (events.CircuitBreakerListener, "breaker_closed"),
    },
    "operation": {
        events.OperationStartedEvent: (events.OperationListener, "operation_started"),
        events.OperationSucceededEvent: (events.OperationListener, "operation_succeeded"),
        events.OperationFailedEvent: (events.OperationListener, "operation_failed"),
    },
    "retry": {
        events.RetryEvent: (events.RetryListener, "retry"),
        events.DegradedEvent: (events.RetryListener, "degraded"),
    },
    "selection": {
        events.ServerSelectionStartedEvent: (events.ServerSelectionListener, "selection_started"),
        events.ServerSelectionWaitingEvent: (events.ServerSelectionListener, "selection_waiting"),
        events.ServerSelectionSucceededEvent: (events.ServerSelectionListener, "selection_succeeded"),
        events.ServerSelectionFailedEvent: (events.ServerSelectionListener, "selection_failed"),
    },
    "pool": {
        events.PoolCreatedEvent: (events.ConnectionPoolListener, "pool_created"),
        events.PoolReadyEvent: (events.ConnectionPoolListener, "pool_ready"),
        events.PoolClearedEvent: (events.ConnectionPoolListener, "pool_cleared"),
        events.PoolClosedEvent: (events.ConnectionPoolListener, "pool_closed"),
        events.ConnectionCreatedEvent: (events.ConnectionPoolListener, "connection_created"),
        events.ConnectionReadyEvent: (events.ConnectionPoolListener, "connection_ready"),
        events.ConnectionClosedEvent: (events.ConnectionPoolListener, "connection_closed"),
        events.ConnectionCheckOutStartedEvent: (events.ConnectionPoolListener, "connection_check_out_started"),
        events.ConnectionCheckOutFailedEvent: (events.ConnectionPoolListener, "connection_check_out_failed"),
        events.ConnectionCheckedOutEvent: (events.ConnectionPoolListener, "connection_checked_out"),
        events.ConnectionCheckedInEvent: (events.ConnectionPoolListener, "connection_checked_in"),
        events.PendingReplyStartedEvent: (events.ConnectionPoolListener, "pending_reply_started"),
        events.PendingReplySucceededEvent: (events.ConnectionPoolListener, "pending_reply_succeeded"),
        events.PendingReplyFailedEvent: (events.ConnectionPoolListener, "pending_reply_failed"),
    },
    "topology": {
        events.TopologyOpenedEvent: (events.TopologyListener, "opened"),
        events.TopologyDescriptionChangedEvent: (events.TopologyListener, "description_changed"),
        events.TopologyClosedEvent: (events.TopologyListener, "closed"),
        events.ServerOpeningEvent: (events.ServerListener, "opened"),
        events.ServerDescriptionChangedEvent: (events.ServerListener, "description_changed"),
        events.ServerClosedEvent: (events.ServerListener, "closed"),
        events.ServerHeartbeatStartedEvent: (events.ServerHeartbeatListener, "started"),
        events.ServerHeartbeatSucceededEvent: (events.ServerHeartbeatListener, "succeeded"),
        events.ServerHeartbeatFailedEvent: (events.ServerHeartbeatListener, "failed"),
    },
}

# The levels of messages; DEBUG for all others. What the caller gets as an exception needs no higher level: the code
# that catches it knows whether to log it.
_MESSAGE_LEVELS: Final[Mapping[type, int]] = {
    events.CircuitBreakerOpenedEvent: logging.WARNING,
    events.CircuitBreakerHalfOpenedEvent: logging.INFO,
    events.CircuitBreakerClosedEvent: logging.INFO,
    events.RetryEvent: logging.INFO,
    events.ServerSelectionWaitingEvent: logging.INFO,
}
# The highest level at which events of a kind are logged; DEBUG for all others.
_HIGHEST: Final[Mapping[str, int]] = {"selection": logging.INFO, "retry": logging.INFO, "breaker": logging.WARNING}
# Many operations publish these at the same time, for the same cause.
_LIMITED: Final = (events.RetryEvent, events.ServerSelectionWaitingEvent)
# Seconds in which one message of a kind is logged above DEBUG; the next one counts those left out.
QUIET_TIME: Final = 10.0


class Publisher(list["Callable[[Any], None]"]):
    """Publishes one kind of event to its receivers. A list, since a truth test of one runs no Python code.

    Attributes:
        is_detailed: Whether it has receivers for more than the few events that are logged above DEBUG. Levels of INFO
            are common, so events of every operation need not be made for them.
    """

    __slots__ = ("is_detailed",)

    is_detailed: bool

    def __call__(self, event: Any) -> None:
        for receive in self:
            receive(event)


@dataclass(slots=True, eq=False, repr=False)
class Publishers:
    """The publishers of one client; false for kinds of events without listeners and loggers.

    Attributes:
        levels: Empty when the level of some logger has changed: call `refresh`, which fills it again.
    """

    breaker: Callable[[events.CircuitBreakerEvent], None] | None = None
    command: Callable[[events.CommandEvent], None] | None = None
    operation: Callable[[events.OperationEvent], None] | None = None
    pool: Callable[[events.PoolEvent], None] | None = None
    topology: Callable[[events.TopologyEvent | events.ServerHeartbeatEvent], None] | None = None
    retry: Callable[[events.RetryEvent | events.DegradedEvent], None] | None = None
    selection: Publisher | None = None
    levels: Sized = ("never stale",)
    _logs: tuple[tuple[Publisher, _Log], ...] = ()
    _limiter: Limiter = field(default_factory=Limiter)

    def bind(self, now: Callable[[], float]) -> None:
        """Set the clock, which limits the rate of messages."""
        self._limiter.now = now

    def refresh(self) -> None:
        """Ask every logger whether it is enabled."""
        # First, since another thread may change a level at any moment.
        _root.isEnabledFor(logging.DEBUG)
        for publisher, log in self._logs:
            if log.is_enabled() is not (log in publisher):
                if log in publisher:
                    publisher.remove(log)
                else:
                    publisher.insert(0, log)
            publisher.is_detailed = log.is_detailed() or any(receive is not log for receive in publisher)


_root: Final = logging.getLogger()
# The standard library remembers what `isEnabledFor` returned, and forgets it at every change of any logger's level. One
# truth test of this dictionary thus costs a fifth of `isEnabledFor`, and covers all loggers. Where it is missing, every
# operation asks the loggers. The root is the only logger that a configuration cannot disable.
_LEVELS: Final[Sized] = getattr(_root, "_cache", ())


def make_publishers(
    listeners: Sequence[object],
    *,
    logging_enabled: Callable[[str], bool] | None = None,
    max_document_length: int = DEFAULT_MAX_LENGTH,
) -> Publishers:
    """Make the publishers of a new client.

    Args:
        listeners: Instances of listener classes, as checked by the option ``event_listeners``; one object may be
            several kinds of listener.
        logging_enabled: Whether the logger of this name is enabled for its highest level; None: check the logger.
        max_document_length: The maximum length of a document in a log record in code points; longer ones are truncated.

    Raises:
        TypeError: a method of a listener is a coroutine function.
    """
    limiter = Limiter(QUIET_TIME)
    made: dict[str, Publisher] = {}
    logs: list[tuple[Publisher, _Log]] = []
    for kind in LOGGERS:
        made[kind] = publisher = Publisher()
        calls = {event: tuple(_methods(listeners, *handler)) for event, handler in HANDLERS[kind].items()}
        if any(calls.values()):
            publisher.append(_Listeners(calls, limiter))
        logs.append((publisher, _Log(kind, max_document_length, limiter, logging_enabled)))
    if logging_enabled is None or logging_enabled(_client_logger.name):
        made["topology"].append(Reachability(_client_logger, max_document_length, limiter))
    levels = _LEVELS if logging_enabled is None else Publishers().levels
    publishers = Publishers(**made, levels=levels, _logs=tuple(logs), _limiter=limiter)
    publishers.refresh()
    return publishers


def _methods(listeners: Sequence[object], kind: type, name: str) -> Iterator[Callable[[Any], None]]:
    for listener in listeners:
        # PyMongo's listeners have no methods for motorlite's own events.
        method = getattr(listener, name, None) if is_like(listener, kind) else None
        if method is not None:
            if iscoroutinefunction(method):
                # It would never be awaited.
                raise TypeError(f"{type(listener).__name__}.{name} must be a plain function: listeners cannot await")
            yield method


def _complain(text: str, event: object, limiter: Limiter) -> None:
    """Log the current exception, raised by code of the application that every event may call."""
    left_out = limiter.admit((text, type(event)))
    level = logging.DEBUG if left_out is None else logging.WARNING
    tail = f". Similar messages left out: {left_out}" if left_out else ""
    safe_log(_client_logger, level, text + tail, type(event).__name__, exc_info=True)


class _Listeners:
    """Calls the listeners of one kind of event."""

    __slots__ = ("_calls", "_limiter")

    def __init__(self, calls: Mapping[type, tuple[Callable[[Any], None], ...]], limiter: Limiter) -> None:
        self._calls = calls
        self._limiter = limiter

    def __call__(self, event: Any) -> None:
        for call in self._calls[type(event)]:
            try:
                call(event)
            except ENDS_PROGRAM:
                raise
            except BaseException:
                _complain("a listener failed on %s; ignored", event, self._limiter)


class _Log:
    """Logs one kind of event."""

    __slots__ = ("_highest", "_limiter", "_override", "_topology_id", "logger", "max_length")

    def __init__(self, kind: str, max_length: int, limiter: Limiter, override: Callable[[str], bool] | None) -> None:
        self.logger: logging.Logger = logging.getLogger(LOGGERS[kind])
        self.max_length: int = max_length
        self._limiter = limiter
        self._highest = _HIGHEST.get(kind, logging.DEBUG)
        self._override = override
        # The id from the last topology event: heartbeats are logged with it, but their events do not carry it.
        self._topology_id: ObjectId | None = None

    def is_enabled(self) -> bool:
        """Whether the logger logs anything."""
        if self._override is not None:
            return self._override(self.logger.name)
        return self.logger.isEnabledFor(self._highest)

    def is_detailed(self) -> bool:
        """Whether the logger logs everything."""
        return self.is_enabled() and (self._override is not None or self.logger.isEnabledFor(logging.DEBUG))

    def __call__(self, event: Any) -> None:
        if isinstance(event, events.TopologyEvent):
            self._topology_id = event.topology_id
        level, left_out = self._level(event)
        if not self.logger.isEnabledFor(level):
            return
        # Most programs log nothing at these levels.
        from motorlite._observe.log_messages import log_message

        try:
            message = log_message(event, self.max_length, self._topology_id, left_out)
            if message is not None:
                self.logger.log(level, "%s", message, extra={"motorlite": message.fields})
        except ENDS_PROGRAM:
            raise
        except BaseException:
            # Documents may hold the application's objects, and logging filters are its code: their errors must not
            # fail an operation.
            _complain("%s could not be logged; ignored", event, self._limiter)

    def _level(self, event: object) -> tuple[int, int]:
        """Return the level, and how many messages of that kind were left out before this one."""
        kind: type[Any] = type(event)
        level = _MESSAGE_LEVELS.get(kind, logging.DEBUG)
        if isinstance(event, events.RetryEvent) and not (event.permitted and event.attempt == 1):
            level = logging.DEBUG
        if level == logging.DEBUG or kind not in _LIMITED or not self.logger.isEnabledFor(level):
            return level, 0
        left_out = self._limiter.admit(kind.__name__)
        return (logging.DEBUG, 0) if left_out is None else (level, left_out)


# Builds the command events of one attempt and redacts sensitive commands.
#
# Command logging and monitoring specification, "Security": authentication commands, user management and a hello that
# authenticates are published with an empty command, reply and error document.

_SENSITIVE: Final = frozenset(
    {
        "authenticate",
        "saslstart",
        "saslcontinue",
        "getnonce",
        "createuser",
        "updateuser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    }
)
# Showing a document must not fail if sending it succeeds.
_LENIENT: Final = CodecOptions[dict[str, Any]](
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)
_HELLO: Final = frozenset({"hello", "ismaster"})
# The fields of an error document that need no redaction.
_HARMLESS: Final = ("code", "codeName", "errorLabels")


class CommandEvents:
    """The events of one attempt. `rest`: the arguments of `CommandEvent` from the id of the request on."""

    __slots__ = ("_args", "_is_sensitive")

    def __init__(self, name: str, document: Mapping[str, Any], *rest: Any) -> None:
        lowered = name.lower()
        self._is_sensitive = lowered in _SENSITIVE or (lowered in _HELLO and "speculativeAuthenticate" in document)
        self._args = (name, document["$db"], *rest)

    def started(
        self, document: Mapping[str, Any], sequences: Sequence[tuple[str, Sequence[bytes]]]
    ) -> CommandStartedEvent:
        """Make the event before the command is written; document sequences are shown as arrays."""
        if self._is_sensitive:
            return CommandStartedEvent({}, *self._args)
        command = dict(document)
        for name, documents in sequences:
            command[name] = [_decoded(item) for item in documents]
        return CommandStartedEvent(command, *self._args)

    def succeeded(self, duration: float, reply: Mapping[str, Any]) -> CommandSucceededEvent:
        """Make the event of a reply with ``ok: 1``; for unacknowledged writes the reply is synthetic."""
        return CommandSucceededEvent(duration, {} if self._is_sensitive else reply, *self._args)

    def failed(self, duration: float, error: BaseException) -> CommandFailedEvent:
        """Make the event of a reply with an error, or of a missing reply."""
        details: Any = getattr(error, "details", None)
        shown: BaseException | None = error
        if not details or not isinstance(error, PyMongoError):
            # The error did not come from a server, so it needs no redaction.
            # PyMongo calls the class `errtype`.
            details = {"errmsg": str(error), "errtype": type(error).__name__, "type": type(error).__name__}
        elif self._is_sensitive:
            details = {key: details[key] for key in _HARMLESS if key in details}
            shown = None
        return CommandFailedEvent(duration, details, shown, *self._args)


def _decoded(document: bytes) -> dict[str, Any]:
    return bson.decode(document, _LENIENT)
