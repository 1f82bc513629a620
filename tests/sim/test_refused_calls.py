"""Every public coroutine that is refused lets other tasks run before it raises: a caller may try again in a loop."""

from __future__ import annotations

import datetime
import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest
from bson.errors import InvalidDocument

import motorlite
from motorlite import InsertOne, change_stream, client_session, cursor, gridfs
from motorlite.errors import (
    AdmissionError,
    CircuitBreakerOpenError,
    InvalidOperation,
    PoolFullError,
    PyMongoError,
    RateLimitError,
)
from motorlite.overload import CircuitBreaker, RateLimit, WaitQueue
from motorlite.testing.scripted import failure
from tests.support.cancellation import _Counted
from tests.support.clients import scripted_client
from tests.support.core import replica_set
from tests.support.public_calls import SECTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILE = {
    "_id": 1,
    "length": 8,
    "chunkSize": 4,
    "filename": "f",
    "uploadDate": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
}
PIPELINE: Final[list[Any]] = [{"$addFields": {"x": 1}}]


class Subject:
    """A client, and what was made with it before it refuses."""

    def __init__(self, client: Client, session: Any, grid_out: Any) -> None:
        self.client = client
        self.db = client.db
        self.coll = client.db.coll
        # In a transaction.
        self.session = session
        self.bucket = gridfs.AsyncGridFSBucket(client.db)
        self.fs = gridfs.AsyncGridFS(client.db)
        self.grid_out = grid_out

    @property
    def grid_in(self) -> gridfs.AsyncGridIn:
        return self.bucket.open_upload_stream("f", chunk_size_bytes=4)

    @property
    def unopened(self) -> gridfs.AsyncGridOut:
        return gridfs.AsyncGridOut(self.coll, 1)

    async def with_transaction(self) -> None:
        async def callback(session: Any) -> None:
            await self.coll.find_one({}, session=session)

        async with self.client.start_session() as session:
            await session.with_transaction(callback, timeoutMS=100)

    async def transaction_block(self) -> None:
        async with self.client.start_session() as session, session.start_transaction():
            await self.coll.find_one({}, session=session)


def _documented() -> dict[str, Any]:
    """The calls that the page about retries lists; the first one of each method."""
    found: dict[str, Any] = {}
    for call in (call for calls in SECTIONS.values() for call in calls):
        found.setdefault(call.method, lambda subject, call=call: call.perform(subject.client))
    classes = ("AsyncCollection", "AsyncDatabase", "AsyncMongoClient")
    return {name: found[name] for name in public_coroutines() & found.keys() if name.partition(".")[0] in classes}


async def _property(value: Any) -> Any:
    return await value


