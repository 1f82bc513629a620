"""Shell: hands the driver's events to the client's listeners and to its loggers.

Every kind of event has one publisher per client, or None when nobody would hear it, so that the driver pays
one truth test for it. That is decided when the client is made: loggers have to be turned on before.
`log_messages` says what is logged; a record carries the structured fields as its attribute ``motorlite``, and
as ``fields`` of its only argument.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from motorlite import monitoring as events
from motorlite._api.log_documents import DEFAULT_MAX_LENGTH
from motorlite._api.log_messages import log_message
from motorlite._pymongo_objects import is_like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bson.objectid import ObjectId

COMMAND: Final = "motorlite.command"
CONNECTION: Final = "motorlite.connection"
RETRY: Final = "motorlite.retry"
SELECTION: Final = "motorlite.serverSelection"
TOPOLOGY: Final = "motorlite.topology"

_client_logger: Final = logging.getLogger("motorlite.client")

# Per logger the events of its kind, each with the listener and the method that are told.
HANDLERS: Final[Mapping[str, Mapping[type, tuple[type, str]]]] = {
    COMMAND: {
        events.CommandStartedEvent: (events.CommandListener, "started"),
        events.CommandSucceededEvent: (events.CommandListener, "succeeded"),
        events.CommandFailedEvent: (events.CommandListener, "failed"),
    },
    RETRY: {
        events.RetryEvent: (events.RetryListener, "retry"),
    },
    SELECTION: {
        events.ServerSelectionStartedEvent: (events.ServerSelectionListener, "started"),
        events.ServerSelectionWaitingEvent: (events.ServerSelectionListener, "waiting"),
        events.ServerSelectionSucceededEvent: (events.ServerSelectionListener, "succeeded"),
        events.ServerSelectionFailedEvent: (events.ServerSelectionListener, "failed"),
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


# All other messages are at DEBUG.
_LEVELS: Final[Mapping[type, int]] = {events.ServerSelectionWaitingEvent: logging.INFO}


@dataclass(frozen=True, slots=True)
class Publishers:
    """One client's publishers; None: nobody listens to that kind of event."""

    command: Callable[[events.CommandEvent], None] | None
    pool: Callable[[events.PoolEvent], None] | None
    topology: Callable[[events.TopologyEvent | events.ServerHeartbeatEvent], None] | None
    retry: Callable[[events.RetryEvent], None] | None
    selection: Callable[[events.ServerSelectionEvent], None] | None


def make_publishers(
    listeners: Sequence[object],
    *,
    logging_enabled: Callable[[str], bool] | None = None,
    max_document_length: int = DEFAULT_MAX_LENGTH,
) -> Publishers:
    """The publishers of a new client.

    Args:
        listeners: Instances of listener classes, which the option ``event_listeners`` made sure of; one
            object may be several kinds of listener.
        logging_enabled: Whether the logger of this name wants DEBUG records; None: ask the logger.
        max_document_length: Code points of a document in a log record; what is longer is cut.

    Raises:
        TypeError: a method of a listener is a coroutine function.
    """
    is_enabled = logging_enabled if logging_enabled is not None else _is_enabled

    def make(name: str) -> Any:
        calls = {event: tuple(_methods(listeners, *handler)) for event, handler in HANDLERS[name].items()}
        if any(calls.values()) or is_enabled(name):
            return _Publisher(logging.getLogger(name), calls, max_document_length)
        return None

    return Publishers(
        command=make(COMMAND),
        pool=make(CONNECTION),
        topology=make(TOPOLOGY),
        retry=make(RETRY),
        selection=make(SELECTION),
    )


def _is_enabled(name: str) -> bool:
    return logging.getLogger(name).isEnabledFor(logging.INFO if name == SELECTION else logging.DEBUG)


def _methods(listeners: Sequence[object], kind: type, name: str) -> Iterator[Callable[[Any], None]]:
    for listener in listeners:
        # PyMongo's listeners have no methods for what only motorlite publishes.
        method = getattr(listener, name, None) if is_like(listener, kind) else None
        if method is not None:
            if iscoroutinefunction(method):
                # It would never be awaited.
                raise TypeError(f"{type(listener).__name__}.{name} must be a plain function: listeners cannot await")
            yield method


class _Publisher:
    """Logs one kind of event and calls the listeners of it."""

    __slots__ = ("_calls", "_logger", "_max_length", "_topology_id")

    def __init__(
        self, logger: logging.Logger, calls: Mapping[type, tuple[Callable[[Any], None], ...]], max_length: int
    ) -> None:
        self._logger = logger
        self._calls = calls
        self._max_length = max_length
        # Of the last event that has one: heartbeats are logged with it, and their events have none.
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
                _client_logger.exception("a listener failed at %s; ignored", type(event).__name__)

    def _log(self, event: object, level: int) -> None:
        try:
            message = log_message(event, self._max_length, self._topology_id)
            if message is not None:
                self._logger.log(level, "%s", message, extra={"motorlite": message.fields})
        except Exception:
            # Documents may hold objects of the application, and filters are its code: no operation ends here.
            _client_logger.exception("%s could not be logged; ignored", type(event).__name__)
