"""One client, one event loop: what happens with a second one, at the end of the loop, and after a fork."""

from __future__ import annotations

import asyncio
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio

from motorlite import AsyncMongoClient
from motorlite.errors import InvalidOperation
from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS, run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from motorlite.testing import LocalServer


def run_asyncio(function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(function())


RUNNERS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]] = {
    "asyncio": run_asyncio,
    "trio": trio.run,
    "anyio": partial(anyio.run, backend="asyncio"),
}


@pytest.mark.parametrize("first", ["asyncio", "trio"])
@pytest.mark.parametrize("second", ["asyncio", "trio", "anyio"])
def test_a_second_event_loop_is_refused_with_advice(
    deployment: LocalServer, database_name: str, first: str, second: str
) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(deployment.uri)

    async def stay() -> None:
        assert await client[database_name].c.find_one() is None
        cursor = client[database_name].c.find()

        async def other() -> None:
            for operation in (client[database_name].c.find_one, cursor.to_list, client.aconnect, client.close):
                with pytest.raises(InvalidOperation, match="client for each event loop"):
                    await operation()

        # In a thread, so that both loops run.
        await anyio.to_thread.run_sync(RUNNERS[second], other)
        assert await client[database_name].c.find_one() is None
        await client.close()

    RUNNERS[first](stay)


@pytest.mark.parametrize("first", ["asyncio", "trio"])
@pytest.mark.parametrize("second", ["asyncio", "trio"])
def test_a_loop_after_the_first_has_ended_is_refused(
    deployment: LocalServer, database_name: str, first: str, second: str
) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(deployment.uri)
    RUNNERS[first](client[database_name].c.find_one)
    with pytest.raises(InvalidOperation, match="event loop"):
        RUNNERS[second](client[database_name].c.find_one)
    RUNNERS[second](client.close)


def test_a_client_of_a_module_binds_at_its_first_operation(deployment: LocalServer, database_name: str) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(deployment.uri)
    collection = client[database_name].c

    async def main() -> None:
        async with client:
            await collection.insert_one({"_id": 1})
            assert await collection.find_one() == {"_id": 1}

    trio.run(main)
    unused: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(deployment.uri)
    assert not unused.nodes
    with pytest.raises(InvalidOperation, match="event loop"):
        unused.test.c.find_one().send(None)


# --- in a process of its own: nothing may be said at its end ---

# Log messages have tests of their own.
PRELUDE = (
    NO_WORD_ABOUT_SLOW_STEPS
    + """
import asyncio, gc, logging, os, sys, threading
import anyio, trio
from motorlite import AsyncMongoClient
logging.getLogger("motorlite").setLevel(logging.ERROR)
uri, name = sys.argv[1:]

async def use(client):
    await client[name].c.insert_one({})
    await client[name].c.find(batch_size=2).to_list()
    assert await client[name].c.find_one()
"""
)

PROGRAMS = {
    "never closed": """
        async def main():
            await use(AsyncMongoClient(uri))
    """,
    "closed": """
        async def main():
            async with AsyncMongoClient(uri, minPoolSize=3) as client:
                await use(client)
    """,
    "with an open cursor": """
        async def main():
            client = AsyncMongoClient(uri)
            await client[name].c.insert_many([{} for _ in range(10)])
            await client[name].c.find(batch_size=2)
            cursor = await client[name].c.find(batch_size=2)
            await cursor.next()
    """,
    "with operations under way": """
        async def main():
            client = AsyncMongoClient(uri)
            await use(client)
            with anyio.move_on_after(0.02):
                async with anyio.create_task_group() as tasks:
                    for _ in range(10):
                        tasks.start_soon(client[name].c.find_one, {"$where": "sleep(100) || true"})
    """,
}
LAST_LINES = {"asyncio": "asyncio.run(main())", "trio": "trio.run(main)"}
WITH_UVLOOP = LAST_LINES | {"uvloop": "import uvloop; uvloop.run(main())"}


# All warnings, in the development mode of Python.
STRICT = ("-X", "dev", "-W", "error", "-W", "always::ResourceWarning")


def words(stderr: str) -> list[str]:
    """What was said, apart from what Python adds to a warning."""
    added = ("  warn(message, ", "ResourceWarning: Enable tracemalloc")
    return [line for line in stderr.splitlines() if not line.startswith(added)]


