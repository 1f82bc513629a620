"""Every public coroutine, cancelled at each of its await points on a client that has not connected yet.

With the cyclic garbage collector off. Afterwards nothing is in use on the client and nothing open on the server, the
client works, and nothing of the cancelled call is left in memory.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest
import trio

import motorlite
from motorlite import gridfs
from motorlite._execution.run import Attempt, Run
from motorlite._sessions.session import ServerSession, Session
from motorlite.testing.cancellation import Steps, cancel_at, count_await_points
from tests.support.cancellation import counted
from tests.support.clients import make_client, scripted_client
from tests.support.data_keys import data_key
from tests.support.kept_errors import garbage, without_collector
from tests.support.public_coroutines import CALLS, CURSORS, Subject, awaited, public_coroutines
from tests.support.public_names import public_classes
from tests.support.stored_everything import StoredEverything

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two chunks of a file at once, so that a cursor stays open."""
    monkeypatch.setattr("motorlite._gridfs.grid_out._READ_AHEAD", 8)


# --- the calls: first those on new objects, then those on objects that were used before ---


class World(Subject):
    """A client, its server, and what is made during a call."""

    def __init__(self, files: StoredEverything, client: Any) -> None:
        super().__init__(client, None, None)
        self.files = files
        files.documents("keys").append(data_key())
        # A cursor that outlives its call.
        self.kept: Any = None

    def other_client(self) -> Any:
        return make_client(self.files.deployment)


def on_open_file(call: Callable[[World], Any]) -> Callable[[World], Any]:
    async def run(world: World) -> None:
        world.grid_out = await world.bucket.open_download_stream(1)
        await call(world)

    return run


def on_transaction(call: Callable[[Any], Any]) -> Callable[[World], Any]:
    async def run(world: World) -> None:
        async with world.client.start_session() as session:
            session.start_transaction()
            await world.coll.insert_one({}, session=session)
            await call(session)

    return run


def on_open_cursor(make: Callable[[World], Any], call: Callable[[Any], Any]) -> Callable[[World], Any]:
    async def run(world: World) -> None:
        opened = make(world)
        await opened.next()
        await call(opened)

    return run


def on_new_cursor(make: Callable[[World], Any], call: Callable[[Any], Any]) -> Callable[[World], Any]:
    return lambda world: call(make(world))


async def iterated(it: Any) -> None:
    async with it:
        async for _ in it:
            pass


async def kept_by_the_application(world: World) -> None:
    world.kept = world.coll.find()
    await world.kept.to_list()


async def left_open(it: Any) -> None:
    async with it:
        pass


def with_other_client(call: Callable[[Any], Any]) -> Callable[[World], Any]:
    async def run(world: World) -> None:
        async with world.other_client() as other:
            await other.admin.command("ping")
            await call(other)

    return run


async def client_block(world: World) -> None:
    async with world.other_client() as other:
        await other.admin.command("ping")


async def bound(world: World) -> None:
    async with world.client.start_session() as session, session.bind():
        session.start_transaction()
        await world.coll.insert_one({})


async def upload_block(world: World) -> None:
    async with world.bucket.open_upload_stream("g", chunk_size_bytes=4) as stream:
        await stream.write(b"12345678")


async def aborted(world: World) -> None:
    stream = world.bucket.open_upload_stream("g", chunk_size_bytes=4)
    await stream.write(b"12345678")
    await stream.abort()


async def half_read_file(world: World) -> None:
    async with world.grid_out:
        await world.grid_out.readline()


async def half_read_and_closed(world: World) -> None:
    await world.grid_out.readline()
    await world.grid_out.close()


async def set_afterwards(world: World) -> None:
    stream = world.bucket.open_upload_stream("g")
    await stream.close()
    await stream.set("color", "red")


async def with_transaction(world: World) -> None:
    async def callback(session: Any) -> None:
        await world.coll.find_one({}, session=session)

    async with world.client.start_session() as session:
        await session.with_transaction(callback)


