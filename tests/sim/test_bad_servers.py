"""Servers that answer nonsense, half of an answer, or nothing: a clear error, a sound pool, and the next one works."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._wire import op_msg
from motorlite._wire.compression import Zlib, compress
from motorlite.errors import (
    AutoReconnect,
    NetworkTimeout,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, encode_reply
from tests.support.core import FOUND, Driver, driver, fails, find, insert
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation
    from motorlite.testing.memory_stream import MemoryStream
    from motorlite.testing.scripted import Answer, ScriptedServer

pytestmark = pytest.mark.anyio

WHOLE = encode_reply(1, 0, FOUND)

# What the server does, the error's type, and what its text must say.
CLOSED = "a:1: the server closed the connection"
OP_REPLY = WHOLE[:12] + b"\1\0\0\0" + WHOLE[16:]
UNKNOWN_SECTION = WHOLE[:20] + b"\x07" + WHOLE[21:]
BROKEN: dict[str, tuple[Answer, type[PyMongoError], str]] = {
    "http": (Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError, "the peer speaks HTTP"),
    "zeros": (Raw(b"\x00" * 16), ProtocolError, "a message announces 0 bytes; allowed are 16"),
    "too long": (Raw(b"\xff\xff\xff\x7f" + b"x" * 60), ProtocolError, "announces 2147483647 bytes"),
    "header": (Raw(b"\x10\0\0\0" + b"\0" * 12), ProtocolError, "16 bytes is too short for OP_MSG"),
    "OP_REPLY": (Raw(OP_REPLY), ProtocolError, "expected OP_MSG"),
    "another's reply": (Raw(WHOLE), ProtocolError, "expected the reply to request"),
    "section": (Raw(UNKNOWN_SECTION), ProtocolError, "section of unknown kind 7"),
    "closed in the header": (Raw(WHOLE[:7], close=True), AutoReconnect, CLOSED),
    "closed in the body": (Raw(WHOLE[:40], close=True), AutoReconnect, CLOSED),
    "closed": (Close(), AutoReconnect, CLOSED),
}
# The same on a connection where the reply may be compressed. 25 bytes are before the compressed content.
PACKED = compress(WHOLE, Zlib())
COMPRESSED: dict[str, tuple[Answer, type[PyMongoError], str]] = {
    **BROKEN,
    "short": (Raw(b"\x18\0\0\0" + PACKED[4:24]), ProtocolError, "24 bytes is too short for OP_COMPRESSED"),
    "another's compressed reply": (Raw(PACKED), ProtocolError, "expected the reply to request"),
    "compressor": (Raw(PACKED[:24] + b"\x04" + PACKED[25:]), ProtocolError, "compressor 4, which was not"),
    "another compressor": (Raw(PACKED[:24] + b"\x01" + PACKED[25:]), ProtocolError, "with snappy"),
    "negative": (Raw(PACKED[:20] + b"\xff" * 4 + PACKED[24:]), ProtocolError, "announces -1 bytes"),
    "huge": (Raw(PACKED[:20] + b"\0\0\0\x7f" + PACKED[24:]), ProtocolError, "announces 2130706432"),
    "bomb": (Raw(PACKED[:20] + b"\x20\0\0\0" + PACKED[24:]), ProtocolError, "has more than the 32"),
    "less": (Raw(PACKED[:20] + b"\0\x20\0\0" + PACKED[24:]), ProtocolError, "bytes, not 8192"),
    "damaged": (Raw(PACKED[:40] + b"????" + PACKED[44:]), ProtocolError, "with zlib is damaged"),
    "twice": (Raw(compress(PACKED, Zlib())), ProtocolError, "is compressed again"),
    "OP_REPLY in it": (Raw(compress(OP_REPLY, Zlib())), ProtocolError, "expected OP_MSG"),
    "section in it": (Raw(compress(UNKNOWN_SECTION, Zlib())), ProtocolError, "unknown kind 7"),
    "closed in the compressed content": (Raw(PACKED[:30], close=True), AutoReconnect, CLOSED),
}
EACH_BROKEN = pytest.mark.parametrize(("answer", "kind", "text"), BROKEN.values(), ids=list(BROKEN))
# The same, and no answer at all.
SILENT_TOO = pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [*BROKEN.values(), (Hang(), NetworkTimeout, "no reply in time")],
    ids=[*BROKEN, "silent"],
)


def check(error: PyMongoError, kind: type[PyMongoError], text: str) -> None:
    """The error says what happened and where."""
    assert type(error) is kind
    assert text in str(error)
    assert "(server a:1" in str(error)
    assert error.address == ("a", 1)
    assert error.__cause__ is None or isinstance(error.__cause__, PyMongoError), "nothing foreign"


async def check_health(client: Driver) -> None:
    """Nothing is lost or leaked, and the next operations work, several at once as well."""
    state = client.server("a").pool.state
    assert not state.in_use
    assert not state.queue
    assert client.server("a").operation_count == 0
    scripted = client.deployment["a:1"]
    scripted.on("find", FOUND)
    async with anyio.create_task_group() as group:
        for _ in range(3):

            async def read() -> None:
                assert (await client.run(find())).reply.documents == [{"_id": 1}]

            group.start_soon(read)
    await client.run(insert())
    # Replies that came too late, or not at all, are given up.
    await anyio.sleep(1.5)
    assert not state.pending
    idle = {connection.stream for connection in state.idle}
    assert idle
    assert not any(stream.is_closed for stream in idle)
    # The pool's, the monitor's, and no other.
    monitor: Any = client.server("a").monitor
    monitors = 1 if monitor._ping_connection is None else 2
    assert len(scripted.open_connections) == len(idle) + monitors
    assert not state.in_use
    assert not state.connecting


# --- operations ---


@pytest.mark.parametrize(
    ("make", "compressors", "answer", "kind", "text"),
    [
        *(pytest.param(find, [], *row, id=f"read: {name}") for name, row in BROKEN.items()),
        *(pytest.param(insert, [], *row, id=f"write: {name}") for name, row in BROKEN.items()),
        *(pytest.param(find, ["zlib", "snappy"], *row, id=f"compressed: {name}") for name, row in COMPRESSED.items()),
    ],
)
async def test_an_operation(
    make: Callable[[], Operation[Any]], compressors: list[str], answer: Answer, kind: type[PyMongoError], text: str
) -> None:
    deployment = ScriptedDeployment(["a:1"])
    server, name = deployment["a:1"], make().name
    server.compressors = compressors[:1]
    options: dict[str, Any] = {"retryReads": False, "retryWrites": False, "compressors": compressors}
    async with driver(deployment, connect=False, **options) as client:
        await client.run()
        server.on(name, answer)
        error = await fails(client, make())
        check(error, kind, text)
        assert not client.server("a").pool.state.pending, "nothing that this connection sends is awaited"
        assert error.attempts == 1
        assert len(server.commands(name)) == 1, "it is not repeated behind anybody's back"
        server.on(name)
        await check_health(client)


@EACH_BROKEN
async def test_a_read_that_is_retried(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer, FOUND)
        if kind is AutoReconnect:
            assert (await client.run(find())).reply.documents == [{"_id": 1}]
        else:
            # A peer that does not speak the protocol will not the second time either.
            assert isinstance(await fails(client, find()), ProtocolError)
        await check_health(client)


@pytest.mark.parametrize(
    "answer", [Hang(), Raw(WHOLE[:40]), Reply(FOUND, 3600.0)], ids=["silent", "silent in the middle", "too late"]
)
@pytest.mark.parametrize("limit", ["deadline", "socketTimeoutMS"])
async def test_no_reply_in_time(answer: Answer, limit: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    has_deadline = limit == "deadline"
    options: dict[str, Any] = {} if has_deadline else {"retryReads": False, "socketTimeoutMS": 2000}
    async with driver(deployment, connect=False, **options) as client:
        await client.run()
        deployment["a:1"].on("find", answer)
        begun = client.now
        error = await fails(client, find(), timeout=2.0 if has_deadline else inf)
        assert client.now == begun + 2.0
        check(error, NetworkTimeout, "no reply in time")
        assert error.timeout
        assert error.phase == ("reply" if has_deadline else None)
        assert client.types() == {"a": "Standalone"}, "a slow operation says nothing about the server"
        await check_health(client)


# What nobody asked for.
SPOIL: dict[str, Callable[[ScriptedServer, MemoryStream], None]] = {
    "message": lambda _, stream: stream.deliver(WHOLE),
    "part": lambda _, stream: stream.deliver(WHOLE[:1]),
    "garbage": lambda _, stream: stream.deliver(b"\xff" * 30),
    "the end": lambda server, stream: server.drop_connections(stream),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=list(SPOIL))
@pytest.mark.parametrize("pause", [0.0, 0.5, 2.0])
async def test_what_comes_to_an_idle_connection(
    pause: float, spoil: Callable[[ScriptedServer, MemoryStream], None]
) -> None:
    """The connection ends; the next operation has another one, and no error."""
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, retryReads=False, connect=False) as client:
        await client.run()
        stream: Any = client.server("a").pool.state.idle[0].stream
        await anyio.sleep(pause)
        spoil(deployment["a:1"], stream)
        await check_health(client)
        assert stream.is_closed
        assert client.pool_log.words("closed|cleared") == ["closed 1 error"]


# --- while a connection is made ---


@SILENT_TOO
async def test_the_handshake_of_an_operation(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    # The answers of a handshake and of a check differ by name here.
    async with driver(deployment, connectTimeoutMS=2000, maxAdaptiveRetries=0, connect=False) as client:
        await anyio.sleep(1)
        deployment["a:1"].on("isMaster", answer)
        error = await fails(client, find(), deadline=Deadline(client.now + 5))
        check(error, kind, text)
        is_overload = kind is not ProtocolError
        assert error.has_error_label("SystemOverloadedError") is is_overload
        assert error.has_error_label("RetryableError") is is_overload
        assert client.types() == {"a": "Standalone" if is_overload else "Unknown"}
        deployment["a:1"].on("isMaster")
        await check_health(client)


# --- monitors ---


@SILENT_TOO
async def test_the_first_check(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("isMaster", answer)
    async with driver(deployment, connectTimeoutMS=2000, serverSelectionTimeoutMS=3000, connect=False) as client:
        error = await fails(client, find())
        assert isinstance(error, ServerSelectionTimeoutError)
        # The reason is in the message of those who had waited for the server.
        assert f"a:1 is Unknown: {kind.__name__}: " in str(error)
        assert text.removeprefix("a:1: ") in str(error)
        deployment["a:1"].on("isMaster")
        await check_health(client)


@pytest.mark.parametrize("streaming", [False, True], ids=["polling", "streaming"])
@EACH_BROKEN
async def test_a_later_check(answer: Answer, kind: type[PyMongoError], text: str, streaming: bool) -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=streaming)
    server = deployment["a:1"]
    async with driver(deployment, connect=False) as client:
        await client.run()
        before = client.server("a").pool.generation
        if streaming:
            server.exhausts = False
            server.announce()
            await until(lambda: any("maxAwaitTimeMS" in hello.document for hello in server.hellos))
        server.on("hello", answer)
        server.announce()
        # The polling monitor looks again after ten seconds.
        await until(lambda: client.server("a").pool.generation > before, interval=0.05)
        gone = [event for event in client.log.events if getattr(event, "new_description", None)]
        errors = [event.new_description.error for event in gone if getattr(event.new_description, "error", None)]
        check(errors[0], kind, text)
        server.on("hello")
        server.exhausts = True
        await until(lambda: client.types() == {"a": "Standalone"}, interval=0.05)
        await check_health(client)


async def test_an_unsolicited_message_to_a_monitor() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await client.run()
        own: Any = client.server("a").pool.state.idle[0].stream
        (stream,) = deployment["a:1"].open_connections - {own}
        stream.deliver(op_msg.encode(1, b"\x05\0\0\0\0"))
        await anyio.sleep(25)
        assert client.log.words("heartbeat failed|server changed") == [
            "server changed a Unknown to Standalone",
            "heartbeat failed a",
            "server changed a Standalone to Unknown",
            "server changed a Unknown to Standalone",
        ]
        await check_health(client)


PLAIN: dict[str, Any] = {"username": "ada", "password": "pencil", "authMechanism": "PLAIN", "tls": True}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=list(SPOIL))
@pytest.mark.parametrize(("last", "options"), [("isMaster", {}), ("saslStart", PLAIN)], ids=["hello", "authentication"])
async def test_a_handshake_that_is_followed_by_something(
    last: str,
    options: dict[str, Any],
    spoil: Callable[[ScriptedServer, MemoryStream], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection is of no use as soon as it is made; only the monitor's is left alone."""
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.on("saslStart", {"conversationId": 1, "done": True, "payload": b""})
    perform, spoiled = server._perform, 0

    def reply(stream: MemoryStream, request_id: int, document: Any, *rest: Any) -> None:
        nonlocal spoiled
        perform(stream, request_id, document, *rest)
        # The limit is for a client that tries for ever.
        if last in document and server.connections_made > 1 and spoiled < 50:
            spoiled += 1
            spoil(server, stream)

    monkeypatch.setattr(server, "_perform", reply)
    async with driver(deployment, **options, connect=False) as client:
        with pytest.raises(AutoReconnect, match="unsolicited data after the handshake"):
            await client.run(find())
        assert spoiled <= 6
        spoiled = 50
        await check_health(client)
