"""Pure: listeners that log events with level INFO, bad news with level WARNING.

    client = AsyncMongoClient(event_listeners=[CommandLogger()])

Their logger is ``motorlite.event_loggers``. The driver's own loggers (docs/events.md) say more, need no listener and
can be set to different levels: these classes are for programs written for PyMongo.
"""

from __future__ import annotations

from motorlite.event_loggers._loggers import (
    CommandLogger,
    ConnectionPoolLogger,
    HeartbeatLogger,
    ServerLogger,
    TopologyLogger,
)

__all__ = ["CommandLogger", "ConnectionPoolLogger", "HeartbeatLogger", "ServerLogger", "TopologyLogger"]