CLIENT: Final[dict[str, Any]] = {
    "__aenter__": lambda s: s.client.__aenter__(),
    "aconnect": lambda s: s.client.aconnect(),
    "address": lambda s: _property(s.client.address),
    "arbiters": lambda s: _property(s.client.arbiters),
    "is_mongos": lambda s: _property(s.client.is_mongos),
    "is_primary": lambda s: _property(s.client.is_primary),
    "primary": lambda s: _property(s.client.primary),
    "secondaries": lambda s: _property(s.client.secondaries),
}
SESSION: Final[dict[str, Any]] = {
    "abort_transaction": lambda s: s.session.abort_transaction(timeoutMS=10),
    "commit_transaction": lambda s: s.session.commit_transaction(timeoutMS=10),
    "with_transaction": lambda s: s.with_transaction(),
}
CURSORS: Final[dict[str, Callable[[Subject], Any]]] = {
    "AsyncCursor": lambda s: s.coll.find(),
    "AsyncRawBatchCursor": lambda s: s.coll.find_raw_batches(),
    "AsyncCommandCursor": lambda s: s.coll.aggregate([]),
    "AsyncRawBatchCommandCursor": lambda s: s.coll.aggregate_raw_batches([]),
    "AsyncChangeStream": lambda s: s.coll.watch(PIPELINE),
    "AsyncGridOutCursor": lambda s: s.bucket.find({}),
}
# What cursors have in common, and what some of them have besides.
OF_CURSORS: Final[dict[str, Callable[[Any], Any]]] = {
    "__anext__": lambda c: c.__anext__(),
    "next": lambda c: c.next(),
    "to_list": lambda c: c.to_list(),
    "try_next": lambda c: c.try_next(),
    "distinct": lambda c: c.distinct("a"),
    "explain": lambda c: c.explain(),
}
BUCKET: Final[dict[str, Any]] = {
    "delete": lambda s: s.bucket.delete(1),
    "delete_by_name": lambda s: s.bucket.delete_by_name("f"),
    "download_to_stream": lambda s: s.bucket.download_to_stream(1, Sink()),
    "download_to_stream_by_name": lambda s: s.bucket.download_to_stream_by_name("f", Sink()),
    "drop": lambda s: s.bucket.drop(),
    "open_download_stream": lambda s: s.bucket.open_download_stream(1),
    "open_download_stream_by_name": lambda s: s.bucket.open_download_stream_by_name("f"),
    "rename": lambda s: s.bucket.rename(1, "g"),
    "rename_by_name": lambda s: s.bucket.rename_by_name("f", "g"),
    "upload_from_stream": lambda s: s.bucket.upload_from_stream("f", b"12345678"),
    "upload_from_stream_with_id": lambda s: s.bucket.upload_from_stream_with_id(1, "f", b"12345678"),
}
GRID_FS: Final[dict[str, Any]] = {
    "delete": lambda s: s.fs.delete(1),
    "exists": lambda s: s.fs.exists(1),
    "find_one": lambda s: s.fs.find_one(1),
    "get": lambda s: s.fs.get(1),
    "get_last_version": lambda s: s.fs.get_last_version("f"),
    "get_version": lambda s: s.fs.get_version("f"),
    "list": lambda s: s.fs.list(),
    "put": lambda s: s.fs.put(b"12345678"),
}


async def _set_and_close(stream: gridfs.AsyncGridIn) -> None:
    await stream.set("color", "red")
    await stream.close()


GRID_IN: Final[dict[str, Any]] = {
    "write": lambda s: s.grid_in.write(bytes(4004)),
    "writelines": lambda s: s.grid_in.writelines([bytes(4004)]),
    "close": lambda s: s.grid_in.close(),
    "set": lambda s: _set_and_close(s.grid_in),
}
GRID_OUT: Final[dict[str, Any]] = {
    "open": lambda s: s.unopened.open(),
    "__anext__": lambda s: s.grid_out.__anext__(),
    "read": lambda s: s.grid_out.read(),
    "readchunk": lambda s: s.grid_out.readchunk(),
    "readline": lambda s: s.grid_out.readline(),
    "readlines": lambda s: s.grid_out.readlines(),
    "to_list": lambda s: s.grid_out.to_list(),
}
CALLS: Final[dict[str, Any]] = {
    "AsyncDatabase.create_collection": lambda s: s.db.create_collection("a"),
    **{f"AsyncMongoClient.{name}": call for name, call in CLIENT.items()},
    **{f"AsyncClientSession.{name}": call for name, call in SESSION.items()},
    **{f"AsyncGridFSBucket.{name}": call for name, call in BUCKET.items()},
    **{f"AsyncGridFS.{name}": call for name, call in GRID_FS.items()},
    **{f"AsyncGridIn.{name}": call for name, call in GRID_IN.items()},
    **{f"AsyncGridOut.{name}": call for name, call in GRID_OUT.items()},
    "AsyncChangeStream.__aenter__": lambda s: s.coll.watch(PIPELINE).__aenter__(),
    "TransactionContext.__aexit__": lambda s: s.transaction_block(),
}
# What no client refuses, with the reason.
NEVER_REFUSED: Final = {
    "AsyncClientSession.end_session": "frees what the session holds",
    "AsyncMongoClient.close": "may be called again",
    "AsyncMongoClient.aclose": "may be called again",
    "AsyncMongoClient.__aexit__": "closes",
    "AsyncClientSession.__aenter__": "sends nothing",
    "AsyncClientSession.__aexit__": "frees what the session holds",
    "TransactionContext.__aenter__": "sends nothing",
    "BoundSession.__aenter__": "sends nothing",
    "BoundSession.__aexit__": "frees what the session holds",
    "timeout.__aenter__": "sends nothing",
    "timeout.__aexit__": "sends nothing",
    "AsyncGridIn.__aenter__": "sends nothing",
    "AsyncGridIn.__aexit__": "closes or aborts",
    "AsyncGridIn.abort": "frees what the upload stored",
    "AsyncGridOut.__aenter__": "sends nothing",
    "AsyncGridOut.__aexit__": "sends nothing",
    "AsyncGridOut.close": "sends nothing",
    "AsyncGridOut.seek": "sends nothing",
    "Batches.__anext__": "is the iterator behind raw batches",
}
# Sends nothing, or frees what the server holds.
OF_CURSORS_NEVER_REFUSED: Final = {"__aenter__", "__aexit__", "close", "aclose", "rewind", "add_option"}