# By the method that it is about; all else is in CALLS. A second word tells several calls of one method apart.
SPECIAL: Final[dict[str, Callable[[World], Any]]] = {
    "AsyncMongoClient.close": with_other_client(lambda client: client.close()),
    "AsyncMongoClient.aclose": with_other_client(lambda client: client.aclose()),
    "AsyncMongoClient.__aexit__": client_block,
    "AsyncMongoClient.aconnect with a time limit": lambda world: world.client.aconnect(timeoutMS=1000),
    "AsyncClientSession.abort_transaction": on_transaction(lambda session: session.abort_transaction()),
    "AsyncClientSession.commit_transaction": on_transaction(lambda session: session.commit_transaction()),
    "AsyncClientSession.end_session": on_transaction(lambda session: session.end_session()),
    "AsyncClientSession.__aexit__": on_transaction(lambda _: anyio.lowlevel.checkpoint()),
    "AsyncClientSession.with_transaction": with_transaction,
    "AsyncCursor.to_list of a cursor that is kept": kept_by_the_application,
    "BoundSession.__aexit__": bound,
    "AsyncGridFSBucket.upload_from_stream_with_id": lambda world: world.bucket.upload_from_stream_with_id(
        9, "g", b"12"
    ),
    "AsyncGridIn.__aexit__": upload_block,
    "AsyncGridIn.abort": aborted,
    "AsyncGridIn.set after the end": set_afterwards,
    "AsyncGridOut.open": lambda world: gridfs.AsyncGridOut(world.db.fs, 1).open(),
    "AsyncGridOut.close": on_open_file(half_read_and_closed),
    "AsyncGridOut.seek": lambda world: gridfs.AsyncGridOut(world.db.fs, 1).seek(-1, os.SEEK_END),
    "AsyncGridOut.__aexit__": on_open_file(half_read_file),
    **{
        name: on_open_file(call)
        for name, call in CALLS.items()
        if name.startswith("AsyncGridOut.") and not name.endswith(".open")
    },
}
# Besides those of unopened cursors: the same and more, once there is a cursor on the server.
ON_OPEN_CURSORS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "__anext__": lambda it: it.__anext__(),
    "__await__": awaited,
    "__aexit__": iterated,
    "__aexit__ half read": left_open,
    "aclose": lambda it: it.aclose(),
    "close": lambda it: it.close(),
    "distinct": lambda it: it.distinct("n"),
    "explain": lambda it: it.explain(),
    "next": lambda it: it.next(),
    "rewind": lambda it: it.rewind(),
    "to_list": lambda it: it.to_list(),
    "try_next": lambda it: it.try_next(),
}
KINDS: Final[dict[str, Callable[[World], Any]]] = {
    **CURSORS,
    # Several batches.
    "AsyncRawBatchCursor": lambda world: world.coll.find_raw_batches(),
    "AsyncGridOutCursor": lambda world: world.bucket.find({}, batch_size=2),
}


def _on_cursors() -> Iterator[tuple[str, Callable[[World], Any]]]:
    for kind, make in KINDS.items():
        there = dir(type(make(World(StoredEverything(), motorlite.AsyncMongoClient()))))
        for name, call in ON_OPEN_CURSORS.items():
            if name.partition(" ")[0] in there:
                yield f"{kind}.{name}, opened", on_open_cursor(make, call)
        yield f"{kind}.__await__", on_new_cursor(make, awaited)
        if "batches" in there:
            yield f"Batches.__anext__ of {kind}", on_open_cursor(make, lambda it: anext(it.batches()))


SCENARIOS: Final[dict[str, Callable[[World], Any]]] = {**CALLS, **SPECIAL, **dict(_on_cursors())}


# --- what is left after a call ---

# Connections besides those of the pool.
MONITORS: Final = 1
# A client that ends leaves a cycle: asyncio.TaskGroup makes one when it ends with an error.
OF_A_CLIENT: Final = ("AsyncMongoClient.close", "AsyncMongoClient.aclose", "AsyncMongoClient.__aexit__")


def at_rest(world: World) -> list[str]:
    """What is in use, on the client and on the server."""
    wrong = []
    for server in world.client.stats().servers.values():
        busy = {name: getattr(server, name) for name in ("in_use", "connecting", "pending", "waiting", "operations")}
        wrong += [f"{name}: {number}" for name, number in busy.items() if number]
    files, connections = world.files, len(world.files.server.open_connections)
    idle = sum(server.idle for server in world.client.stats().servers.values())
    if connections > idle + MONITORS:
        wrong.append(f"{connections} connections, and {idle} idle ones")
    if files.cursors:
        wrong.append(f"open cursors: {list(files.cursors)}")
    if files.transactions:
        wrong.append(f"open transactions: {files.transactions}")
    free = world.client._core.sessions._free
    if len({bytes(session.lsid["id"]) for session in free}) != len(free):
        wrong.append("a session was given back twice")
    return wrong


