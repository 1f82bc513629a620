"""Pure: the listeners that `monitoring.register` adds to every client created later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import wrong
from motorlite._base.pymongo_objects import is_like
from motorlite._events.commands import CommandListener
from motorlite._events.operations import (
    CircuitBreakerListener,
    OperationListener,
    RetryListener,
    ServerSelectionListener,
)
from motorlite._events.pools import ConnectionPoolListener
from motorlite._events.topology import ServerHeartbeatListener, ServerListener, TopologyListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LISTENERS: Final = (
    CircuitBreakerListener,
    CommandListener,
    OperationListener,
    RetryListener,
    ServerSelectionListener,
    ConnectionPoolListener,
    ServerHeartbeatListener,
    ServerListener,
    TopologyListener,
)
"""The base classes of listeners."""

_registered: list[object] = []

sources: Final[list[Callable[[], Iterable[object]]]] = []
"""Further listeners, asked for with each new client (`motorlite.compat`)."""


def register(listener: Any) -> None:
    """Add a listener to every client that is created from now on, before those of its option `event_listeners`.

    Existing clients are unchanged. Nothing removes a registered listener: prefer `event_listeners`.

    Args:
        listener: An instance of one or more listener classes, which may be PyMongo's.

    Raises:
        TypeError: `listener` is not a listener.
    """
    if not any(is_like(listener, kind) for kind in LISTENERS):
        names = ", ".join(kind.__name__ for kind in LISTENERS)
        raise TypeError(wrong("listener", listener, f"an instance of a subclass of {names}"))
    _registered.append(listener)


register.__module__ = "motorlite.monitoring"


def registered() -> tuple[object, ...]:
    """Return the listeners for a new client."""
    return (*_registered, *(listener for listeners in sources for listener in listeners()))
