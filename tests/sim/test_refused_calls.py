"""Every public coroutine that is refused lets other tasks run before it raises: a caller may try again in a loop."""

from __future__ import annotations

import datetime
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import pytest
from bson.errors import InvalidDocument

import motorlite
from motorlite import InsertOne, gridfs
from motorlite.errors import (
    AdmissionError,
    CircuitBreakerOpenError,
    InvalidOperation,
    PoolFullError,
    PyMongoError,
    RateLimitError,
)
from motorlite.overload import CircuitBreaker, RateLimit, WaitQueue
from motorlite.testing.cancellation import Steps
from motorlite.testing.scripted import failure
from tests.support.clients import scripted_client
from tests.support.core import replica_set
from tests.support.public_coroutines import CALLS, CURSORS, SILENT_OF_CURSORS, Subject, awaited, public_coroutines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILE = {
    "_id": 1,
    "length": 8,
    "chunkSize": 4,
    "filename": "f",
    "uploadDate": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
}
# What no client refuses, with the reason.
NEVER_REFUSED: Final = {
    "AsyncClientEncryption.__aenter__": "sends nothing",
    "AsyncClientEncryption.__aexit__": "closes",
    "AsyncClientEncryption.close": "erases keys from memory, and may be called again",
    "AsyncClientSession.end_session": "frees what the session holds",
    "AsyncMongoClient.close": "may be called again",
    "AsyncMongoClient.aclose": "may be called again",
    "AsyncMongoClient.__aexit__": "closes",
    "AsyncClientSession.__aenter__": "sends nothing",
    "AsyncClientSession.__aexit__": "frees what the session holds",
    "TransactionContext.__aenter__": "sends nothing",
    "BoundSession.__aenter__": "sends nothing",
    "BoundSession.__aexit__": "frees what the session holds",
    "BestEffort.retry_after": "is a callback",
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
    exempt = NEVER_REFUSED.keys() | {f"{kind}.{name}" for kind in CURSORS for name in SILENT_OF_CURSORS}
    assert public_coroutines() == CALLS.keys() | (exempt & public_coroutines())
    assert (
        not exempt - public_coroutines() - {f"{kind}.{name}" for kind in CURSORS for name in ("rewind", "add_option")}
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


async def complaint(name: str, subject: Subject, expected: type[PyMongoError]) -> str | None:
    """What is wrong with a call of a client that refuses it; None if nothing is."""
    counted = Steps(CALLS[name](subject), lambda _point, _yielded: None)
    try:
        with anyio.fail_after(1000):
            await counted
    except PyMongoError as error:
        if not (any(isinstance(each, expected) for each in causes(error)) or name in ADMITTED):
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
            (InvalidOperation, lambda: awaited(closed)),
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
            counted = Steps(call(), lambda _point, _yielded: None)
            with pytest.raises(expected):
                await counted
            assert counted.suspensions
        transaction.is_busy = False
