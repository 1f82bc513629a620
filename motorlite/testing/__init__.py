"""Pure: tools for testing programs that use motorlite: a local MongoDB server and fault injection."""

from __future__ import annotations

from motorlite.testing import failpoints
from motorlite.testing.proxy import FaultProxy, ProxyCounts
from motorlite.testing.server.local_server import LocalServer
from motorlite.testing.server.mongod_binary import ServerNotFound

__all__ = ["FaultProxy", "LocalServer", "ProxyCounts", "ServerNotFound", "failpoints"]
