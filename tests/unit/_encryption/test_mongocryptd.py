"""What is said to mongocryptd, and what it answers."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from motorlite._encryption.mongocryptd import Mongocryptd
from motorlite.errors import OperationFailure

pytestmark = pytest.mark.anyio


class Client:
    """Takes commands, and answers each with the bytes of one reply."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self.sent: list[bytes] = []

    def __getitem__(self, database: str) -> Client:
        return self

    def with_options(self, **options: Any) -> Client:
        return self

    async def command(self, document: Any, codec_options: Any) -> Any:
        self.sent.append(bson.encode(document, codec_options=codec_options))
        reply: Any = bson.decode(self._reply, codec_options)
        if not reply["ok"]:
            raise OperationFailure("no", 13, reply)
        return reply


async def test_the_details_of_its_errors_are_plain_documents() -> None:
    reply = {"ok": 0, "code": 13, "errInfo": {"a": [{"b": 1}]}}
    mongocryptd: Any = Mongocryptd.__new__(Mongocryptd)
    mongocryptd._was_started, mongocryptd._client = True, Client(bson.encode(reply))
    with pytest.raises(OperationFailure) as caught:
        await mongocryptd.mark("db", bson.encode({"insert": "people"}))
    assert (caught.value.details, type(caught.value.details["errInfo"])) == (reply, dict)


async def test_documents_pass_as_they_are() -> None:
    # `bson` decodes these into references, which are encoded otherwise.
    odd = {"a": {"note": 1, "$ref": "c", "$id": 2}, "b": {"$ref": "c", "$id": 2, "$db": None}}
    command = bson.encode({"insert": "people", "documents": [odd], "lsid": odd})
    reply = bson.encode({"ok": 1, "result": {"insert": "people", "documents": [odd]}})
    mongocryptd: Any = Mongocryptd.__new__(Mongocryptd)
    mongocryptd._was_started, mongocryptd._client = True, Client(reply)
    assert await mongocryptd.mark("db", command) == reply
    assert mongocryptd._client.sent == [command]