@pytest.mark.parametrize("backend", LAST_LINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_only_what_it_forgot(
    deployment: LocalServer, database_name: str, program: str, backend: str
) -> None:
    source = f"{PRELUDE}\n{textwrap.dedent(PROGRAMS[program])}\n{LAST_LINES[backend]}\n"
    finished = run_program(source, deployment.uri, database_name, mode=STRICT)
    assert (finished.stdout, finished.returncode) == ("", 0)
    said = words(finished.stderr)
    assert len(said) == (program != "closed")
    assert all("ResourceWarning: the client of 127.0.0.1:" in line for line in said)


DROPPED = """
import stat

def left():
    if trio.lowlevel.in_trio_run():
        tasks = trio.lowlevel.current_statistics().tasks_living
    else:
        tasks = len(asyncio.all_tasks())
    return tasks, sum(map(is_socket, range(3, 200)))

def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False

async def main():
    before = left()
    for where, limit in ((uri, 20_000), ("mongodb://127.0.0.1:1/", 100)):
        client = AsyncMongoClient(where, serverSelectionTimeoutMS=limit)
        try:
            await use(client)
        except Exception as error:
            print(type(error).__name__)
        assert left() > before
        del client
        with anyio.fail_after(20):
            while left() != before:
                await anyio.sleep(0.01)
        print("nothing is left")

gc.disable()
"""


@pytest.mark.parametrize("backend", WITH_UVLOOP)
def test_a_client_that_is_dropped_leaves_no_task_and_no_socket(
    deployment: LocalServer, database_name: str, backend: str
) -> None:
    finished = run_program(
        f"{PRELUDE}\n{DROPPED}\n{WITH_UVLOOP[backend]}\n", deployment.uri, database_name, mode=STRICT
    )
    left = ["nothing is left", "ServerSelectionTimeoutError", "nothing is left"]
    assert (finished.stdout.splitlines(), finished.returncode) == (left, 0)
    said = words(finished.stderr)
    assert len(said) == 2
    assert all("ResourceWarning: the client of 127.0.0.1:" in line for line in said)


# A module that is imported before motorlite is emptied after it. What an extension module still references is emptied,
# and not merely collected, when the interpreter ends.
EMPTIED = """
import ctypes, sys, types
kept = sys.modules["kept"] = types.ModuleType("kept")
{prelude}

async def main():
    async with AsyncMongoClient(uri) as client:
        collection = client[name].c
        await collection.insert_many([{{}} for _ in range(10)])
        kept.cursor = collection.find(batch_size=2)
        await kept.cursor.next()
        kept.session = client.start_session()
        await collection.find_one(session=kept.session)
        kept.stream = await collection.watch()

{last_line}
for module in ("kept", "motorlite._client.core", "motorlite._api.cursors.server_cursor"):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules[module]))
"""


@pytest.mark.parametrize("backend", WITH_UVLOOP)
def test_what_outlives_the_modules_says_nothing(replica_set: LocalServer, database_name: str, backend: str) -> None:
    source = EMPTIED.format(prelude=PRELUDE, last_line=WITH_UVLOOP[backend])
    finished = run_program(source, replica_set.uri, database_name, mode=STRICT)
    assert (finished.stderr, finished.returncode) == ("", 0)


FAILING = """
from motorlite.errors import PyMongoError

async def fails(operation):
    try:
        await operation()
    except PyMongoError as error:
        print(type(error).__name__)

async def main():
    async with AsyncMongoClient(uri, maxPoolSize=1) as client:
        things = client[name].c
        await use(client)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.garbage.clear()
        await fails(lambda: things.find_one({"$x": 1}))
        async with AsyncMongoClient(uri, socketTimeoutMS=50, retryReads=False, defaultMaxTimeMS=10_000) as impatient:
            await fails(lambda: impatient[name].c.find_one({"$where": "sleep(200) || true"}))
            await anyio.sleep(0.5)
            gc.collect()
            print([item for item in gc.garbage if isinstance(item, BaseException)])
        gc.set_debug(0)
        gc.garbage.clear()

gc.disable()
"""


@pytest.mark.parametrize("backend", WITH_UVLOOP)
def test_an_error_leaves_nothing_to_the_garbage_collector(
    deployment: LocalServer, database_name: str, backend: str
) -> None:
    finished = run_program(
        f"{PRELUDE}\n{FAILING}\n{WITH_UVLOOP[backend]}\n", deployment.uri, database_name, mode=STRICT
    )
    assert (finished.stdout.splitlines(), words(finished.stderr)) == (["OperationFailure", "NetworkTimeout", "[]"], [])