def living() -> list[Any]:
    """What lives as long as a call."""
    return [one for one in gc.get_objects() if isinstance(one, (Run, Attempt, Session, ServerSession))]


def kept(name: str, world: World, before: list[Any]) -> list[str]:
    """What should be gone without the collector. Earlier tests of this process may have left what lived `before`."""
    if name in OF_A_CLIENT:
        return []
    known = {*map(id, world.client._core.sessions._free), *map(id, before)}
    left = [type(one).__name__ for one in living() if id(one) not in known]
    return [*left, *map(repr, garbage())]


def tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


async def use(world: World) -> None:
    assert await world.coll.find_one() is not None
    await anyio.sleep(60)


@asynccontextmanager
async def new_world() -> AsyncIterator[World]:
    files = StoredEverything()
    async with scripted_client(files.deployment) as client:
        yield World(files, client)


async def measured(name: str) -> tuple[int, int]:
    """The await points of a call; and the number of tasks afterwards, when the client was used once more."""
    async with new_world() as world:
        points = await count_await_points(lambda: SCENARIOS[name](world))
        await anyio.sleep(60)
        await use(world)
        return points, tasks()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("anyio_backend", "late"),
    # Only asyncio has a moment between the result of what a task waits for and its next step.
    [("asyncio", False), ("asyncio", True), ("trio", False)],
    ids=["asyncio-at once", "asyncio-late", "trio-at once"],
    indirect=["anyio_backend"],
)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_cancelled_at_each_await_point(name: str, late: bool, anyio_backend_name: str) -> None:
    points, tasks_then = await measured(name)
    counted[f"{name}, {anyio_backend_name}, {'late' if late else 'at once'}"] = points
    wrong: list[str] = []
    for point in range(1, points + 1):
        before = living()
        async with new_world() as world:
            with without_collector():
                assert await cancel_at(lambda: SCENARIOS[name](world), point, late=late)
                await anyio.sleep(60)
                found = at_rest(world)
                await use(world)
                found += [*at_rest(world), *kept(name, world, before)]
                if tasks() > tasks_then:
                    found.append(f"{tasks() - tasks_then} tasks too many")
            wrong += [f"point {point} of {points}: {text}" for text in found]
    assert not wrong, "\n".join(wrong)


# --- the table is complete ---

# Coroutines that have nothing to wait for, with the reason.
NEVER_WAIT: Final = {
    **{f"{kind}.__aenter__": "sends nothing" for kind in CURSORS if kind != "AsyncChangeStream"},
    "AsyncCursor.add_option": "sends nothing",
    "AsyncRawBatchCursor.add_option": "sends nothing",
    "AsyncClientEncryption.__aenter__": "sends nothing",
    "AsyncClientEncryption.__aexit__": "closes",
    "AsyncClientEncryption.close": "erases keys from memory",
    "AsyncClientSession.__aenter__": "sends nothing",
    "AsyncMongoClient.__aenter__": "begins discovery in the background",
    "BoundSession.__aenter__": "sends nothing",
    "TransactionContext.__aenter__": "sends nothing",
    "AsyncGridIn.__aenter__": "sends nothing",
    "AsyncGridOut.__aenter__": "sends nothing",
    "BestEffort.retry_after": "decides at once",
    "timeout.__aenter__": "sends nothing",
    "timeout.__aexit__": "sends nothing",
}


class Notes:
    """Notes which public coroutines wait, whatever calls them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited: set[str] = set()
        for kind in set(public_classes().values()):
            for owner in kind.__mro__:
                for name, member in list(vars(owner).items()):
                    if owner.__module__.startswith("motorlite") and _is_public(name):
                        self._watch(monkeypatch, owner, name, member)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, member: Any) -> None:
        function = member.fget if isinstance(member, property) else member
        if not inspect.iscoroutinefunction(function) or hasattr(function, "watched"):
            return

        @functools.wraps(function)
        async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            what = f"{type(self).__name__}.{name}"
            return await Steps(function(self, *args, **kwargs), lambda _point, _yielded: notes.waited.add(what))

        notes = self
        setattr(call, "watched", True)  # noqa: B010
        monkeypatch.setattr(owner, name, property(call) if isinstance(member, property) else call)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__aenter__", "__aexit__", "__anext__")


async def test_every_public_coroutine_that_waits_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes(monkeypatch)
    for call in SCENARIOS.values():
        async with new_world() as world:
            await call(world)
    assert caplog.messages == []
    assert sorted(public_coroutines() - notes.waited) == sorted(NEVER_WAIT)
