"""Shell: programs on both libraries, on the same servers at the same time, and what differed."""

from __future__ import annotations

import ast
import asyncio
import inspect
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import gridfs
import pymongo

import motorlite
import motorlite.gridfs
from tests.differential.outcomes import Names, Step, raised, shown
from tests.differential.wire import MESSAGES, command
from tests.live.oracle import names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from motorlite.testing import LocalServer
    from tests.differential.programs import Program

# A step that takes longer waits for something that will not happen; the program ends.
TIMEOUT_SECONDS: Final = 30.0
INDEX: Final = {"key": {"n": 1}, "name": "n_1"}
# As servers list it, and the one that each collection has.
USUAL_INDEX: Final = {"v": 2, **INDEX}
ID_INDEX: Final = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


@lru_cache(4096)
def compiled(step: str) -> CodeType:
    """The code of a step, a coroutine if it awaits."""
    code: CodeType = compile(step, "<step>", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


class Side:
    """One library with a client on one server.

    Args:
        library: `motorlite` or `pymongo`.
        grid: Its package of GridFS.
        uri: The server's connection string.
        letter: What the names of its databases end with.
    """

    def __init__(self, library: Any, grid: Any, uri: str, letter: str) -> None:
        self.client: Any = library.AsyncMongoClient(uri)
        self._letter = letter
        self._names = names(library, grid)

    def database(self, worker: int) -> str:
        return f"differential_{worker:02}_{self._letter}"

    async def run(self, steps: tuple[str, ...], worker: int, used: set[str], seconds: float) -> list[Step]:
        """What each step of a program does, up to one that does not end in time."""
        found = Names(self.database(worker), used=used)
        database = self.client[found.database]
        scope = {**self._names, "client": self.client, "db": database, "coll": database.coll}
        done: list[Step] = []
        try:
            for each in steps:
                async with asyncio.timeout(seconds):
                    done.append(await _step(each, scope, found))
        except TimeoutError as error:
            done.append(Step(raised(error, found), ()))
        finally:
            for name in ("c", "s"):
                if name in scope:
                    with suppress(Exception):
                        await (scope[name].close() if name == "c" else scope[name].end_session())
        return done


async def _step(text: str, scope: dict[str, Any], found: Names) -> Step:
    messages: list[bytes] = []
    token = MESSAGES.set(messages)
    outcome: Any
    code = compiled(text)
    try:
        value = eval(code, scope)
        outcome = shown(await value if code.co_flags & inspect.CO_COROUTINE else value, found)
    except Exception as error:
        outcome = raised(error, found)
    finally:
        MESSAGES.reset(token)
    commands = (command(each, found) for each in messages)
    return Step(outcome, tuple(each for each in commands if each is not None))


class Arena:
    """Servers of both kinds, with clients of both libraries; an asynchronous context manager.

    Args:
        servers: A server of each kind, by `STANDALONE` and `REPLICA_SET`.
        workers: How many programs run at the same time.
    """

    def __init__(self, servers: Mapping[str, LocalServer], workers: int) -> None:
        self.workers = workers
        # The fields that were not compared, or left out.
        self.used: set[str] = set()
        self._servers = servers
        self._sides: dict[str, tuple[Side, Side]] = {}
        # They prepare databases.
        self._others: dict[str, Any] = {}
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for name, server in self._servers.items():
            sides = Side(pymongo, gridfs, server.uri, "p"), Side(motorlite, motorlite.gridfs, server.uri, "m")
            self._sides[name] = sides
            self._others[name] = motorlite.AsyncMongoClient(server.uri)
            for client in (self._others[name], *(side.client for side in sides)):
                self._exit.push_async_callback(client.close)
            for worker in range(self.workers):
                await self._reset(name, worker, None)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._exit.aclose()

    async def run(
        self, program: Program, worker: int, seconds: float = TIMEOUT_SECONDS
    ) -> tuple[list[Step], list[Step]]:
        """What PyMongo does, and what motorlite does; a step may take so many seconds."""
        theirs, ours = self._sides[program.deployment]
        try:
            steps = await asyncio.gather(
                *(side.run(program.steps, worker, self.used, seconds) for side in (theirs, ours))
            )
        finally:
            await self._reset(program.deployment, worker, program)
        return steps[0], steps[1]

    async def _reset(self, deployment: str, worker: int, program: Program | None) -> None:
        await asyncio.gather(*(self._clear(deployment, side, worker, program) for side in self._sides[deployment]))

    async def _clear(self, deployment: str, side: Side, worker: int, program: Program | None) -> None:
        database = self._others[deployment][side.database(worker)]
        if program is not None and program.is_tame:
            for name in ("coll", "other"):
                # Most programs do not mention the second one, and clearing costs as much as a step.
                if name == "coll" or any(name in step for step in program.steps):
                    await database.command("delete", name, deletes=[{"q": {}, "limit": 0}])
            return
        if program is None or not await self._drop_others(database):
            await database.command("dropDatabase")
        for name in ("coll", "other"):
            await database.command("createIndexes", name, indexes=[INDEX])

    async def _drop_others(self, database: Any) -> bool:
        """Drop whatever is not as programs find it. Collections that are stay: making them anew takes the server long.

        Returns False if only dropping the database removes it.
        """
        listed = (await database.command("listCollections"))["cursor"]["firstBatch"]
        if any(each["name"].startswith("system.") for each in listed):
            return False
        usual = {each["name"] for each in listed if each["type"] == "collection" and not each["options"]}
        for name in {each["name"] for each in listed} - (usual & {"coll", "other"}):
            await database.command("drop", name)
        for name in usual & {"coll", "other"}:
            indexes = (await database.command("listIndexes", name))["cursor"]["firstBatch"]
            others = [each["name"] for each in indexes if each not in (USUAL_INDEX, ID_INDEX)]
            if others:
                await database.command("dropIndexes", name, index=others)
            await database.command("delete", name, deletes=[{"q": {}, "limit": 0}])
        return True
