"""Client-side encryption with the local key management service: values and keys that PyMongo reads, and the reverse."""

from __future__ import annotations

import logging
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bson.binary import Binary, UuidRepresentation
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.encryption import ClientEncryption

from motorlite import timeout
from motorlite.encryption import Algorithm, AsyncClientEncryption, QueryType
from motorlite.encryption_options import AutoEncryptionOpts, RangeOpts, StringOpts
from motorlite.errors import ConfigurationError, EncryptionError, InvalidOperation, OperationFailure
from motorlite.monitoring import CommandListener, CommandStartedEvent
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

KEY, OTHER_KEY = bytes(range(96)), bytes(range(1, 97))
PROVIDERS = {"local": {"key": KEY}, "local:other": {"key": OTHER_KEY}}
CODECS: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
RANDOM, DETERMINISTIC = (
    Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random,
    Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic,
)
SECRET = "the planted secret"


@asynccontextmanager
async def encryption(
    server: LocalServer, name: str, **options: Any
) -> AsyncIterator[tuple[AsyncClientEncryption[Any], Client]]:
    """Explicit encryption with the key vault ``name.keys``, and its client."""
    async with (
        make_client(server.uri, **options) as client,
        AsyncClientEncryption(PROVIDERS, f"{name}.keys", client, CODECS) as found,
    ):
        yield found, client


@asynccontextmanager
async def decrypting(server: LocalServer, name: str, **options: Any) -> AsyncIterator[Client]:
    """A client that decrypts with the key vault ``name.keys``."""
    given = AutoEncryptionOpts(PROVIDERS, f"{name}.keys", bypass_auto_encryption=True)
    async with make_client(server.uri, auto_encryption_opts=given, **options) as client:
        yield client


class Started(CommandListener):
    """Keeps the events of sent commands."""

    def __init__(self) -> None:
        self.events: list[CommandStartedEvent] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.events.append(event)


# --- explicit encryption ---


@pytest.mark.parametrize("value", [SECRET, 7, {"a": [1, None]}, uuid.UUID(int=7), b"bytes"])
async def test_decrypts_what_it_encrypted(deployment: LocalServer, database_name: str, value: object) -> None:
    async with encryption(deployment, database_name) as (explicit, _):
        key = await explicit.create_data_key("local")
        encrypted = await explicit.encrypt(value, RANDOM, key_id=key)
        assert encrypted.subtype == 6
        assert await explicit.decrypt(encrypted) == value


async def test_encrypts_as_pymongo_does(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, _):
        key = await explicit.create_data_key("local", key_alt_names=["ours"])
        ours = await explicit.encrypt(SECRET, DETERMINISTIC, key_alt_name="ours")
        with MongoClient[Any](deployment.uri) as client:
            theirs: ClientEncryption[Any] = ClientEncryption(PROVIDERS, f"{database_name}.keys", client, CODECS)
            assert theirs.encrypt(SECRET, DETERMINISTIC, key_id=key) == ours
            assert theirs.decrypt(ours) == SECRET
            made = theirs.create_data_key("local:other", key_alt_names=["theirs"])
            theirs.close()
        assert await explicit.decrypt(await explicit.encrypt(1, RANDOM, key_id=made.as_uuid())) == 1


async def test_creates_a_key_from_the_callers_material(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, client):
        first, second = [await explicit.create_data_key("local", key_material=KEY) for _ in range(2)]
        encrypted = await explicit.encrypt(1, RANDOM, key_id=first)
        twin = await explicit.get_key(second)
        assert twin is not None
        await explicit.delete_key(first)
        await client[database_name]["keys"].insert_one({**twin, "_id": first})
        with pytest.raises(EncryptionError, match="96"):
            await explicit.create_data_key("local", key_material=b"short")
    async with encryption(deployment, database_name) as (explicit, _):
        assert await explicit.decrypt(encrypted) == 1


async def test_manages_keys(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, _):
        key = await explicit.create_data_key("local", key_alt_names=["a"])
        before = await explicit.add_key_alt_name(key, "b")
        assert before["keyAltNames"] == ["a"]
        named = await explicit.get_key_by_alt_name("b")
        assert named is not None
        assert named["_id"] == key
        assert await explicit.remove_key_alt_name(key, "a") is not None
        one = await explicit.get_key(key)
        assert one is not None
        assert one["keyAltNames"] == ["b"]
        await explicit.remove_key_alt_name(key, "b")
        bare = await explicit.get_key(key)
        assert bare is not None
        assert "keyAltNames" not in bare
        assert [each["_id"] for each in await explicit.get_keys().to_list()] == [key]
        assert (await explicit.delete_key(key)).deleted_count == 1
        assert await explicit.get_key(key) is None
        assert await explicit.get_key_by_alt_name("b") is None