def _calls_of_cursor(kind: str, make: Callable[[Subject], Any]) -> dict[str, Any]:
    def call(method: Callable[[Any], Any]) -> Any:
        return lambda subject: method(make(subject))

    there = {name.partition(".")[2] for name in public_coroutines() if name.startswith(f"{kind}.")}
    return {f"{kind}.{name}": call(OF_CURSORS[name]) for name in there - OF_CURSORS_NEVER_REFUSED}


class Sink:
    def write(self, data: bytes) -> int:
        return len(data)


def public_coroutines() -> set[str]:
    """The names of all coroutine functions of public classes, and of properties that return coroutines."""
    modules = (motorlite, gridfs, client_session, cursor, change_stream)
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__.startswith("motorlite")
    }
    found = set()
    for kind in kinds:
        for name in dir(kind):
            if name.startswith("_") and name not in ("__aenter__", "__aexit__", "__anext__"):
                continue
            member = inspect.getattr_static(kind, name)
            function = member.fget if isinstance(member, property) else member
            if inspect.iscoroutinefunction(function):
                found.add(f"{kind.__name__}.{name}")
    return found


CALLS.update({name: call for name, call in _documented().items() if name not in CALLS})
for _kind, _make in CURSORS.items():
    CALLS.update({name: call for name, call in _calls_of_cursor(_kind, _make).items() if name not in CALLS})

# These work with what the client knows: no server is asked.
KNOWN: Final = {
    f"AsyncMongoClient.{name}"
    for name in ("__aenter__", "aconnect", "address", "arbiters", "is_mongos", "is_primary", "primary", "secondaries")
}
# Parts of an admitted operation, and housekeeping.
ADMITTED: Final = {"AsyncClientSession.abort_transaction", "AsyncClientSession.commit_transaction"}
# A client that is closed cannot abort; the server does it.
IGNORED: Final = {"AsyncMongoClient.arbiters", "AsyncMongoClient.is_mongos"}
REFUSALS: Final[dict[str, tuple[type[PyMongoError], dict[str, Any]]]] = {
    "rate limit": (RateLimitError, {"rate_limit": RateLimit(rate=0.001, burst=20)}),
    "rate limit that waits": (
        RateLimitError,
        {"rate_limit": RateLimit(rate=0.001, burst=20, strategy="queue")},
    ),
    "breaker": (CircuitBreakerOpenError, {"circuit_breaker": CircuitBreaker(min_operations=5, open_for=3600)}),
    "full pool": (PoolFullError, {"wait_queue": WaitQueue("reject"), "maxPoolSize": 1}),
    "closed": (InvalidOperation, {}),
}


def documents(command: dict[str, Any]) -> dict[str, Any]:
    found = [FILE] if command["find"] == "fs.files" else []
    return {"cursor": {"id": 0, "ns": f"db.{command['find']}", "firstBatch": found}}


@asynccontextmanager
async def refusing(refusal: str) -> AsyncIterator[Subject]:
    """A client that refuses whatever it may refuse."""
    _, options = REFUSALS[refusal]
    deployment = replica_set(wire_version=25)
    server = deployment["a:1"]
    server.on("find", documents)
    server.on("insert", {"n": 1})
    async with scripted_client(deployment, **options) as client:
        session = client.start_session()
        session.start_transaction()
        await client.db.coll.insert_one({}, session=session)
        subject = Subject(client, session, await gridfs.AsyncGridFSBucket(client.db).open_download_stream(1))
        held = None
        (pool,) = [each.pool for each in client._core.topology.servers]
        if refusal == "breaker":
            server.on("ping", failure(462, "SystemOverloadedError"))
        while True:
            if refusal == "full pool":
                held = pool.check_out_now()
                assert held is not None
                break
            if refusal == "closed":
                await client.close()
                break
            try:
                await client.db.command("ping")
            except AdmissionError:
                break
            except PyMongoError:
                continue
        yield subject
        if held is not None:
            pool.check_in(held)


