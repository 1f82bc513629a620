"""Runs an example as its reader would: as a process of its own, until SIGTERM."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.testing import LocalServer

REPOSITORY: Final = Path(__file__).parents[3]
SECONDS: Final = 60.0
# What Python and the event loops write when a program does not clean up.
COMPLAINTS: Final = (
    "ResourceWarning",
    "was destroyed",
    "still pending",
    "never awaited",
    "never retrieved",
    "Traceback",
    "Exception",
)
# Before a loop of asyncio ends, its runner cancels the tasks that are left, and says nothing.
REPORT_PENDING_TASKS: Final = """
import asyncio, sys

def reporting(original):
    def all_tasks(loop=None):
        found = original(loop)
        if sys._getframe(1).f_code.co_name == "_cancel_all_tasks":
            for task in found:
                print("still pending:", task, flush=True)
        return found
    return all_tasks

asyncio.all_tasks = asyncio.tasks.all_tasks = reporting(asyncio.all_tasks)
"""


class Program:
    """A running example. Its output is read all the time; `stop` returns what it wrote."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        start = f"import runpy\nrunpy.run_module({module!r}, run_name='__main__')"
        code = NO_WORD_ABOUT_SLOW_STEPS + REPORT_PENDING_TASKS + start
        self._process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", code, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        """Wait until the program has written a line with `text`."""
        while (line := self._new.get(timeout=SECONDS)) is not None:
            if text in line:
                return
        raise AssertionError(f"the program ended without writing {text!r}:\n{self.output}")

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def stop(self) -> int:
        """Ask the program to end, and return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait until the program has ended, and check that it cleaned up."""
        status = self._process.wait(SECONDS)
        self._reader.join()
        assert not [complaint for complaint in COMPLAINTS if complaint in self.output], self.output
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.lines.append(line)
                self._new.put(line)
        self._new.put(None)


class Database:
    """A database of the server, seen without the driver under test."""

    def __init__(self, server: LocalServer, name: str) -> None:
        self._server = server
        self._name = name

    def command(self, document: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = dict(self._server.command(document, self._name))
        return reply

    def find(self, collection: str, **query: Any) -> list[dict[str, Any]]:
        """The first 10,000 documents that match, ordered by their ids, as a majority of the members has them."""
        command = {
            "find": collection,
            "filter": query,
            "sort": {"_id": 1},
            "batchSize": 10_000,
            "readConcern": {"level": "majority"},
        }
        found: list[dict[str, Any]] = self.command(command)["cursor"]["firstBatch"]
        return found

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        self.command({"insert": collection, "documents": list(documents), "writeConcern": {"w": "majority"}})

    def drop(self) -> None:
        self.command({"dropDatabase": 1, "writeConcern": {"w": "majority"}})


def kill_primary(server: LocalServer, when: Callable[[], bool]) -> None:
    """Kill the primary as soon as `when` holds, and wait for the next one."""
    from motorlite.testing.server.local_commands import wait_until

    wait_until(when, "the program to work")
    server.kill(server.wait_for_primary())
    server.wait_for_primary()
