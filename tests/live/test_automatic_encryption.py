"""Automatic encryption: a real server, and a scripted mongocryptd, since the real one is not freely available."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bson.binary import Binary
from bson.codec_options import CodecOptions

from motorlite import InsertOne, UpdateOne
from motorlite.encryption import Algorithm, AsyncClientEncryption
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import EncryptionError, InvalidOperation
from motorlite.monitoring import CommandStartedEvent
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.mongocryptd import ADDRESS, Marker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

PROVIDERS = {"local": {"key": bytes(range(96))}}
SECRET = "the planted secret"


@asynccontextmanager
async def encrypting(
    server: LocalServer, name: str, *, is_local: bool = True, **options: Any
) -> AsyncIterator[tuple[Client, Client, Marker]]:
    """A plain client and one that encrypts the field `ssn` of ``name.people``, and mongocryptd.

    `is_local`: the schema is among the client's options, not on the server.
    """
    marker = Marker()
    async with make_client(server.uri) as plain:
        async with AsyncClientEncryption(PROVIDERS, f"{name}.keys", plain, CodecOptions()) as explicit:
            key = await explicit.create_data_key("local")
        algorithm = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic.value
        rule = {"encrypt": {"keyId": [key], "bsonType": "string", "algorithm": algorithm}}
        schema = {"bsonType": "object", "properties": {"ssn": rule}}
        if not is_local:
            await plain[name].create_collection("people", validator={"$jsonSchema": schema})
        given = AutoEncryptionOpts(
            PROVIDERS,
            f"{name}.keys",
            schema_map={f"{name}.people": schema} if is_local else None,
            mongocryptd_uri=f"mongodb://{ADDRESS}",
            mongocryptd_bypass_spawn=True,
        )
        async with make_client(
            server.uri, auto_encryption_opts=given, world=marker.world, maxPoolSize=1, **options
        ) as client:
            yield plain, client, marker
    await marker.deployment.close()


@pytest.mark.parametrize("is_local", [True, False])
async def test_encrypts_and_decrypts(deployment: LocalServer, database_name: str, is_local: bool) -> None:
    async with encrypting(deployment, database_name, is_local=is_local) as (plain, client, _):
        people = client[database_name].people
        await people.insert_one({"_id": 1, "ssn": SECRET, "age": 7})
        stored = await plain[database_name].people.find_one({})
        assert stored is not None
        assert isinstance(stored["ssn"], Binary)
        assert await people.find_one({"ssn": SECRET}) == {"_id": 1, "ssn": SECRET, "age": 7}
        assert (await people.update_one({"ssn": SECRET}, {"$set": {"ssn": "other"}})).modified_count == 1
        assert await people.find_one_and_update({"ssn": "other"}, {"$set": {"age": 8}}) == {
            "_id": 1,
            "ssn": "other",
            "age": 7,
        }
        assert (await people.delete_one({"ssn": "other"})).deleted_count == 1
        await client[database_name].others.insert_one({"_id": 1, "ssn": "not in the schema"})
        assert await plain[database_name].others.find_one({}) == {"_id": 1, "ssn": "not in the schema"}


async def test_bulk_writes_come_in_batches_of_two_megabytes(deployment: LocalServer, database_name: str) -> None:
    async with encrypting(deployment, database_name) as (plain, client, marker):
        people = client[database_name].people
        documents = [{"_id": number, "ssn": SECRET, "filling": "x" * 700_000} for number in range(6)]
        await people.insert_many(documents)
        assert [len(each["documents"]) for each in marker.server.commands("insert")] == [2, 2, 2]
        # A single document may be larger.
        await people.insert_one({"_id": 7, "ssn": SECRET, "filling": "x" * 3_000_000})
        result = await people.bulk_write([InsertOne({"ssn": "a"}), UpdateOne({"ssn": "a"}, {"$set": {"b": 1}})])
        assert (result.inserted_count, result.modified_count) == (1, 1)
        assert {each["ssn"] async for each in people.find({"b": None}, batch_size=2)} == {SECRET}
        assert await plain[database_name].people.count_documents({"ssn": {"$type": 5}}) == 8
        with pytest.raises(InvalidOperation, match="does not encrypt"):
            await client.bulk_write([InsertOne({"ssn": "a"}, namespace=f"{database_name}.people")])


async def test_transactions_and_retries_send_encrypted_values(replica_set: LocalServer, database_name: str) -> None:
    recorder = Recorder()
    async with encrypting(replica_set, database_name, event_listeners=[recorder]) as (plain, client, _):
        people = client[database_name].people
        await people.insert_one({"ssn": "first"})
        async with client.start_session() as session, await session.start_transaction():
            await people.insert_one({"ssn": SECRET}, session=session)
            assert await people.count_documents({"ssn": SECRET}, session=session) == 1
        assert await plain[database_name].people.count_documents({"ssn": {"$type": 5}}) == 2
    sent = [event for event in recorder.events if isinstance(event, CommandStartedEvent)]
    assert "insert" in {event.command_name for event in sent}
    assert SECRET not in repr([event.command for event in sent])


async def test_without_mongocryptd_nothing_is_sent(deployment: LocalServer, database_name: str) -> None:
    async with encrypting(deployment, database_name, timeoutMS=500) as (plain, client, marker):
        marker.server.is_down = True
        with pytest.raises(EncryptionError) as caught:
            await client[database_name].people.insert_one({"ssn": SECRET})
        assert caught.value.timeout
        assert SECRET not in str(caught.value)
        assert await plain[database_name].people.count_documents({}) == 0
        marker.server.is_down = False