async def test_rewraps_keys_with_another_master_key(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, _):
        assert (await explicit.rewrap_many_data_key({})).bulk_write_result is None
        keys = [await explicit.create_data_key("local") for _ in range(3)]
        values = [await explicit.encrypt(number, RANDOM, key_id=key) for number, key in enumerate(keys)]
        result = await explicit.rewrap_many_data_key({}, "local:other")
        assert result.bulk_write_result is not None
        assert result.bulk_write_result.modified_count == 3
        assert {key["masterKey"]["provider"] for key in await explicit.get_keys().to_list()} == {"local:other"}
    async with encryption(deployment, database_name) as (explicit, _):
        assert [await explicit.decrypt(value) for value in values] == [0, 1, 2]
        with pytest.raises(ConfigurationError, match="needs a provider"):
            await explicit.rewrap_many_data_key({}, master_key={})


async def test_encrypts_for_queries(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, _):
        key = await explicit.create_data_key("local")
        indexed = await explicit.encrypt(7, Algorithm.INDEXED, key_id=key, contention_factor=1)
        assert indexed.subtype == 6
        query = await explicit.encrypt(
            7, Algorithm.INDEXED, key_id=key, contention_factor=1, query_type=QueryType.EQUALITY
        )
        assert query != indexed
        assert await explicit.decrypt(await explicit.encrypt(7, Algorithm.UNINDEXED, key_id=key)) == 7
        bounds = RangeOpts(sparsity=1, trim_factor=1, min=0, max=200)
        assert await explicit.encrypt(7, Algorithm.RANGE, key_id=key, contention_factor=1, range_opts=bounds)
        expression = await explicit.encrypt_expression(
            {"$and": [{"age": {"$gte": 6}}, {"age": {"$lte": 9}}]},
            Algorithm.RANGE,
            key_id=key,
            contention_factor=1,
            query_type=QueryType.RANGE,
            range_opts=bounds,
        )
        assert isinstance(expression["$and"][0]["age"]["$gte"], Binary)


LENGTHS: dict[str, Any] = {"strMinQueryLength": 2, "strMaxQueryLength": 10}


@pytest.mark.parametrize(
    ("query_type", "options"),
    [
        (QueryType.PREFIX, {"prefix": LENGTHS}),
        (QueryType.SUFFIX, {"suffix": LENGTHS}),
        (QueryType.SUBSTRING, {"substring": {**LENGTHS, "strMaxLength": 30}}),
    ],
)
async def test_encrypts_for_queries_for_parts_of_text(
    deployment: LocalServer, database_name: str, query_type: QueryType, options: dict[str, Any]
) -> None:
    parts = StringOpts(**options, case_sensitive=True, diacritic_sensitive=True)
    given: dict[str, Any] = {"contention_factor": 1, "string_opts": parts}
    async with encryption(deployment, database_name) as (explicit, _):
        key = await explicit.create_data_key("local")
        stored = await explicit.encrypt(SECRET, Algorithm.STRING, key, **given)
        query = await explicit.encrypt("pla", Algorithm.STRING, key, query_type=query_type, **given)
        # A value to store, and a query (client-side encryption specification, "Payload").
        assert (stored.subtype, stored[0], query.subtype, query[0]) == (6, 11, 6, 18)
        with pytest.raises(EncryptionError, match=r"longer|too long|length"):
            await explicit.encrypt("x" * 11, Algorithm.STRING, key, query_type=query_type, **given)


async def test_refuses_what_is_wrong(deployment: LocalServer, database_name: str) -> None:
    wrong: Any = "no key"
    async with encryption(deployment, database_name) as (explicit, _):
        with pytest.raises(TypeError, match="key_id must be"):
            await explicit.encrypt(1, RANDOM, key_id=wrong)
        with pytest.raises(TypeError, match="subtype 6"):
            await explicit.decrypt(Binary(b"plain"))
        with pytest.raises(EncryptionError, match="not all keys") as caught:
            await explicit.encrypt(1, RANDOM, key_id=uuid.uuid4())
        assert type(caught.value.cause).__name__ == "MongoCryptError"
        with pytest.raises(EncryptionError, match="unknown kms_provider"):
            await explicit.create_data_key("aws")
        await explicit.close()
        with pytest.raises(InvalidOperation, match="closed"):
            await explicit.encrypt(1, RANDOM, key_alt_name="a")


