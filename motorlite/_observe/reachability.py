"""Shell: logs that a server became unreachable, or reachable again: once per change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from motorlite import monitoring as events
from motorlite._observe.safe_log import safe_log
from motorlite.errors import NotPrimaryError

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._observe.limiter import Limiter
    from motorlite.topology_description import ServerDescription


class Reachability:
    """Receives topology events. Logs a server without a usable reply at WARNING, and its return at INFO."""

    __slots__ = ("_limiter", "_logger", "_lost", "_max_length")

    def __init__(self, logger: logging.Logger, max_length: int, limiter: Limiter) -> None:
        self._logger = logger
        self._max_length = max_length
        self._limiter = limiter
        # The servers that are unreachable.
        self._lost: set[Address] = set()

    def __call__(self, event: Any) -> None:
        if type(event) is events.ServerDescriptionChangedEvent:
            self._changed(event.server_address, event.new_description)
        elif type(event) is events.ServerClosedEvent:
            self._lost.discard(event.server_address)

    def _changed(self, address: Address, description: ServerDescription) -> None:
        error = description.error
        if description.is_server_type_known:
            if address in self._lost:
                self._lost.remove(address)
                self._log(logging.INFO, address, None)
        elif error is not None and address not in self._lost and not isinstance(error, NotPrimaryError):
            # A server that steps down replies.
            self._lost.add(address)
            self._log(logging.WARNING, address, error)

    def _log(self, level: int, address: Address, error: BaseException | None) -> None:
        if not self._logger.isEnabledFor(level):
            return
        from motorlite._observe.log_messages import reachability_message

        left_out = self._limiter.admit((address, level))
        if left_out is not None:
            message = reachability_message(address, error, left_out, self._max_length)
            safe_log(self._logger, level, "%s", message, extra={"motorlite": message.fields})
