"""Shell: publishes the driver's events to the client's listeners and loggers.

Every kind of event has one publisher per client, or None without listeners and loggers, so that an unused kind costs
the driver one truth test. The choice is made when the client is created: enable loggers before that. `log_messages`
defines the messages. A record carries the structured fields as its attribute ``motorlite``, and as ``fields`` of its
only argument.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from motorlite import monitoring as events
from motorlite._base.pymongo_objects import is_like
from motorlite._observe.log_documents import DEFAULT_MAX_LENGTH
from motorlite._observe.log_messages import log_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bson.objectid import ObjectId

COMMAND: Final = "motorlite.command"
CONNECTION: Final = "motorlite.connection"
RETRY: Final = "motorlite.retry"
SELECTION: Final = "motorlite.serverSelection"
TOPOLOGY: Final = "motorlite.topology"

_client_logger: Final = logging.getLogger("motorlite.client")

# The events of each logger, with the listener class and method called for each.
HANDLERS: Final[Mapping[str, Mapping[type, tuple[type, str]]]] = {
    COMMAND: {
        events.CommandStartedEvent: (events.CommandListener, "started"),
        events.CommandSucceededEvent: (events.CommandListener, "succeeded"),
        events.CommandFailedEvent: (events.CommandListener, "failed"),
    },
    RETRY: {
        events.RetryEvent: (events.RetryListener, "retry"),
        events.DegradedEvent: (events.RetryListener, "degraded"),
    },
    SELECTION: {
        events.ServerSelectionStartedEvent: (events.ServerSelectionListener, "selection_started"),
        events.ServerSelectionWaitingEvent: (events.ServerSelectionListener, "selection_waiting"),
        events.ServerSelectionSucceededEvent: (events.ServerSelectionListener, "selection_succeeded"),
        events.ServerSelectionFailedEvent: (events.ServerSelectionListener, "selection_failed"),
    },
    CONNECTION: {
        events.PoolCreatedEvent: (events.ConnectionPoolListener, "pool_created"),
        events.PoolReadyEvent: (events.ConnectionPoolListener, "pool_ready"),
        events.PoolClearedEvent: (events.ConnectionPoolListener, "pool_cleared"),
        events.PoolClosedEvent: (events.ConnectionPoolListener, "pool_closed"),
        events.ConnectionCreatedEvent: (events.ConnectionPoolListener, "connection_created"),
        events.ConnectionReadyEvent: (events.ConnectionPoolListener, "connection_ready"),
        events.ConnectionClosedEvent: (events.ConnectionPoolListener, "connection_closed"),
        events.ConnectionCheckOutStartedEvent: (
            events.ConnectionPoolListener,
            "connection_check_out_started",
        ),
        events.ConnectionCheckOutFailedEvent: (
            events.ConnectionPoolListener,
            "connection_check_out_failed",
        ),
        events.ConnectionCheckedOutEvent: (events.ConnectionPoolListener, "connection_checked_out"),
        events.ConnectionCheckedInEvent: (events.ConnectionPoolListener, "connection_checked_in"),
        events.PendingReplyStartedEvent: (events.ConnectionPoolListener, "pending_reply_started"),
        events.PendingReplySucceededEvent: (events.ConnectionPoolListener, "pending_reply_succeeded"),
        events.PendingReplyFailedEvent: (events.ConnectionPoolListener, "pending_reply_failed"),
    },
    TOPOLOGY: {
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

# The logger of each field of `Publishers`.
LOGGERS: Final[Mapping[str, str]] = {
    "command": COMMAND,
    "pool": CONNECTION,
    "topology": TOPOLOGY,
    "retry": RETRY,
    "selection": SELECTION,
}

# All other messages are logged at DEBUG.
_LEVELS: Final[Mapping[type, int]] = {events.ServerSelectionWaitingEvent: logging.INFO}


@dataclass(frozen=True, slots=True)
class Publishers:
    """The publishers of one client; None for kinds of events without listeners and loggers."""

    command: Callable[[events.CommandEvent], None] | None = None
    pool: Callable[[events.PoolEvent], None] | None = None
    topology: Callable[[events.TopologyEvent | events.ServerHeartbeatEvent], None] | None = None
    retry: Callable[[events.RetryEvent | events.DegradedEvent], None] | None = None
    selection: Callable[[events.ServerSelectionEvent], None] | None = None


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
        logging_enabled: Whether the logger of this name is enabled for DEBUG; None: check the logger.
        max_document_length: The maximum length of a document in a log record in code points; longer ones are truncated.

    Raises:
        TypeError: a method of a listener is a coroutine function.
    """
    is_enabled = logging_enabled if logging_enabled is not None else _is_enabled

    def make(name: str) -> Any:
        calls = {event: tuple(_methods(listeners, *handler)) for event, handler in HANDLERS[name].items()}
        if any(calls.values()) or is_enabled(name):
            return _Publisher(logging.getLogger(name), calls, max_document_length)
        return None

    return Publishers(**{kind: make(logger) for kind, logger in LOGGERS.items()})


def _is_enabled(name: str) -> bool:
    return logging.getLogger(name).isEnabledFor(logging.INFO if name == SELECTION else logging.DEBUG)


def _methods(listeners: Sequence[object], kind: type, name: str) -> Iterator[Callable[[Any], None]]:
    for listener in listeners:
        # PyMongo's listeners have no methods for motorlite's own events.
        method = getattr(listener, name, None) if is_like(listener, kind) else None
        if method is not None:
            if iscoroutinefunction(method):
                # It would never be awaited.
                raise TypeError(f"{type(listener).__name__}.{name} must be a plain function: listeners cannot await")
            yield method


class _Publisher:
    """Logs one kind of event and calls its listeners."""

    __slots__ = ("_calls", "_logger", "_max_length", "_topology_id")

    def __init__(
        self, logger: logging.Logger, calls: Mapping[type, tuple[Callable[[Any], None], ...]], max_length: int
    ) -> None:
        self._logger = logger
        self._calls = calls
        self._max_length = max_length
        # The id from the last topology event: heartbeats are logged with it, but their events do not carry it.
        self._topology_id: ObjectId | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, events.TopologyEvent):
            self._topology_id = event.topology_id
        level = _LEVELS.get(type(event), logging.DEBUG)
        if self._logger.isEnabledFor(level):
            self._log(event, level)
        for call in self._calls[type(event)]:
            try:
                call(event)
            except Exception:
                _client_logger.exception("a listener failed on %s; ignored", type(event).__name__)

    def _log(self, event: object, level: int) -> None:
        try:
            message = log_message(event, self._max_length, self._topology_id)
            if message is not None:
                self._logger.log(level, "%s", message, extra={"motorlite": message.fields})
        except Exception:
            # Documents may hold the application's objects, and logging filters are its code: their errors must not
            # fail an operation.
            _client_logger.exception("%s could not be logged; ignored", type(event).__name__)