async def test_the_deadline_covers_the_look_up_of_keys(standalone: LocalServer, database_name: str, fail: Any) -> None:
    async with encryption(standalone, database_name) as (explicit, _):
        key = await explicit.create_data_key("local")
        fail(
            standalone,
            {
                "configureFailPoint": "failCommand",
                "mode": "alwaysOn",
                "data": {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 2000},
            },
        )
        with pytest.raises(EncryptionError) as caught:
            async with timeout(0.1):
                await explicit.encrypt(1, RANDOM, key_id=key)
        assert caught.value.timeout


async def test_keys_are_not_looked_up_in_the_callers_session(replica_set: LocalServer, database_name: str) -> None:
    listener = Started()
    async with encryption(replica_set, database_name, event_listeners=[listener]) as (explicit, client):
        key = await explicit.create_data_key("local")
        async with client.start_session() as session, session.bind():
            lsid = session.session_id
            assert await explicit.encrypt(1, RANDOM, key_id=key)
    (found,) = [event.command for event in listener.events if event.command_name == "find"]
    assert found["lsid"] != lsid


# --- automatic decryption ---


async def test_decrypts_replies(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, client):
        key = await explicit.create_data_key("local")
        people = client[database_name].people
        encrypted = await explicit.encrypt(SECRET, DETERMINISTIC, key_id=key)
        many = [{"_id": number, "name": encrypted, "filling": "x" * 20_000} for number in range(30)]
        await people.insert_many(many)
    async with decrypting(deployment, database_name) as client:
        people = client[database_name].people
        assert await people.count_documents({"name": encrypted}) == 30
        assert [each["name"] async for each in people.find(batch_size=7)] == [SECRET] * 30
        first = await people.find_one_and_update({"_id": 0}, {"$set": {"a": 1}})
        assert first is not None
        assert first["name"] == SECRET
        assert await people.distinct("name") == [SECRET]
        await people.insert_one({"_id": "plain", "name": "plain"})
        assert await people.find_one({"_id": "plain"}) == {"_id": "plain", "name": "plain"}
        with pytest.raises(OperationFailure) as caught:
            await people.insert_one({"_id": 0})
        assert isinstance(caught.value.details, dict)
        result = await people.delete_many({})
        assert result.deleted_count == 31


async def test_decrypts_in_transactions(replica_set: LocalServer, database_name: str) -> None:
    async with encryption(replica_set, database_name) as (explicit, client):
        key = await explicit.create_data_key("local")
        await client[database_name].people.insert_one({"name": await explicit.encrypt(SECRET, RANDOM, key_id=key)})
    async with decrypting(replica_set, database_name, maxPoolSize=1) as client:
        people = client[database_name].people
        async with client.start_session() as session, await session.start_transaction():
            found = await people.find_one({}, session=session)
            await people.insert_one({"more": 1}, session=session)
        assert found is not None
        assert found["name"] == SECRET
        assert await people.count_documents({}) == 2


async def test_without_the_key_a_reply_is_an_error(deployment: LocalServer, database_name: str) -> None:
    async with encryption(deployment, database_name) as (explicit, client):
        key = await explicit.create_data_key("local")
        await client[database_name].people.insert_one({"name": await explicit.encrypt(SECRET, RANDOM, key_id=key)})
        await explicit.delete_key(key)
    async with decrypting(deployment, database_name) as client:
        with pytest.raises(EncryptionError, match="not all keys"):
            await client[database_name].people.find_one({})
        assert await client[database_name].command("ping") == {"ok": 1.0} | await client[database_name].command("ping")


async def test_secrets_stay_out_of_events_logs_errors_and_reprs(
    deployment: LocalServer, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    recorder = Recorder()
    shown: list[object] = []
    async with encryption(deployment, database_name) as (explicit, client):
        key = await explicit.create_data_key("local")
        await client[database_name].people.insert_one({"name": await explicit.encrypt(SECRET, RANDOM, key_id=key)})
        shown += [repr(explicit), repr(explicit.__dict__)]
    async with decrypting(deployment, database_name, event_listeners=[recorder]) as client:
        found = await client[database_name].people.find_one({})
        assert found is not None
        assert found["name"] == SECRET
        shown += [repr(client), repr(client.options)]
    shown += [repr(event.__dict__ if hasattr(event, "__dict__") else event) for event in recorder.events]
    text = "\n".join([*map(str, shown), caplog.text])
    assert "people" in text
    for secret in (SECRET, repr(KEY)[2:40], str(KEY)[2:40]):
        assert secret not in text
