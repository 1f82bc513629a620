"""Pure: for tests of programs that use motorlite: a local MongoDB server and fault injection."""

from __future__ import annotations

from motorlite.testing import failpoints
from motorlite.testing.local_server import LocalServer
from motorlite.testing.mongod_binary import ServerNotFound
from motorlite.testing.proxy import FaultProxy, ProxyCounts

__all__ = ["FaultProxy", "LocalServer", "ProxyCounts", "ServerNotFound", "failpoints"]
