"""What is said to mongocryptd, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import bson
import pytest

from motorlite._client.dependencies import Dependencies
from motorlite._encryption.mongocryptd import Mongocryptd
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import AutoReconnect, NetworkTimeout, OperationFailure, PyMongoError
from tests.support.data_keys import KEYS, PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Callable

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
    mongocryptd._was_started, mongocryptd._starts, mongocryptd._client = True, 0, Client(bson.encode(reply))
    with pytest.raises(OperationFailure) as caught:
        await mongocryptd.mark("db", bson.encode({"insert": "people"}))
    assert (caught.value.details, type(caught.value.details["errInfo"])) == (reply, dict)


class LostClient(Client):
    """The first `count` commands fail at once. Counts how often the program is started, as its own machinery."""

    def __init__(self, reply: bytes, count: int, error: type[PyMongoError] = AutoReconnect) -> None:
        super().__init__(reply)
        self._left = count
        self._error = error
        self._is_lost = anyio.Event()
        self._core = self.runtime = self
        self.starts = 0

    def enter(self) -> None:
        """An event loop is running."""

    async def run_in_thread(self, function: Callable[[], bool]) -> bool:
        self.starts += 1
        await anyio.lowlevel.checkpoint()
        return True

    async def command(self, document: Any, codec_options: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            return await super().command(document, codec_options)
        if not self._left:
            self._is_lost.set()
        await self._is_lost.wait()
        raise self._error("no reply")


async def test_it_is_started_once_for_all_commands_that_are_lost_with_it() -> None:
    mongocryptd = Mongocryptd(AutoEncryptionOpts(PROVIDERS, KEYS), Dependencies())
    client: Any = LostClient(bson.encode({"ok": 1}), 3)
    mongocryptd._was_started, mongocryptd._client = True, client
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(mongocryptd.mark, "db", bson.encode({"insert": "people"}))
    assert (client.starts, len(client.sent)) == (1, 3)


async def test_a_start_that_is_cancelled_is_made_up_for() -> None:
    mongocryptd = Mongocryptd(AutoEncryptionOpts(PROVIDERS, KEYS), Dependencies())
    client: Any = LostClient(bson.encode({"ok": 1}), 0)
    mongocryptd._client = client
    with anyio.CancelScope() as scope:
        scope.cancel()
        await mongocryptd.mark("db", bson.encode({"insert": "people"}))
    for _ in range(2):
        await mongocryptd.mark("db", bson.encode({"insert": "people"}))
    assert (client.starts, len(client.sent)) == (2, 2)


async def test_it_is_not_started_again_because_it_is_slow() -> None:
    mongocryptd = Mongocryptd(AutoEncryptionOpts(PROVIDERS, KEYS), Dependencies())
    client: Any = LostClient(bson.encode({"ok": 1}), 1, NetworkTimeout)
    mongocryptd._was_started, mongocryptd._client = True, client
    with pytest.raises(NetworkTimeout):
        await mongocryptd.mark("db", bson.encode({"insert": "people"}))
    assert (client.starts, client.sent) == (0, [])


async def test_documents_pass_as_they_are() -> None:
    # `bson` decodes these into references, which are encoded otherwise.
    odd = {"a": {"note": 1, "$ref": "c", "$id": 2}, "b": {"$ref": "c", "$id": 2, "$db": None}}
    command = bson.encode({"insert": "people", "documents": [odd], "lsid": odd})
    reply = bson.encode({"ok": 1, "result": {"insert": "people", "documents": [odd]}})
    mongocryptd: Any = Mongocryptd.__new__(Mongocryptd)
    mongocryptd._was_started, mongocryptd._starts, mongocryptd._client = True, 0, Client(reply)
    assert await mongocryptd.mark("db", command) == reply
    assert mongocryptd._client.sent == [command]
