"""Servers that answer nonsense, half of an answer, or nothing: a clear error, a sound pool, and the next one works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._wire import op_msg
from motorlite._wire.compression import Zlib, compress
from motorlite.errors import (
    AutoReconnect,
    NetworkTimeout,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, encode_reply
from tests.support.core import Driver, driver, find, insert
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.testing.memory_stream import MemoryStream
    from motorlite.testing.scripted import Answer, ScriptedServer

pytestmark = pytest.mark.anyio

FOUND = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
WHOLE = encode_reply(1, 0, FOUND)

# What the server does, the error's type, and what its text must say.
CLOSED = "a:1: the server closed the connection"
BROKEN: list[Any] = [
    pytest.param(Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError, "the peer speaks HTTP", id="http"),
    pytest.param(Raw(b"\x00" * 16), ProtocolError, "a message announces 0 bytes; allowed are 16", id="zeros"),
    pytest.param(Raw(b"\xff\xff\xff\x7f" + b"x" * 60), ProtocolError, "announces 2147483647 bytes", id="too long"),
    pytest.param(Raw(b"\x10\0\0\0" + b"\0" * 12), ProtocolError, "16 bytes is too short for OP_MSG", id="header"),
    pytest.param(Raw(WHOLE[:12] + b"\1\0\0\0" + WHOLE[16:]), ProtocolError, "expected OP_MSG", id="OP_REPLY"),
    pytest.param(Raw(WHOLE), ProtocolError, "expected the reply to request", id="another's reply"),
    pytest.param(Raw(WHOLE[:20] + b"\x07" + WHOLE[21:]), ProtocolError, "section of unknown kind 7", id="section"),
    pytest.param(Raw(WHOLE[:7], close=True), AutoReconnect, CLOSED, id="closed in the header"),
    pytest.param(Raw(WHOLE[:40], close=True), AutoReconnect, CLOSED, id="closed in the body"),
    pytest.param(Close(), AutoReconnect, CLOSED, id="closed"),
]
# The same on a connection where the reply may be compressed. 25 bytes are before the compressed content.
PACKED = compress(WHOLE, Zlib())
COMPRESSED: list[Any] = [
    *BROKEN,
    pytest.param(
        Raw(b"\x18\0\0\0" + PACKED[4:24]), ProtocolError, "24 bytes is too short for OP_COMPRESSED", id="short"
    ),
    pytest.param(Raw(PACKED), ProtocolError, "expected the reply to request", id="another's compressed reply"),
    pytest.param(
        Raw(PACKED[:24] + b"\x04" + PACKED[25:]), ProtocolError, "compressor 4, which was not", id="compressor"
    ),
    pytest.param(Raw(PACKED[:24] + b"\x01" + PACKED[25:]), ProtocolError, "with snappy", id="another compressor"),
    pytest.param(Raw(PACKED[:20] + b"\xff" * 4 + PACKED[24:]), ProtocolError, "announces -1 bytes", id="negative"),
    pytest.param(Raw(PACKED[:20] + b"\0\0\0\x7f" + PACKED[24:]), ProtocolError, "announces 2130706432", id="huge"),
    pytest.param(Raw(PACKED[:20] + b"\x20\0\0\0" + PACKED[24:]), ProtocolError, "has more than the 32", id="bomb"),
    pytest.param(Raw(PACKED[:20] + b"\0\x20\0\0" + PACKED[24:]), ProtocolError, "bytes, not 8192", id="less"),
    pytest.param(Raw(PACKED[:40] + b"????" + PACKED[44:]), ProtocolError, "with zlib is damaged", id="damaged"),
    pytest.param(Raw(compress(PACKED, Zlib())), ProtocolError, "is compressed again", id="twice"),
    pytest.param(
        Raw(compress(WHOLE[:12] + b"\1\0\0\0" + WHOLE[16:], Zlib())),
        ProtocolError,
        "expected OP_MSG",
        id="OP_REPLY in it",
    ),
    pytest.param(
        Raw(compress(WHOLE[:20] + b"\x07" + WHOLE[21:], Zlib())), ProtocolError, "unknown kind 7", id="section in it"
    ),
    pytest.param(Raw(PACKED[:30], close=True), AutoReconnect, CLOSED, id="closed in the compressed content"),
]
SILENT: list[Any] = [
    pytest.param(Hang(), id="silent"),
    pytest.param(Raw(WHOLE[:40]), id="silent in the middle"),
    pytest.param(Reply(FOUND, 3600.0), id="too late"),
]


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


@pytest.mark.parametrize(("answer", "kind", "text"), BROKEN)
async def test_a_read(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, retryReads=False, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer)
        with pytest.raises(PyMongoError) as caught:
            await client.run(find())
        check(caught.value, kind, text)
        assert caught.value.attempts == 1
        await check_health(client)


@pytest.mark.parametrize(("answer", "kind", "text"), COMPRESSED)
async def test_a_compressed_read(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].compressors = ["zlib"]
    async with driver(deployment, retryReads=False, compressors=["zlib", "snappy"], connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer)
        with pytest.raises(PyMongoError) as caught:
            await client.run(find())
        check(caught.value, kind, text)
        await check_health(client)


@pytest.mark.parametrize(("answer", "kind", "text"), BROKEN)
async def test_a_write(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, retryWrites=False, connect=False) as client:
        await client.run()
        deployment["a:1"].on("insert", answer)
        with pytest.raises(PyMongoError) as caught:
            await client.run(insert())
        check(caught.value, kind, text)
        assert len(deployment["a:1"].commands("insert")) == 1, "an insert is not repeated behind anybody's back"
        deployment["a:1"].on("insert", {"n": 1})
        await check_health(client)


@pytest.mark.parametrize(("answer", "kind", "text"), BROKEN)
async def test_a_read_that_is_retried(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer, FOUND)
        if kind is AutoReconnect:
            assert (await client.run(find())).reply.documents == [{"_id": 1}]
        else:
            # Whoever does not speak the protocol will not the second time either.
            with pytest.raises(ProtocolError):
                await client.run(find())
        await check_health(client)


@pytest.mark.parametrize("answer", SILENT)
async def test_a_deadline(answer: Answer) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer)
        begun = client.now
        with pytest.raises(NetworkTimeout) as caught:
            await client.run(find(), Deadline(begun + 2.0, timeout=2.0))
        assert client.now == begun + 2.0
        check(caught.value, NetworkTimeout, "no reply in time")
        assert caught.value.phase == "reply"
        assert caught.value.timeout
        await check_health(client)


@pytest.mark.parametrize("answer", SILENT)
async def test_socket_timeout(answer: Answer) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, retryReads=False, socketTimeoutMS=1500, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", answer)
        begun = client.now
        with pytest.raises(NetworkTimeout) as caught:
            await client.run(find())
        assert client.now == begun + 1.5
        check(caught.value, NetworkTimeout, "no reply in time")
        assert client.types() == {"a": "Standalone"}, "a slow operation says nothing about the server"
        await check_health(client)


async def test_a_late_reply_reaches_nobody() -> None:
    deployment = ScriptedDeployment(["a:1"])
    wrong = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": "somebody else's"}]}}
    async with driver(deployment, retryReads=False, socketTimeoutMS=1000, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", Reply(wrong, 1.5), FOUND)
        with pytest.raises(NetworkTimeout):
            await client.run(find())
        for _ in range(10):
            assert (await client.run(find())).reply.documents == [{"_id": 1}]
            await anyio.sleep(0.1)
        await check_health(client)


@pytest.mark.parametrize(
    "surplus", [encode_reply(5, 4, FOUND), WHOLE[:1], b"\xff" * 30], ids=["message", "part", "garbage"]
)
@pytest.mark.parametrize("pause", [0.0, 0.5, 2.0])
async def test_more_than_was_asked_for(pause: float, surplus: bytes) -> None:
    """The connection that was lied to ends; the next operation has another one, and no error."""
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, retryReads=False, connect=False) as client:
        await client.run()
        deployment["a:1"].on("find", FOUND)
        stream: Any = client.server("a").pool.state.idle[0].stream
        await anyio.sleep(pause)
        stream.deliver(surplus)
        assert (await client.run(find())).reply.documents == [{"_id": 1}]
        assert stream.is_closed
        await check_health(client)


async def test_an_answer_without_ok_is_an_error() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", Reply({"ok": 0}))
    async with driver(deployment, connect=False) as client:
        with pytest.raises(OperationFailure, match="the server sent an error without a message"):
            await client.run(find())
        await check_health(client)


async def test_closed_while_idle() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await client.run()
        (connection,) = client.server("a").pool.state.idle
        stream: Any = connection.stream
        deployment["a:1"].drop_connections(stream)
        await check_health(client)
        assert client.pool_log.words("closed|cleared") == ["closed 1 error"]


# --- while a connection is made ---


@pytest.mark.parametrize(
    ("answer", "kind", "text"), [*BROKEN, pytest.param(Hang(), NetworkTimeout, "no reply in time")]
)
async def test_the_handshake_of_an_operation(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    # The answers of a handshake and of a check differ by name here.
    async with driver(deployment, connectTimeoutMS=2000, maxAdaptiveRetries=0, connect=False) as client:
        await anyio.sleep(1)
        deployment["a:1"].on("isMaster", answer)
        with pytest.raises(PyMongoError) as caught:
            await client.run(find(), Deadline(client.now + 5))
        check(caught.value, kind, text)
        is_overload = kind is not ProtocolError
        assert caught.value.has_error_label("SystemOverloadedError") is is_overload
        assert caught.value.has_error_label("RetryableError") is is_overload
        assert client.types() == {"a": "Standalone" if is_overload else "Unknown"}
        deployment["a:1"].on("isMaster")
        await check_health(client)


async def test_a_handshake_that_fails_is_retried_as_overload() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        server = deployment["a:1"]
        server.on("isMaster", Close(), Raw(WHOLE[:30], close=True), lambda _: server._hello_reply())
        begun = client.now
        await client.run(find())
        assert client.now == pytest.approx(begun + 0.1 + 0.2), "with backoff, not at once"
        await check_health(client)


async def test_no_connection_before_the_deadline() -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        deployment["a:1"].is_unreachable = True
        begun = client.now
        with pytest.raises(WaitQueueTimeoutError) as caught:
            await client.run(find(), Deadline(begun + 2))
        assert client.now == begun + 2
        check(
            caught.value,
            WaitQueueTimeoutError,
            "Timeout waiting for connection from the connection pool. maxPoolSize: 100",
        )
        assert caught.value.phase == "connecting"
        deployment["a:1"].is_unreachable = False
        await anyio.sleep(20)
        await check_health(client)


# --- monitors ---


@pytest.mark.parametrize(("answer", "kind", "text"), BROKEN)
async def test_the_first_check(answer: Answer, kind: type[PyMongoError], text: str) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("isMaster", answer)
    async with driver(deployment, serverSelectionTimeoutMS=3000, connect=False) as client:
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.run(find())
        # The reason is in the message of those who had waited for the server.
        assert f"a:1 is Unknown: {kind.__name__}: " in str(caught.value)
        assert text.removeprefix("a:1: ") in str(caught.value)
        deployment["a:1"].on("isMaster")
        await check_health(client)


@pytest.mark.parametrize("streaming", [False, True], ids=["polling", "streaming"])
@pytest.mark.parametrize(("answer", "kind", "text"), BROKEN)
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


async def test_a_monitor_that_is_never_answered() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("isMaster", Hang())
    async with driver(deployment, connectTimeoutMS=2000, serverSelectionTimeoutMS=5000, connect=False) as client:
        with pytest.raises(ServerSelectionTimeoutError, match="a:1 is Unknown: NetworkTimeout: no reply in time"):
            await client.run(find())
        deployment["a:1"].on("isMaster")
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


@pytest.mark.parametrize(
    "spoil",
    [
        lambda server, stream: stream.deliver(b"x"),
        lambda server, stream: stream.deliver(WHOLE),
        lambda server, stream: server.drop_connections(stream),
    ],
    ids=["a byte", "a message", "the end"],
)
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
