"""Automatic encryption without a server: cancelled at each await, limited in time, and silent about secrets."""

from __future__ import annotations

import logging
import traceback
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidDocument

from motorlite import AsyncMongoClient, InsertOne, call_options, timeout
from motorlite._encryption.automatic import AutomaticEncryption
from motorlite._encryption.mongocryptd import Mongocryptd
from motorlite.encryption import Algorithm
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import (
    BulkWriteError,
    ClientBulkWriteException,
    DuplicateKeyError,
    EncryptionError,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from motorlite.monitoring import OperationFailedEvent
from motorlite.overload import ConcurrencyLimit, WaitQueue
from motorlite.retry import RetryAction
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Reply
from tests.support.clients import make_client
from tests.support.data_keys import KEYS, MASTER_KEY, PROVIDERS, SECRET, data_key, encrypted_secret, key_id
from tests.support.events import Recorder
from tests.support.mongocryptd import ADDRESS, Marker, mark
from tests.support.stored_everything import StoredEverything
from tests.support.strategies import Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, FrameStream, Runtime
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RULE = {
    "keyId": [key_id()],
    "bsonType": "string",
    "algorithm": Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic.value,
}
SCHEMAS = {"db.people": {"bsonType": "object", "properties": {"ssn": {"encrypt": RULE}}}}
COUNT = 7


@dataclass
class World:
    """A client that encrypts `ssn` of ``db.people``, and the servers that it speaks with."""

    files: StoredEverything
    marker: Marker
    client: Client

    @property
    def clients(self) -> list[Client]:
        """The application's, and those behind it."""
        encryption: Any = self.client._core._encryption
        marking = encryption._mongocryptd
        behind = [encryption._inner, None if marking is None else marking._client]
        return [self.client, *(each for each in behind if each is not None)]

    def at_rest(self) -> list[str]:
        """What is in use, on the clients and on the servers."""
        wrong, idle = [], 0
        for number, client in enumerate(self.clients):
            for server in client.stats().servers.values():
                names = ("in_use", "connecting", "pending", "waiting", "operations")
                busy = {name: getattr(server, name) for name in names}
                wrong += [f"client {number}, {name}: {count}" for name, count in busy.items() if count]
                idle += server.idle
        open_now = len(self.files.server.open_connections) + len(self.marker.server.open_connections)
        if open_now > idle + len(self.clients):
            wrong.append(
                f"{open_now} connections, {idle} idle ones and a monitor for each of {len(self.clients)} clients"
            )
        encryption: Any = self.client._core._encryption
        if encryption._library._running:
            wrong.append("a context of the library is in use")
        return wrong + [f"open cursors: {list(self.files.cursors)}"] * bool(self.files.cursors)


def connector(files: StoredEverything, marker: Marker) -> Any:
    def make(runtime: Runtime, _tls: Any, _proxy: Any) -> Connector:
        of_files, of_marker = (each.deployment.connector(runtime, None) for each in (files, marker))

        def connect(address: Address, framer: Framer, until: float) -> Awaitable[FrameStream]:
            return (of_marker if address[0] == "mongocryptd" else of_files)(address, framer, until)

        return connect

    return make


@asynccontextmanager
async def encrypting(*, only_decrypts: bool = False, spawns: bool = False, **options: Any) -> AsyncIterator[World]:
    files, marker = StoredEverything(), Marker()
    files.collections["keys"] = [data_key()]
    files.collections["people"] = [{"_id": number, "ssn": encrypted_secret()} for number in range(COUNT)]
    given = AutoEncryptionOpts(
        PROVIDERS,
        KEYS,
        schema_map=SCHEMAS,
        mongocryptd_uri=f"mongodb://{ADDRESS}",
        mongocryptd_bypass_spawn=not spawns,
        bypass_auto_encryption=only_decrypts,
    )
    world = {"connector": connector(files, marker)}
    try:
        async with make_client(files.deployment, auto_encryption_opts=given, world=world, **options) as client:
            yield World(files, marker, client)
    finally:
        await files.deployment.close()
        await marker.deployment.close()


async def decrypts(world: World) -> None:
    found = [each["ssn"] async for each in world.client.db.people.find(batch_size=3)]
    assert found[:COUNT] == [SECRET] * COUNT


async def encrypts(world: World) -> None:
    await world.client.db.people.insert_one({"_id": 100, "ssn": SECRET})
    assert isinstance(world.files.documents("people")[-1]["ssn"], Binary)


@pytest.mark.parametrize("call", [decrypts, encrypts])
async def test_cancelled_at_each_await_point(call: Callable[[World], Any], caplog: pytest.LogCaptureFixture) -> None:
    async with encrypting() as world:
        points = await count_await_points(lambda: call(world))
    # The look-up of the key, the command itself, and getMores or marking.
    assert points >= 4
    for point in range(1, points + 1):
        async with encrypting() as world:
            assert await cancel_at(lambda: call(world), point)
            await anyio.sleep(60)
            assert world.at_rest() == [], f"point {point} of {points}"
            world.files.collections["people"] = world.files.documents("people")[:COUNT]
            await decrypts(world)
            await encrypts(world)
            await anyio.sleep(60)
            assert world.at_rest() == [], f"after point {point} of {points}"
    assert caplog.messages == []


async def test_a_cancelled_close_leaves_nothing_open() -> None:
    for point in count(1):
        async with encrypting() as world:
            await encrypts(world)
            await decrypts(world)
            is_cancelled = await cancel_at(world.client.close, point)
            await anyio.sleep(60)
            encryption: Any = world.client._core._encryption
            assert len(world.clients) == 3
            assert (encryption._library._is_closed, [each._core._is_closed for each in world.clients]) == (
                True,
                [True] * 3,
            ), f"point {point}"
            assert not world.files.server.open_connections
            assert not world.marker.server.open_connections
        if not is_cancelled:
            break
    assert point > 2


async def test_a_second_close_leaves_the_keys_to_operations_in_flight() -> None:
    async with encrypting() as world:
        await decrypts(world)
        world.files.delays["find people"] = 1
        found: list[Any] = []

        async def read() -> None:
            found.append(await world.client.db.people.find_one({}))

        async with anyio.create_task_group() as group:
            for work in (read, world.client.close, world.client.close):
                group.start_soon(work)
                await anyio.sleep(0.2)
        assert [each["ssn"] for each in found] == [SECRET]
        encryption: Any = world.client._core._encryption
        assert encryption._library._is_closed


async def test_closing_an_unused_client_erases_its_keys() -> None:
    options = AutoEncryptionOpts(PROVIDERS, KEYS, bypass_auto_encryption=True)
    client: AsyncMongoClient[Any] = AsyncMongoClient(auto_encryption_opts=options)
    await client.close()
    encryption: Any = client._core._encryption
    assert encryption._library._is_closed


async def test_what_a_transaction_learns() -> None:
    async with encrypting() as world, world.client.start_session() as session:
        world.files.server.on("insert", {"n": 1, "recoveryToken": {"shard": 1}})
        await session.start_transaction()
        await world.client.db.people.insert_one({"ssn": SECRET}, session=session)
        token = session._state.started_transaction().recovery_token
        assert token is not None
        assert {**token} == {"shard": 1}
        await session.abort_transaction()


async def slow_keys(world: World) -> None:
    world.files.delays["find keys"] = 30
    await world.client.db.people.find_one({})


def slowly(seconds: float, command: dict[str, Any]) -> Reply:
    """Mark a command after so many seconds."""
    return Reply(mark(command), seconds)


async def slow_marks(world: World) -> None:
    world.marker.server.on("insert", partial(slowly, 30))
    await world.client.db.people.insert_one({"_id": 100, "ssn": SECRET})


@pytest.mark.parametrize("call", [slow_keys, slow_marks])
async def test_the_deadline_covers_all_that_is_needed(call: Callable[[World], Any]) -> None:
    async with encrypting() as world:
        started = anyio.current_time()
        with pytest.raises(EncryptionError) as caught:
            async with timeout(2):
                await call(world)
        assert caught.value.timeout
        assert anyio.current_time() - started == pytest.approx(2, abs=0.1)
        assert len(world.files.documents("people")) == COUNT


@pytest.mark.parametrize("call", [slow_keys, slow_marks])
@pytest.mark.parametrize("grace", [0, 5])
async def test_all_that_is_needed_shares_the_time_of_a_close(call: Callable[[World], Any], grace: float) -> None:
    async with encrypting() as world:
        await world.client.db.people.find_one({"_id": -1})  # connects
        failures: list[Exception] = []

        async def fail() -> None:
            try:
                await call(world)
            except PyMongoError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await anyio.sleep(1)
            started = anyio.current_time()
            await world.client.close(grace)
            assert anyio.current_time() - started == pytest.approx(grace, abs=0.1)
        assert anyio.current_time() - started == pytest.approx(grace, abs=0.1)
        (failure,) = failures
        assert isinstance(failure, EncryptionError)


@pytest.mark.parametrize("spawns", [False, True])
async def test_what_mongocryptd_did_not_answer_was_not_executed(
    monkeypatch: pytest.MonkeyPatch, *, spawns: bool
) -> None:
    monkeypatch.setattr(Mongocryptd, "_start", lambda _self: anyio.lowlevel.checkpoint())
    async with encrypting(spawns=spawns) as world:
        world.marker.server.on("insert", Close())
        world.marker.server.on("find", Close())
        for call in (lambda: world.client.db.people.insert_one({"ssn": SECRET}), world.client.db.people.find_one):
            async with timeout(1):
                with pytest.raises(EncryptionError) as caught:
                    await call()
            assert not caught.value.may_have_been_executed
            assert not caught.value.reached_server


@pytest.mark.parametrize("step", ["encrypt", "decrypt"])
async def test_slow_encryption_does_not_lower_the_concurrency_limit_of_the_server(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A slow mongocryptd, or look-ups of keys."""
    waits: list[float] = []
    run = getattr(AutomaticEncryption, step)

    async def slow(*arguments: Any) -> bytes:
        await anyio.sleep(waits[-1])
        encoded: bytes = await run(*arguments)
        return encoded

    monkeypatch.setattr(AutomaticEncryption, step, slow)
    async with encrypting(concurrency_limit=ConcurrencyLimit(initial=20)) as world:

        async def find(times: int) -> None:
            for _ in range(times):
                await world.client.db.people.find_one({"_id": 1})

        for seconds in (0, 1):
            waits.append(seconds)
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(find, 50)
            (server,) = world.client.stats().servers.values()
            assert server.concurrency_limit == 20


async def test_no_option_of_a_block_reaches_what_is_needed() -> None:
    """The client of mongocryptd has no wait queue: it would refuse the one, and warn of the other."""
    async with encrypting(wait_queue=WaitQueue("queue", ordering="priority")) as world:
        with call_options(wait_queue="reject", priority=7):
            await encrypts(world)
            await decrypts(world)


def shown(value: Any) -> list[str]:
    """How a secret may be written."""
    if isinstance(value, bytes):
        return [repr(value)[2:-1][:60], value.hex(), Binary(value).hex()]
    return [value]


async def test_secrets_are_in_no_event_log_message_error_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    recorder, texts = Recorder(), []
    async with encrypting(event_listeners=[recorder]) as world:
        await encrypts(world)
        await decrypts(world)
        encryption: Any = world.client._core._encryption
        parts = [encryption, encryption._library, encryption._services, encryption._kms, world.client.options]
        texts += [repr(each) for each in [*parts, *world.clients]]
        del world.files.documents("keys")[:]
        encryption._library.close()  # forgets the key
    async with encrypting(event_listeners=[recorder]) as world:
        del world.files.documents("keys")[:]
        for call in (encrypts, decrypts):
            with pytest.raises(EncryptionError) as caught:
                await call(world)
            error: BaseException | None = caught.value
            while error is not None:
                texts += ["".join(traceback.format_exception_only(error)), repr(error), repr(vars(error))]
                error = error.__cause__
        # A server error whose reply has an encrypted value.
        world.files.collections["keys"] = [data_key()]
        world.files.server.on("insert", {"ok": 0, "code": 121, "errmsg": "no", "errInfo": {"ssn": encrypted_secret()}})
        with pytest.raises(Exception, match="no") as refused:
            await world.client.db.people.insert_one({"ssn": SECRET})
        texts += [str(refused.value), repr(vars(refused.value))]
    texts += [repr(event.__dict__ if hasattr(event, "__dict__") else event) for event in recorder.events]
    text = "\n".join([*texts, *(record.getMessage() + repr(vars(record)) for record in caplog.records)])
    assert "insert" in text
    for secret in (SECRET, MASTER_KEY):
        for form in shown(secret):
            assert form not in text


def duplicate(index: int = 0) -> dict[str, Any]:
    """A write error with an encrypted value."""
    return {"index": index, "code": 11000, "errmsg": "E11000", "keyValue": {"ssn": encrypted_secret()}}


def found(**fields: Any) -> dict[str, Any]:
    """A reply to findAndModify with an encrypted value."""
    return {"value": {"_id": 1, "ssn": encrypted_secret()}, "lastErrorObject": {"n": 1}, **fields}


async def inserts_one(client: Client) -> None:
    await client.db.people.insert_one({"_id": 1})


async def inserts_many(client: Client) -> None:
    await client.db.people.insert_many([{"_id": 1}])


async def finds_and_updates(client: Client) -> None:
    await client.db.people.find_one_and_update({}, {"$set": {"a": 1}})


async def commands(client: Client) -> None:
    await client.db.command("findAndModify", "people", update={"a": 1})


async def finds_one(client: Client) -> None:
    await client.db.people.find_one()


CONCERN = {"code": 64, "errmsg": "waited", "errInfo": {"wtimeout": True, "ssn": encrypted_secret()}}
FAILING = [
    ("insert", {"n": 0, "writeErrors": [duplicate()]}, inserts_one, DuplicateKeyError),
    ("insert", {"n": 1, "writeConcernError": CONCERN}, inserts_one, WriteConcernError),
    ("insert", {"n": 0, "writeErrors": [duplicate()], "writeConcernError": CONCERN}, inserts_many, BulkWriteError),
    ("findAndModify", found(writeConcernError=CONCERN), finds_and_updates, WriteConcernError),
]


@pytest.mark.parametrize(("name", "reply", "call", "kind"), FAILING)
async def test_errors_of_executed_writes_stay_encrypted(
    name: str, reply: Any, call: Callable[[Client], Any], kind: type[OperationFailure]
) -> None:
    recorder = Recorder()
    async with encrypting(event_listeners=[recorder]) as world:
        if name == "insert":
            del world.files.documents("keys")[:]  # errors do not need them
        world.files.server.on(name, reply)
        with pytest.raises(kind) as caught:
            await call(world.client)
    failed = [event.failure for event in recorder.events if isinstance(event, OperationFailedEvent)]
    assert repr(encrypted_secret()) in repr(caught.value.details)
    assert SECRET not in "".join(map(str, [caught.value, caught.value.details, *failed]))
    assert type(caught.value.details) is dict


async def test_results_of_a_client_bulk_write_stay_encrypted() -> None:
    async with encrypting(only_decrypts=True) as world:
        results = [{**duplicate(), "ok": 0, "idx": index, "n": 0} for index in range(2)]
        cursor = {"id": 7, "ns": "admin.$cmd.bulkWrite"}
        world.files.server.on("bulkWrite", {"cursor": {**cursor, "firstBatch": results[:1]}, "nErrors": 2})
        world.files.server.on("getMore", {"cursor": {**cursor, "id": 0, "nextBatch": results[1:]}})
        writes = [InsertOne({"_id": number}, namespace="db.people") for number in range(2)]
        with pytest.raises(ClientBulkWriteException) as caught:
            await world.client.bulk_write(writes, ordered=False)
    assert [each["keyValue"]["ssn"] for each in caught.value.write_errors] == [encrypted_secret()] * 2
    assert SECRET not in str(caught.value)


async def test_a_command_returns_its_reply_decrypted_but_for_its_errors() -> None:
    # After this write concern error, the sender looks for a retry.
    errors = {"writeConcernError": {**CONCERN, "code": 91}, "errorLabels": ["RetryableWriteError"]}
    for answer in (found(writeConcernError=CONCERN), found(**errors)):
        async with encrypting(only_decrypts=True) as world:
            world.files.server.on("findAndModify", answer)
            reply = await world.client.db.command("findAndModify", "people", update={"a": 1})
        assert reply["value"] == {"_id": 1, "ssn": SECRET}
        assert reply["writeConcernError"] == answer["writeConcernError"]


async def without_keys(world: World) -> None:
    del world.files.documents("keys")[:]


async def with_slow_keys(world: World) -> None:
    world.files.delays["find keys"] = 30


@pytest.mark.parametrize("prepare", [without_keys, with_slow_keys])
async def test_a_write_whose_reply_cannot_be_decrypted_may_have_been_executed(
    prepare: Callable[[World], Awaitable[None]],
) -> None:
    strategy = Strategy(RetryAction.with_duration(0))
    async with encrypting(only_decrypts=True, timeoutMS=2000, retry_strategy=strategy) as world:
        await prepare(world)
        world.files.server.on("findAndModify", found())
        for call, is_write in ((finds_and_updates, True), (commands, True), (finds_one, False)):
            with pytest.raises(EncryptionError) as caught:
                await call(world.client)
            assert caught.value.may_have_been_executed is is_write
            assert caught.value.reached_server
            assert caught.value.attempts == 1
        assert len(world.files.server.commands("findAndModify")) == 2
        # The server refused this one, so nothing had to be decrypted.
        world.files.server.on("findAndModify", {"ok": 0, "code": 13, "errmsg": "no"})
        with pytest.raises(PyMongoError, match="no") as refused:
            await finds_and_updates(world.client)
        assert not refused.value.may_have_been_executed


@pytest.mark.parametrize("only_decrypts", [False, True])
async def test_an_error_says_which_value_cannot_be_encoded(only_decrypts: bool) -> None:
    async with encrypting(only_decrypts=only_decrypts) as world:
        with pytest.raises(InvalidDocument, match=r"the value of filter\.a is \{1\}; write a list"):
            await world.client.db.people.find_one({"a": {1}})


async def test_only_the_caller_s_codec_options_refuse_a_value() -> None:
    late = DatetimeMS(2**60)
    async with encrypting(datetime_conversion="DATETIME_MS") as world:
        world.files.collections["people"] = [{"_id": 1, "at": late}]
        assert await world.client.db.people.distinct("at") == [late]
        assert await world.client.db.people.find_one() == {"_id": 1, "at": late}


@pytest.mark.parametrize("code", [10107, 13])
async def test_details_of_errors_are_dicts(code: int) -> None:
    late = {"at": DatetimeMS(2**60)}
    async with encrypting(retryWrites=False) as world:
        world.files.server.on("insert", {"ok": 0, "code": code, "errmsg": "no", "errInfo": late})
        with pytest.raises(NotPrimaryError if code == 10107 else OperationFailure) as caught:
            await world.client.db.people.insert_one({})
        error: Any = caught.value
        assert type(error.details) is dict
        assert error.details["errInfo"] == late
        if code == 10107:
            assert error.errors == error.details
            assert type(error.errors) is dict
