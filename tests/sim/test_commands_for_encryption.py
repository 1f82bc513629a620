"""The commands that encryption needs: in no session and with no options of the application, and one time limit."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import call_options
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import AdmissionError, EncryptionError, PyMongoError
from motorlite.overload import WaitQueue
from motorlite.retry import SpecificationRetry
from motorlite.testing.scripted import failure
from tests.support.clients import make_client, scripted_client
from tests.support.data_keys import (
    KEYS,
    PROVIDERS,
    RANDOM,
    SECRET,
    client_encryption,
    data_key,
    encrypted_secret,
    key_id,
)
from tests.support.public_coroutines import ENCRYPTION, Subject
from tests.support.stored_everything import StoredEverything

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite.encryption import AsyncClientEncryption
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@asynccontextmanager
async def vault(**options: Any) -> AsyncIterator[tuple[StoredEverything, Client, AsyncClientEncryption[Any]]]:
    """A server with a data key and a document that was encrypted with it, its client, and explicit encryption."""
    files = StoredEverything()
    files.collections["keys"] = [data_key()]
    files.collections["people"] = [{"_id": 1, "ssn": encrypted_secret()}]
    async with scripted_client(files.deployment, **options) as client, client_encryption(client) as encryption:
        yield files, client, encryption


def of_keys(files: StoredEverything) -> list[dict[str, Any]]:
    """The commands to the key vault."""
    return [each.document for each in files.server.received if "keys" in named(each.document)]


def named(command: dict[str, Any]) -> list[Any]:
    """The collections that a command names."""
    first = next(iter(command.values()))
    return [first["find"]] if isinstance(first, dict) else [first, command.get("collection")]


async def all_keys(encryption: Any, _subject: Subject) -> None:
    assert len(await encryption.get_keys().batch_size(1).to_list()) == 1


CALLS: dict[str, Callable[[Any, Subject], Any]] = {
    **ENCRYPTION,
    "get_keys": all_keys,
    "get_keys, clone": lambda e, _: e.get_keys().clone().to_list(),
    "get_keys, explain": lambda e, _: e.get_keys().explain(),
    "get_keys, distinct": lambda e, _: e.get_keys().distinct("_id"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_in_no_session_of_the_application(call: Callable[[Any, Subject], Any]) -> None:
    async with vault() as (files, client, encryption):
        async with client.start_session() as session, session.bind():
            lsid = session.session_id
            session.start_transaction()
            await call(encryption, Subject(client, None, None))
            sent = of_keys(files)
            await session.abort_transaction()
        assert sent
        assert all("autocommit" not in each and each["lsid"] != lsid for each in sent)


async def test_a_data_key_outlives_an_aborted_transaction() -> None:
    async with vault() as (files, client, encryption):
        async with client.start_session() as session, session.bind():
            session.start_transaction()
            key = await encryption.create_data_key("local")
            await session.abort_transaction()
        assert [each["_id"] for each in files.documents("keys")] == [key_id(), key]


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"create_encrypted_collection"}))
async def test_no_option_of_a_block_reaches_them(name: str) -> None:
    def never(error: AdmissionError) -> Any:
        raise AssertionError(error)

    # The client has no wait queue: these options would be refused or warned of.
    async with vault() as (files, client, encryption):
        with call_options(wait_queue="reject", priority=7, context={"a": 1}, fallback=never):
            await CALLS[name](encryption, Subject(client, None, None))
        assert of_keys(files)


@asynccontextmanager
async def holding(files: StoredEverything, client: Client) -> AsyncIterator[None]:
    """Keep a connection in use for five seconds."""
    files.delays["insert held"] = 5
    async with anyio.create_task_group() as group:
        group.start_soon(client.db.held.insert_one, {})
        await anyio.sleep(1)
        yield


@asynccontextmanager
async def full(files: StoredEverything) -> AsyncIterator[Client]:
    """A client whose only connection is in use, and that has a fallback for what it refuses."""
    async with make_client(files.deployment, wait_queue=WaitQueue("degrade"), maxPoolSize=1) as client:
        await client.admin.command("ping")
        async with holding(files, client):
            yield client


async def test_the_fallback_answers_no_look_up_of_keys() -> None:
    def documents(_error: AdmissionError) -> Any:
        return [{"_id": 7}]

    files = StoredEverything()
    async with full(files) as client, client_encryption(client) as encryption:
        with call_options(fallback=documents) as block:
            with pytest.raises(EncryptionError) as caught:
                await encryption.encrypt(1, RANDOM, key_id=key_id())
            assert isinstance(caught.value.cause, AdmissionError)
            assert caught.value.retry_after == caught.value.cause.retry_after is not None
            with pytest.raises(AdmissionError):
                await encryption.get_key(key_id())
            assert block.degraded == 0
    await files.deployment.close()


async def test_a_refused_look_up_is_not_a_refused_operation() -> None:
    """The operation itself was sent, so that its fallback does not answer it."""
    async with vault(wait_queue=WaitQueue("degrade")) as (files, _, _), full(files) as keys:
        options = AutoEncryptionOpts(PROVIDERS, KEYS, key_vault_client=keys, bypass_auto_encryption=True)
        async with make_client(
            files.deployment, auto_encryption_opts=options, wait_queue=WaitQueue("degrade"), maxPoolSize=1
        ) as client:
            with call_options(fallback=lambda _: {"_id": 7}) as block:
                with pytest.raises(EncryptionError) as caught:
                    await client.db.people.find_one({})
                assert isinstance(caught.value.cause, AdmissionError)
                assert block.degraded == 0
                await anyio.sleep(10)
                assert await client.db.people.find_one({}) == {"_id": 1, "ssn": SECRET}
                # One that is refused itself is answered, and its answer has nothing to decrypt.
                async with holding(files, client):
                    assert await client.db.people.find_one({}) == {"_id": 7}
                assert block.degraded == 1


async def test_the_strategy_of_a_block_is_not_asked() -> None:
    async with vault() as (files, client, encryption):
        asked: list[Any] = []

        class Strategy(SpecificationRetry):
            def retry_after(self, *given: Any) -> Any:
                asked.append(given)
                return super().retry_after(*given)

        with call_options(retry_strategy=Strategy()):
            # The specifications repeat this once.
            files.server.on("find", failure(6))
            for read, is_asked in ((lambda: encryption.get_key(key_id()), False), (client.db.keys.find_one, True)):
                with pytest.raises(PyMongoError):
                    await read()
                assert bool(asked) == is_asked


async def test_one_time_limit_covers_the_whole_call() -> None:
    async with vault(timeoutMS=1000) as (files, _, encryption):
        files.delays |= {"find keys": 0.8, "update keys": 0.8}
        started = anyio.current_time()
        with pytest.raises(PyMongoError) as caught:
            await encryption.rewrap_many_data_key({})
        assert caught.value.timeout
        assert anyio.current_time() - started == pytest.approx(1, abs=0.1)


async def test_the_keys_of_a_collection_share_one_time_limit() -> None:
    fields = {"fields": [{"path": path, "bsonType": "int", "keyId": None} for path in "abc"]}
    async with vault(timeoutMS=1000) as (files, client, encryption):
        files.delays["insert keys"] = 0.4
        with pytest.raises(PyMongoError) as caught:
            await encryption.create_encrypted_collection(client.db, "c", fields, "local")
        assert caught.value.timeout
