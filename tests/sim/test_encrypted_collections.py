"""Collections with encrypted fields: the commands that create and drop them, on a server of MongoDB 7.0."""

from __future__ import annotations

from typing import Any

import pytest
from bson.codec_options import CodecOptions

from motorlite.encryption import AsyncClientEncryption
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    EncryptedCollectionError,
    EncryptionError,
    OperationFailure,
)
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.clients import scripted_client

pytestmark = pytest.mark.anyio

PROVIDERS: dict[str, Any] = {"local": {"key": bytes(96)}}
FIELDS: dict[str, Any] = {"fields": [{"path": "a", "bsonType": "int", "keyId": None}]}


def named(deployment: ScriptedDeployment) -> list[tuple[str, str]]:
    """The commands and the collections that they name."""
    return [(each.name, each.document[each.name]) for each in deployment["a:1"].received]


async def test_creates_keys_and_collections() -> None:
    deployment = ScriptedDeployment(wire_version=21)
    async with (
        scripted_client(deployment) as client,
        AsyncClientEncryption(PROVIDERS, "db.keys", client, CodecOptions()) as encryption,
    ):
        collection, fields = await encryption.create_encrypted_collection(client.db, "c", FIELDS, "local")
        assert named(deployment) == [
            ("insert", "keys"),
            ("create", "enxcol_.c.esc"),
            ("create", "enxcol_.c.ecoc"),
            ("create", "c"),
            ("createIndexes", "c"),
        ]
        assert collection.full_name == "db.c"
        (create,) = [each for each in deployment["a:1"].commands("create") if each["create"] == "c"]
        assert create["encryptedFields"] == fields
        assert fields["fields"][0]["keyId"].subtype == 4
        assert FIELDS["fields"][0]["keyId"] is None


async def test_needs_mongodb_7() -> None:
    async with (
        scripted_client(ScriptedDeployment(wire_version=17)) as client,
        AsyncClientEncryption(PROVIDERS, "db.keys", client, CodecOptions()) as encryption,
    ):
        with pytest.raises(EncryptedCollectionError, match=r"7\.0") as caught:
            await encryption.create_encrypted_collection(client.db, "c", FIELDS, "local")
        assert isinstance(caught.value.cause, ConfigurationError)
        assert caught.value.encrypted_fields["fields"][0]["keyId"] is not None


async def test_a_key_that_cannot_be_created_is_an_error_with_the_fields() -> None:
    deployment = ScriptedDeployment(wire_version=21)
    async with (
        scripted_client(deployment) as client,
        AsyncClientEncryption(PROVIDERS, "db.keys", client, CodecOptions()) as encryption,
    ):
        with pytest.raises(EncryptedCollectionError, match="unknown kms_provider") as caught:
            await encryption.create_encrypted_collection(client.db, "c", FIELDS, "aws")
        assert caught.value.encrypted_fields == FIELDS
        assert named(deployment) == []


async def test_a_key_that_cannot_be_stored_is_an_error_with_the_keys_before_it() -> None:
    fields = {"fields": [{"path": path, "bsonType": "int", "keyId": None} for path in "abc"]}
    deployment = ScriptedDeployment(wire_version=21)
    deployment["a:1"].on("insert", {"n": 1}, failure(13))
    async with (
        scripted_client(deployment) as client,
        AsyncClientEncryption(PROVIDERS, "db.keys", client, CodecOptions()) as encryption,
    ):
        with pytest.raises(EncryptedCollectionError) as caught:
            await encryption.create_encrypted_collection(client.db, "c", fields, "local")
    first, *others = (each["keyId"] for each in caught.value.encrypted_fields["fields"])
    (stored,) = deployment["a:1"].commands("insert")[0]["documents"]
    assert [first, *others] == [stored["_id"], None, None]
    cause = caught.value.cause
    assert isinstance(cause, EncryptionError)
    assert isinstance(cause.cause, OperationFailure)
    assert cause.cause.code == 13


async def test_a_key_that_may_be_stored_says_so() -> None:
    deployment = ScriptedDeployment(wire_version=21)
    deployment["a:1"].on("insert", Close())
    async with (
        scripted_client(deployment, retryWrites=False) as client,
        AsyncClientEncryption(PROVIDERS, "db.keys", client, CodecOptions()) as encryption,
    ):
        with pytest.raises(EncryptionError) as caught:
            await encryption.create_data_key("local")
        assert isinstance(caught.value.cause, AutoReconnect)
        assert caught.value.may_have_been_executed


async def test_drops_the_state_too() -> None:
    deployment = ScriptedDeployment(wire_version=21)
    options = AutoEncryptionOpts(
        PROVIDERS, "db.keys", encrypted_fields_map={"db.c": FIELDS}, bypass_auto_encryption=True
    )
    async with scripted_client(deployment, auto_encryption_opts=options) as client:
        await client.db.c.drop()
        await client.db.drop_collection("d", encrypted_fields={"escCollection": "e", "ecocCollection": "f"})
        found = {"name": "g", "type": "collection", "options": {"encryptedFields": FIELDS}}
        deployment["a:1"].on("listCollections", {"cursor": {"id": 0, "ns": "db.x", "firstBatch": [found]}})
        await client.db.g.drop()
    dropped = [collection for name, collection in named(deployment) if name == "drop"]
    assert dropped == [
        *("enxcol_.c.esc", "enxcol_.c.ecoc", "c"),
        *("e", "f", "d"),
        *("enxcol_.g.esc", "enxcol_.g.ecoc", "g"),
    ]
