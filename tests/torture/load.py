"""Shell: the process of the load: 100 tasks on one client, until it is killed or has finished.

``python -m tests.torture.load`` reads orders from standard input, lines of JSON, and answers with lines of JSON:

| order | what it does | answer |
|---|---|---|
| ``cancel`` | cancels `per_second` operations of random tasks from now on | |
| ``finish`` | lets every task succeed once more, ends the tasks, and closes the client | ``finished`` |

The first answer, ``ready``, says that the tasks are running. What they were promised is in the journal, whose file
outlives the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import sniffio
import trio

from motorlite import AsyncMongoClient
from motorlite.testing.journal import Journal
from tests.live.load import background, has_timers, is_at_rest, sockets_to
from tests.simulation.bugs import BUGS, planted
from tests.torture.faults import APP_NAME
from tests.torture.streams import Reader
from tests.torture.workload import (
    DATABASE,
    OPTIONS,
    Appends,
    BulkWrites,
    Counts,
    Files,
    Inserts,
    Registers,
    Tally,
    Task,
    Transfers,
    prepare,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.clients import Client

# How many tasks of each kind there are among 100.
SHARES: Final[dict[type[Task], int]] = {
    Transfers: 20,
    Inserts: 18,
    Counts: 12,
    BulkWrites: 12,
    Files: 8,
    Registers: 12,
    Appends: 12,
    Reader: 6,
}
# Seconds until everything must work again, and until nothing may be left.
RECOVERY, REST = 90.0, 30.0
LOOK: Final = 0.05
# Backend and options for anyio, by the name on the command line.
BACKENDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}


class Load:
    """The tasks of one process, its client and its journal."""

    def __init__(self, client: Client, journal: Journal, name: str, share: float) -> None:
        self._client = client
        self._journal = journal
        self._name = name
        self._chance = random.Random(name)
        self._per_second = 0.0
        self._tally = Tally()
        kinds = [kind for kind, count in SHARES.items() for _ in range(max(1, round(count * share)))]
        self._tasks = [
            kind(client, journal, self._tally, f"{name}-{number}", number) for number, kind in enumerate(kinds)
        ]
        self._readers = [task for task in self._tasks if isinstance(task, Reader)]

    async def run(self) -> None:
        """Serve orders until the load has finished, and say what came of it."""
        if not self._journal.entries:
            await prepare(self._client, self._journal)
        for reader in self._readers:
            reader.remember(self._journal.entries)
        before = set(_all_tasks())
        async with anyio.create_task_group() as group:
            for task in self._tasks:
                group.start_soon(task.run)
            group.start_soon(self._cancel)
            _answer("ready")
            await self._obey()
            await self._finish()
            group.cancel_scope.cancel()
        await self._rest(before)
        _answer("finished", retries=dict(self._client.stats().retries), problems=self._tally.problems)

    async def _obey(self) -> None:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            order = json.loads(line)
            if order["order"] == "finish":
                return
            self._per_second = order["per_second"]
        raise SystemExit("the run has ended without an order to finish")

    async def _cancel(self) -> None:
        while True:
            await anyio.sleep(self._chance.expovariate(self._per_second) if self._per_second else 0.1)
            if self._per_second:
                self._chance.choice(self._tasks).running.cancel()

    async def _finish(self) -> None:
        """Every task succeeds once more; then no more is written, and the readers read all of it."""
        self._per_second = 0
        before = self._tally.rounds.copy()
        writers = [task for task in self._tasks if task not in self._readers]
        await self._expect(
            lambda: [task.name for task in writers if self._tally.rounds[task.number] == before[task.number]],
            RECOVERY,
            "these tasks no longer succeed",
        )
        for task in writers:
            task.is_over = True
        await self._expect(
            lambda: [task.name for task in writers if not task.has_ended], RECOVERY, "these operations do not end"
        )
        last = f"{self._name}-last"
        operation = self._journal.begin(self._journal.new_process(), "insert", collection="inserts", ids=[last])
        await self._client[DATABASE].inserts.insert_one({"_id": last})
        self._journal.end(operation, "ok")
        await self._expect(
            lambda: [(each.stream, self._tally.rounds[each.number]) for each in self._readers if each.last_key != last],
            RECOVERY,
            "these change streams do not arrive at the last change",
        )
        for reader in self._readers:
            reader.is_over = True
        await self._expect(
            lambda: [task.name for task in self._readers if not task.has_ended], RECOVERY, "these readers do not end"
        )

    async def _rest(self, before: set[Any]) -> None:
        """Nothing is in use, and once the client is closed, there is nothing of it."""
        client = self._client
        ports = {port for _, port in client.stats().servers}
        await self._expect(lambda: [] if is_at_rest(client) else _in_use(client), REST, "not at rest")
        await client.close()
        left: dict[str, Callable[[], list[Any]]] = {
            "tasks": lambda: [repr(each) for each in _all_tasks() if each not in before],
            "background tasks of the client": lambda: list(background()),
            "sockets": lambda: [count] if (count := sockets_to(ports)) else [],
            "timers": lambda: [True] if has_timers() else [],
            "sessions": lambda: [count] if (count := self._client.stats().sessions) else [],
        }
        for what, look in left.items():
            await self._expect(look, REST, f"{what} that are left")

    async def _expect(self, wrong: Callable[[], list[Any]], seconds: float, what: str) -> None:
        """Wait until nothing is wrong; what stays the same for `seconds` is a problem."""
        # Not `until`, whose own timer would be among those that are left.
        last: list[Any] = []
        end = 0.0
        while now := wrong():
            if now != last:
                last, end = now, time.monotonic() + seconds
            elif time.monotonic() > end:
                self._tally.problems.append(f"{what}, for {seconds:g} s: {now}")
                return
            await anyio.sleep(LOOK)


def _all_tasks() -> list[Any]:
    """The tasks of the event loop, but for those of the event loop itself."""
    if sniffio.current_async_library() == "asyncio":
        return list(asyncio.all_tasks())
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, found = [root], []
    while waiting:
        task = waiting.pop()
        found.append(task)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _in_use(client: Client) -> list[Any]:
    return [
        (address, one.in_use, one.waiting, one.connecting, one.pending, one.operations)
        for address, one in client.stats().servers.items()
    ]


def _answer(what: str, **details: Any) -> None:
    print(json.dumps({"answer": what, **details}), flush=True)


async def _main(options: argparse.Namespace) -> None:
    client: Client = AsyncMongoClient(options.uri, appname=APP_NAME, **OPTIONS, **options.options)
    with Journal(time.monotonic, options.journal) as journal:
        async with client:
            await Load(client, journal, options.name, options.tasks / sum(SHARES.values())).run()


def main(arguments: Sequence[str]) -> None:
    """Run the load that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.load")
    parser.add_argument("uri", help="the deployment")
    parser.add_argument("journal", help="the file to append to")
    parser.add_argument("name", help="unique in the run; also the seed of what the tasks do")
    parser.add_argument("--backend", choices=sorted(BACKENDS), required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--options", type=json.loads, default={}, help="further options of the client, as JSON")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug in the driver")
    options = parser.parse_args(arguments)
    backend, backend_options = BACKENDS[options.backend]
    with nullcontext() if options.bug is None else planted(options.bug):
        anyio.run(_main, options, backend=backend, backend_options=backend_options)


if __name__ == "__main__":
    main(sys.argv[1:])