def test_every_public_coroutine_is_tried() -> None:
    exempt = NEVER_REFUSED.keys() | {f"{kind}.{name}" for kind in CURSORS for name in OF_CURSORS_NEVER_REFUSED}
    assert public_coroutines() == CALLS.keys() | (exempt & public_coroutines())
    assert (
        not exempt - public_coroutines() - {f"{kind}.{name}" for kind in CURSORS for name in ("rewind", "add_option")}
    )


async def complaint(name: str, subject: Subject, expected: type[PyMongoError]) -> str | None:
    """What is wrong with a call of a client that refuses it; None if nothing is."""
    counted = _Counted(CALLS[name](subject), 0, None)
    try:
        with anyio.fail_after(1000):
            await counted
    except PyMongoError as error:
        if not (isinstance(error, expected) or isinstance(error.__cause__, expected) or name in ADMITTED):
            return f"{name} raised {error!r}"
        return None if counted.suspensions else f"{name} let no other task run"
    is_admission = issubclass(expected, AdmissionError)
    return None if name in (KNOWN | ADMITTED if is_admission else IGNORED) else f"{name} was not refused"


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_they_let_others_run(refusal: str) -> None:
    expected, _ = REFUSALS[refusal]
    async with refusing(refusal) as subject:
        complaints = [await complaint(name, subject, expected) for name in sorted(CALLS)]
    assert not [text for text in complaints if text is not None]


@pytest.mark.parametrize("has_fallback", [False, True])
async def test_a_loop_of_refused_calls_does_not_stop_the_others(has_fallback: bool) -> None:
    """Nor does one whose fallback answers: it never waits for anything else."""
    async with refusing("full pool") as subject:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            for _ in range(100):
                if has_fallback:
                    with motorlite.call_options(wait_queue=WaitQueue("degrade"), fallback=lambda _: {"_id": 5}):
                        assert await subject.coll.find_one() == {"_id": 5}
                else:
                    with pytest.raises(AdmissionError):
                        await subject.coll.find_one()
            group.cancel_scope.cancel()
        assert turns >= 90


async def test_a_cancelled_caller_gets_its_cancellation_and_not_the_refusal() -> None:
    async with refusing("full pool") as subject:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await subject.coll.find_one()
        assert scope.cancelled_caught


async def test_calls_that_the_client_itself_refuses_let_others_run() -> None:
    async def not_reached(_: Any) -> None:
        raise AssertionError

    async with scripted_client(replica_set(wire_version=25)) as client, client.start_session() as session:
        coll = client.db.coll
        closed, ended = coll.find(), client.start_session()
        await closed.close()
        await ended.end_session()
        session.start_transaction()
        await coll.insert_one({}, session=session)
        transaction = session._state.transaction
        assert transaction is not None
        transaction.is_busy = True  # another operation of it is running
        unfit = {"a": object()}
        calls: list[tuple[type[Exception], Callable[[], Any]]] = [
            (InvalidOperation, lambda: _property(closed)),
            (InvalidOperation, lambda: coll.find_one({}, session=ended)),
            (InvalidOperation, lambda: coll.find({}, session=ended).to_list()),
            (InvalidOperation, ended.commit_transaction),
            (InvalidOperation, ended.abort_transaction),
            (InvalidOperation, lambda: ended.with_transaction(not_reached)),
            (InvalidOperation, lambda: coll.insert_one({}, session=session)),
            (InvalidDocument, lambda: coll.insert_one(unfit)),
            (InvalidDocument, lambda: coll.find_one(unfit)),
            (InvalidDocument, lambda: coll.insert_many([unfit])),
            (InvalidDocument, lambda: client.bulk_write([InsertOne(unfit, namespace="db.coll")])),
        ]
        for expected, call in calls:
            counted = _Counted(call(), 0, None)
            with pytest.raises(expected):
                await counted
            assert counted.suspensions
        transaction.is_busy = False
