"""Shell: logs that a server cannot be reached or used, or can again: once per change."""

from __future__ import annotations

import logging
import traceback
from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite import monitoring as events
from motorlite._base.error_documents import CREDENTIALS_REFUSED
from motorlite.errors import AutoReconnect, NotPrimaryError, error_code

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from motorlite._base.values import Address
    from motorlite.topology_description import ServerDescription


# Limits how often messages of one kind are logged.

# Keys that are remembered before those whose interval has passed are forgotten.
_MANY = 100


class Limiter:
    """Admits one message of each kind per interval, and counts the others.

    `now` is a clock in seconds. Until it is set, every kind is admitted once.
    """

    __slots__ = ("_interval", "_kinds", "now")

    def __init__(self, interval: float = inf) -> None:
        self._interval = interval
        # Time of the last admission, and the number of messages left out since, by kind.
        self._kinds: dict[Hashable, tuple[float, int]] = {}
        self.now: Callable[[], float] = float

    def reopen(self, kind: Hashable) -> None:
        """Admit the next message of this kind, since it has a new cause; it still counts those left out before."""
        if kind in self._kinds:
            self._kinds[kind] = (-inf, self._kinds[kind][1])

    def admit(self, kind: Hashable) -> int | None:
        """Return how many messages of this kind were left out since the last one, or None: leave this one out too."""
        now = self.now()
        last, left_out = self._kinds.get(kind, (-inf, 0))
        if now < last + self._interval:
            self._kinds[kind] = (last, left_out + 1)
            return None
        if len(self._kinds) >= _MANY:
            self._kinds = {each: state for each, state in self._kinds.items() if now < state[0] + self._interval}
        self._kinds[kind] = (now, 0)
        return left_out


# Logs without letting the application's filters and handlers fail the driver's work.

# Of what plain functions of the application raise, the driver lets these pass. All else is a bug there: a function that
# does not await is never cancelled, but may raise the CancelledError that it got as the result of a task.
ENDS_PROGRAM: Final = (KeyboardInterrupt, SystemExit)


def safe_log(logger: logging.Logger, level: int, text: str, *arguments: object, **options: Any) -> None:
    """Log a message. An exception in a filter is reported as the standard library reports those in handlers."""
    try:
        logger.log(level, text, *arguments, stacklevel=2, **options)
    except ENDS_PROGRAM:
        raise
    except BaseException:
        if logging.raiseExceptions:
            traceback.print_exc()


# The messages by what is wrong, with those about the end of it. A check does not authenticate, so that its success says
# nothing about credentials.
_RETURNS: Final = {
    "Server unreachable": "Server reachable",
    "Server unusable": "Server usable",
    "Credentials refused": None,
}


class Reachability:
    """Receives topology events. Logs a server without a usable reply at WARNING, and its return at INFO."""

    __slots__ = ("_limiter", "_logger", "_lost", "_max_length")

    def __init__(self, logger: logging.Logger, max_length: int, limiter: Limiter) -> None:
        self._logger = logger
        self._max_length = max_length
        self._limiter = limiter
        # The servers that cannot be used, with what was logged.
        self._lost: dict[Address, str] = {}

    def __call__(self, event: Any) -> None:
        if type(event) is events.ServerDescriptionChangedEvent:
            self._changed(event.server_address, event.new_description)
            is_new = event.new_description.server_type != event.previous_description.server_type
            if is_new and event.new_description.is_server_type_known:
                # Operations may have been waiting for it; those that wait from now on wait for another reason.
                self._limiter.reopen(events.ServerSelectionWaitingEvent.__name__)
        elif type(event) is events.ServerClosedEvent:
            self._lost.pop(event.server_address, None)

    def _changed(self, address: Address, description: ServerDescription) -> None:
        error = description.error
        if description.is_server_type_known:
            message = _RETURNS.get(self._lost.pop(address, ""))
            if message is not None:
                self._log(logging.INFO, message, address, None)
        elif error is not None and address not in self._lost and not isinstance(error, NotPrimaryError):
            # A server that steps down replies.
            self._lost[address] = message = _message_about(error)
            self._log(logging.WARNING, message, address, error)

    def _log(self, level: int, message: str, address: Address, error: BaseException | None) -> None:
        if not self._logger.isEnabledFor(level):
            return
        from motorlite._observe.log_messages import reachability_message

        left_out = self._limiter.admit((address, message))
        if left_out is not None:
            logged = reachability_message(message, address, error, left_out, self._max_length)
            safe_log(self._logger, level, "%s", logged, extra={"motorlite": logged.fields})


def _message_about(error: BaseException) -> str:
    if isinstance(error, AutoReconnect):
        return "Server unreachable"
    return "Credentials refused" if error_code(error) in CREDENTIALS_REFUSED else "Server unusable"
