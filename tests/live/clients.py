"""Clients for tests with real servers: with jitter of the test's choice, and with a record of what they did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyio import current_time, fail_after, sleep

from motorlite import AsyncMongoClient
from motorlite._client.core import Core
from motorlite._client.world import REAL
from motorlite.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
    RetryEvent,
    RetryListener,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite.testing import LocalServer

Client = AsyncMongoClient[dict[str, Any]]


# Instead of half a second, so that a client sees at once that a server is back.
HEARTBEAT_INTERVAL = 0.02


def make_client(server: LocalServer | str, *, jitter: float | None = None, **options: Any) -> Client:
    """A client that has not connected yet; `jitter` replaces the random numbers of the backoff."""
    uri = server if isinstance(server, str) else server.uri
    client: Client = AsyncMongoClient(uri, **options)
    world = replace(REAL, min_heartbeat_interval=HEARTBEAT_INTERVAL)
    if jitter is not None:
        world = replace(world, jitter=lambda: jitter)
    client._core = Core(client.options, world)
    return client


# For programs in the development mode of Python, whose standard error must stay empty: asyncio says there which steps
# took long, which is a word about the machine.
NO_WORD_ABOUT_SLOW_STEPS = """
exec('''
import logging
logging.getLogger("asyncio").addFilter(lambda record: not record.msg.startswith("Executing %s took"))
''', {})  # in a namespace of its own: a filter with the program's would keep all that is in it
"""


class Record(CommandListener, RetryListener):
    """All commands and all decisions about retries of a client, in the order in which they happened.

    `on_failure` is called with each failed command, before its retry: the place to change failpoints.
    """

    def __init__(self) -> None:
        self.started_events: list[CommandStartedEvent] = []
        self.ended_events: list[CommandSucceededEvent | CommandFailedEvent] = []
        self.retries: list[RetryEvent] = []
        # "started find", "succeeded find", "failed find"
        self.history: list[str] = []
        self.start_times: list[float] = []
        self.end_times: list[float] = []
        self.on_failure: Callable[[CommandFailedEvent], None] | None = None

    def started(self, event: CommandStartedEvent) -> None:
        self.start_times.append(current_time())
        self.started_events.append(event)
        self.history.append(f"started {event.command_name}")

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._ended("succeeded", event)

    def failed(self, event: CommandFailedEvent) -> None:
        self._ended("failed", event)
        if self.on_failure is not None:
            self.on_failure(event)

    def _ended(self, how: str, event: CommandSucceededEvent | CommandFailedEvent) -> None:
        self.end_times.append(current_time())
        self.ended_events.append(event)
        self.history.append(f"{how} {event.command_name}")

    def retry(self, event: RetryEvent) -> None:
        self.retries.append(event)

    def clear(self) -> None:
        """Forget what has happened so far."""
        for record in (
            self.started_events,
            self.ended_events,
            self.retries,
            self.history,
            self.start_times,
            self.end_times,
        ):
            record.clear()

    @property
    def names(self) -> list[str]:
        """The names of the commands that were started."""
        return [event.command_name for event in self.started_events]

    def commands(self, name: str) -> list[Mapping[str, Any]]:
        """The commands of one name that were started."""
        return [event.command for event in self.started_events if event.command_name == name]

    @property
    def gaps(self) -> list[float]:
        """Seconds between the end of each command and the start of the next one."""
        return [start - end for end, start in zip(self.end_times, self.start_times[1:], strict=False)]

    @property
    def session_ids(self) -> set[Any]:
        """The different server sessions of the commands."""
        return {event.command["lsid"]["id"] for event in self.started_events if "lsid" in event.command}


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something is true, which nobody would tell.

    Raises:
        TimeoutError: It was not in time.
    """
    with fail_after(seconds):
        while not condition():  # noqa: ASYNC110  # no event to wait for
            await sleep(0.002)


def numbered(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Documents with the ids from 0 on."""
    return [{"_id": number, **fields} for number in range(count)]
