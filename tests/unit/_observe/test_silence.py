"""A program that sets up no logging: Python's last resort would print the driver's warnings on standard error."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Final

import motorlite
from motorlite import AsyncMongoClient

ROOT: Final = Path(motorlite.__file__).parents[1]
PROGRAM: Final = """\
import asyncio, socket
from motorlite import AsyncMongoClient
from motorlite.errors import PyMongoError
from motorlite.monitoring import ServerHeartbeatListener

class Broken(ServerHeartbeatListener):
    def started(self, event):
        raise LookupError("a bug of the application")

async def main():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # Nothing listens there any more.
    uri = f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=100"
    async with AsyncMongoClient(uri, event_listeners=[Broken()]) as client:
        for call in (client.db.coll.find_one, client.admin.command):
            try:
                await call("ping")
            except PyMongoError as error:
                print(type(error).__name__)

asyncio.run(main())
"""


def test_a_program_without_logging_prints_nothing() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ServerSelectionTimeoutError\n" * 2


def test_a_client_leaves_the_handlers_to_the_application() -> None:
    """As the logging HOWTO asks of a library: one handler that does nothing, and records still go up to the root."""
    AsyncMongoClient()
    logger = logging.getLogger("motorlite")
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]
    assert logger.propagate
    assert logger.level == logging.NOTSET
