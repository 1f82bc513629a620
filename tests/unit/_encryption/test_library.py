"""The encryption library: errors, the missing extra, and the end of its memory."""

from __future__ import annotations

import importlib.util
import uuid
from typing import TYPE_CHECKING, Any, cast

import bson
import pytest
from bson.binary import Binary

from motorlite import AsyncMongoClient
from motorlite._base.deadline import NO_DEADLINE
from motorlite._encryption import library
from motorlite._encryption.library import Library
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import ConfigurationError, EncryptionError, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

PROVIDERS: dict[str, Any] = {"local": {"key": bytes(96)}}
NOBODY: Any = None


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[[str], Any] = importlib.util.find_spec
    monkeypatch.setattr(library, "find_spec", lambda name: None if name == "pymongocrypt" else find(name))
    options = AutoEncryptionOpts(PROVIDERS, "a.b")
    with pytest.raises(ConfigurationError, match=r"pip install 'motorlite\[encryption\]'"):
        AsyncMongoClient(auto_encryption_opts=options)


@pytest.mark.parametrize(
    "providers", [{}, {"local": {"key": b"short"}}, {"unknown": {}}, {"aws": {"accessKeyId": "a"}}]
)
def test_refuses_wrong_providers(providers: dict[str, Any]) -> None:
    with pytest.raises(EncryptionError):
        Library(providers)


def test_needs_the_shared_library_where_it_is_required() -> None:
    with pytest.raises(EncryptionError, match="crypt_shared"):
        Library(PROVIDERS, crypt_shared_lib_path="/nowhere/mongo_crypt_v1.so", crypt_shared_lib_required=True)


@pytest.mark.parametrize("key", [uuid.UUID(int=7), Binary.from_uuid(uuid.UUID(int=7))])
def test_maps_take_ids_of_keys_in_both_forms(key: object) -> None:
    rule = {"keyId": [key], "bsonType": "string", "algorithm": "AEAD_AES_256_CBC_HMAC_SHA_512-Random"}
    options = AutoEncryptionOpts(
        PROVIDERS,
        "db.keys",
        schema_map={"db.people": {"bsonType": "object", "properties": {"ssn": {"encrypt": rule}}}},
        encrypted_fields_map={"db.other": {"fields": [{"path": "ssn", "bsonType": "string", "keyId": key}]}},
    )
    assert AsyncMongoClient(auto_encryption_opts=options).options.auto_encryption_opts is options


async def test_rewraps_the_keys_of_a_filter_with_native_uuids() -> None:
    asked = []

    class NoKeys:
        async def keys(self, filter: bytes, _deadline: object) -> list[bytes]:
            asked.append(bson.decode(filter))
            return []

    made, filter, services = Library(PROVIDERS, bypass_encryption=True), {"_id": uuid.UUID(int=7)}, NoKeys()
    begin = lambda: made.contexts.rewrap_many_data_key_context(filter, None, None)  # noqa: E731
    assert await made.run(begin, cast("Any", services), NO_DEADLINE) is None
    assert asked == [{"_id": Binary.from_uuid(uuid.UUID(int=7))}]


async def test_keeps_its_memory_until_the_last_call_has_ended() -> None:
    made = Library(PROVIDERS, bypass_encryption=True)

    def begin() -> Any:
        context = made.data_key("local", None, ["a"], None)
        made.close()
        return context

    assert await made.run(begin, NOBODY, NO_DEADLINE)
    with pytest.raises(InvalidOperation, match="closed"):
        await made.run(begin, NOBODY, NO_DEADLINE)
    assert repr(made) == "<Library>"
