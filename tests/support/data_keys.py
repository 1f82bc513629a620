"""A data key with a local master key, and what it has encrypted: made once, without a server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._encryption.library import Library
from motorlite.encryption import Algorithm, AsyncClientEncryption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bson.binary import Binary

    from tests.support.clients import Client

MASTER_KEY: Final = bytes(range(96))
PROVIDERS: Final[dict[str, Any]] = {"local": {"key": MASTER_KEY}}
# Where the tests keep data keys.
KEYS: Final = "db.keys"
SECRET: Final = "the planted secret"
RANDOM: Final = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random


class _Services:
    """Has the only key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    async def keys(self, _filter: bytes, _deadline: Deadline) -> list[bytes]:
        return [self._key]


def _run(library: Library, begin: Callable[[], Any], services: Any) -> bytes:
    """Drive a conversation that never waits."""
    running = library.run(begin, services, NO_DEADLINE)
    try:
        running.send(None)
    except StopIteration as end:
        result: bytes = end.value
        return result
    raise AssertionError("the library waited for something")


@cache
def _made() -> tuple[bytes, bytes]:
    library = Library(PROVIDERS, bypass_encryption=True)
    key = _run(library, lambda: library.data_key("local", None, ["name"], None), None)
    value, key_id = bson.encode({"v": SECRET}), bson.decode(key)["_id"]
    options = {"algorithm": RANDOM, "key_id": key_id, "key_alt_name": None}
    encrypted = _run(library, lambda: library.explicit(value, **options), _Services(key))
    library.close()
    return key, encrypted


def data_key() -> dict[str, Any]:
    """The document of the data key."""
    return bson.decode(_made()[0])


def key_id() -> Binary:
    """The id of the data key."""
    found: Binary = data_key()["_id"]
    return found


def encrypted_secret() -> Binary:
    """`SECRET`, encrypted with the data key."""
    found: Binary = bson.decode(_made()[1])["v"]
    return found


def encrypted_fields() -> dict[str, Any]:
    """The description of a collection whose field lacks its data key."""
    return {"fields": [{"path": "a", "bsonType": "int", "keyId": None}]}


@asynccontextmanager
async def client_encryption(client: Client, keys: str = KEYS) -> AsyncIterator[AsyncClientEncryption[Any]]:
    """Explicit encryption with the data keys of that collection."""
    codec_options: CodecOptions[Any] = CodecOptions()
    async with AsyncClientEncryption(PROVIDERS, keys, client, codec_options) as encryption:
        yield encryption
