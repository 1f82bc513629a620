"""One connection: commands and their replies, exhaust replies, and what spoils it."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.errors import InvalidDocument

from motorlite._base.values import Progress
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._connection.handshake import parse_hello
from motorlite._connection.messages import encode_command
from motorlite._net.current import current_runtime
from motorlite._net.host import next_request_id
from motorlite._wire import op_msg
from motorlite._wire.documents import decode_reply
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect, DocumentTooLarge, NetworkTimeout, PoolClearedError, ProtocolError
from motorlite.testing.memory_stream import MemoryStream
from motorlite.testing.scripted import encode_reply
from tests.support.pools import settle

if TYPE_CHECKING:
    from motorlite._base.values import ServerFacts

pytestmark = pytest.mark.anyio

ADDRESS = ("a", 1)


def facts(**fields: Any) -> ServerFacts:
    return parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17, **fields}, False).facts


class Peer:
    """Keeps what arrives; the test answers by hand."""

    def __init__(self) -> None:
        runtime = current_runtime()
        self.framer = FrameReader()
        self.stream = MemoryStream(runtime, ADDRESS, self.framer, self)
        decoder = Decoder(runtime.sleep, pauses_collector=True)
        self.connection = Connection(ADDRESS, 7, 3, self.stream, self.framer, decoder)
        self.now = runtime.now
        self.messages: list[op_msg.Message] = []
        self.raw: list[bytes] = []
        self.was_closed = False

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        self.raw.append(data)
        self.messages += [op_msg.parse(frame) for frame in FrameReader().feed(data)]

    def client_closed(self, stream: MemoryStream) -> None:
        self.was_closed = True

    def answer(self, document: dict[str, Any], *, flags: int = 0, reply_id: int = 1, to: int | None = None) -> None:
        to = self.messages[-1].request_id if to is None else to
        self.stream.deliver(encode_reply(reply_id, to, document, flags))


async def background(peer: Peer, group: anyio.abc.TaskGroup, function: Any, *args: Any) -> list[Any]:
    """Run until it waits; the list gets the outcome."""
    outcome: list[Any] = []

    async def run() -> None:
        try:
            outcome.append(await function(*args))
        except Exception as error:
            outcome.append(error)

    group.start_soon(run)
    await settle()
    return outcome


# --- messages ---


def test_a_command_as_a_message() -> None:
    sequences = [("documents", [b"\x05\0\0\0\0"])]
    message = encode_command(
        {"insert": "c", "$db": "d"}, DEFAULT_CODEC_OPTIONS, sequences, 42, facts(), is_acknowledged=True
    )
    parsed = op_msg.parse(message)
    assert parsed.request_id == 42
    assert not parsed.more_to_come
    assert decode_reply(parsed.body) == {"insert": "c", "$db": "d"}
    assert parsed.sequences is not None
    assert [bytes(item) for item in parsed.sequences["documents"]] == [b"\x05\0\0\0\0"]
    unacknowledged = encode_command(
        {"insert": "c"}, DEFAULT_CODEC_OPTIONS, sequences, 1, facts(), is_acknowledged=False
    )
    assert op_msg.parse(unacknowledged).more_to_come


def test_too_large_a_command() -> None:
    server = facts(maxBsonObjectSize=1000, maxMessageSizeBytes=40_000)

    def size(length: int, sequences: Any = ()) -> int:
        document = {"find": "c", "x": "y" * length}
        return len(encode_command(document, DEFAULT_CODEC_OPTIONS, sequences, 1, server, is_acknowledged=True))

    assert size(1000 + 16 * 1024 - 40) > 1000, "a document of the largest size has a command around it"
    with pytest.raises(DocumentTooLarge, match=r"the command has \d+ bytes, more than the 17384 that the server"):
        size(1000 + 16 * 1024)
    sequences = [("documents", [b"\x05\0\0\0\0"] * 7900)]
    assert size(10, sequences) < 40_000
    with pytest.raises(DocumentTooLarge, match=r"the message has \d+ bytes, more than the 40000 that"):
        size(500, sequences)


def test_a_value_that_cannot_be_bson() -> None:
    with pytest.raises(InvalidDocument):
        encode_command({"find": object()}, DEFAULT_CODEC_OPTIONS, (), 1, facts(), is_acknowledged=True)


# --- one request, one reply ---


async def test_a_command_and_its_reply() -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, peer.connection.command, "db", {"ping": 1}, peer.now() + 5)
        assert decode_reply(peer.messages[0].body) == {"ping": 1, "$db": "db"}
        peer.answer({"ok": 1, "n": 3})
        await settle()
        assert outcome == [{"ok": 1, "n": 3}]
        # An error in a reply is the caller's business, and says nothing about the connection.
        outcome = await background(peer, group, peer.connection.command, "db", {"ping": 1}, peer.now() + 5)
        peer.answer({"ok": 0, "code": 2})
        await settle()
        assert outcome == [{"ok": 0, "code": 2}]
        assert not peer.stream.is_closed


async def test_nothing_is_awaited_after_an_unacknowledged_command() -> None:
    peer = Peer()
    message = op_msg.encode(9, b"\x05\0\0\0\0", (), op_msg.MORE_TO_COME)
    await peer.connection.send_only(message, peer.now() + 5)
    assert peer.messages[0].request_id == 9
    # Of half a message, nobody knows what the server makes.
    peer.stream.is_stalled = True
    with pytest.raises(NetworkTimeout):
        await peer.connection.send_only(message, peer.now() + 5)
    assert peer.was_closed


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_no_reply_in_time(is_cancelled: bool) -> None:
    peer = Peer()
    begun = peer.now()
    with anyio.move_on_after(1 if is_cancelled else inf) as scope, suppress(NetworkTimeout):
        await peer.connection.command("db", {"ping": 1}, begun + 5)
    assert scope.cancelled_caught is is_cancelled
    assert peer.now() == begun + (1 if is_cancelled else 5)
    assert peer.connection.progress is Progress.IN_FLIGHT
    assert peer.was_closed, "its reply would be somebody else's"


async def test_a_reply_that_is_no_bson() -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, peer.connection.command, "db", {"ping": 1}, peer.now() + 5)
        reply = bytearray(op_msg.encode(1, b"\x0b\0\0\0\x7ba\0xxx\0"))
        reply[8:12] = peer.messages[0].request_id.to_bytes(4, "little")
        peer.stream.deliver(bytes(reply))
    assert isinstance(outcome[0], ProtocolError)
    assert "the server sent a reply that is not valid BSON" in str(outcome[0])
    assert peer.was_closed


@pytest.mark.parametrize(("announced", "limit"), [(1000, 1000), (2**31 - 1, 48_000_000)])
async def test_the_limit_of_the_server_is_learned_up_to_that_of_the_protocol(announced: int, limit: int) -> None:
    connection = Peer().connection
    connection.learn(parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17, "maxMessageSizeBytes": announced}, False))
    connection.expect_replies()
    assert connection.framer.max_message_size == limit
    assert connection.facts.max_message_size == announced, "what it takes is for it to say"


# --- exhaust ---


async def hello(peer: Peer) -> Any:
    return await peer.connection.command("admin", {"hello": 1}, peer.now() + 5, is_exhaust=True)


async def test_replies_that_come_by_themselves() -> None:
    peer = Peer()
    connection = peer.connection
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, hello, peer)
        assert int.from_bytes(peer.raw[0][16:20], "little") == op_msg.EXHAUST_ALLOWED
        peer.answer({"n": 1}, flags=op_msg.MORE_TO_COME, reply_id=500)
        await settle()
        assert (outcome[0]["n"], connection.streaming) == (1, 500)
        outcome = await background(peer, group, hello, peer)
        peer.answer({"n": 2}, reply_id=501, to=500)
        await settle()
        assert (outcome[0]["n"], connection.streaming) == (2, None)
        assert len(peer.raw) == 1, "only asked once"


@pytest.mark.parametrize("is_last", [True, False])
async def test_what_follows_the_last_of_these_replies_closes_the_connection(is_last: bool) -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, hello, peer)
        peer.answer({"n": 1}, flags=0 if is_last else op_msg.MORE_TO_COME, reply_id=500)
        peer.answer({"n": 2}, reply_id=501, to=500)
        await settle()
        assert outcome[0]["n"] == 1
        assert peer.was_closed == is_last


async def test_more_will_come_says_the_reply_to_an_ordinary_command() -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, peer.connection.command, "db", {"ping": 1}, peer.now() + 5)
        peer.answer({"n": 1}, flags=op_msg.MORE_TO_COME)
        await settle()
        assert outcome[0]["n"] == 1, "the reply is in order"
        assert peer.was_closed, "what follows it must not reach the next caller"


async def test_a_reply_that_does_not_follow_the_last_one() -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        await background(peer, group, hello, peer)
        peer.answer({}, flags=op_msg.MORE_TO_COME, reply_id=500)
        await settle()
        second = await background(peer, group, hello, peer)
        peer.answer({}, to=77)
    assert isinstance(second[0], ProtocolError)
    assert str(second[0]) == "expected the reply to request 500, got the reply to 77"
    assert peer.was_closed


# --- interruption ---


async def test_the_reason_of_an_interruption_is_the_error() -> None:
    peer = Peer()
    async with anyio.create_task_group() as group:
        outcome = await background(peer, group, peer.connection.command, "db", {"ping": 1}, peer.now() + 5)
        reason = PoolClearedError("interrupted")
        peer.connection.interrupt(reason)
    (error,) = outcome
    assert (type(error), str(error)) == (type(reason), str(reason))
    assert isinstance(error.__cause__, AutoReconnect)
    assert reason.__traceback__ is None, "the connection keeps it, and no frame with it"
    assert peer.was_closed


async def test_an_interruption_does_not_replace_a_cancellation() -> None:
    peer = Peer()
    with anyio.CancelScope() as scope:
        scope.cancel()
        peer.connection.interruption = PoolClearedError("interrupted")
        await peer.connection.command("db", {"ping": 1}, peer.now() + 5)
    assert scope.cancelled_caught


async def test_close() -> None:
    peer = Peer()
    peer.connection.close()
    peer.connection.close()
    assert peer.was_closed
    with pytest.raises(AutoReconnect, match="closed by this client"):
        await peer.connection.command("db", {"ping": 1}, peer.now() + 5)


async def test_waiting_for_an_owed_reply_can_go_on() -> None:
    peer = Peer()
    connection = peer.connection
    connection.learn(parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17}, False))
    request_id = next_request_id()
    message = op_msg.encode(request_id, b"\x05\0\0\0\0", (), 0)
    with pytest.raises(NetworkTimeout):
        await connection.round_trip(message, request_id, peer.now() + 0.01)
    assert connection.owed == request_id
    connection.owed_until = peer.now() + 60
    assert await connection.receive_owed(peer.now() + 0.01) is None
    assert connection.owed == request_id
    assert not peer.was_closed
    peer.answer({"ok": 1, "late": True}, to=request_id)
    assert await connection.receive_owed() == {"ok": 1, "late": True}
    assert connection.owed is None


@pytest.mark.parametrize(
    ("name", "field", "what"),
    [("insert", "documents", "document"), ("update", "updates", "update"), ("delete", "deletes", "delete")],
)
def test_too_large_a_statement_of_an_unacknowledged_write(name: str, field: str, what: str) -> None:
    """The server has no way to report it."""
    server = facts(maxBsonObjectSize=1000)

    def encoded(size: int, *, is_acknowledged: bool) -> bytes:
        statement = {"s": "x" * (size - 13)}
        assert len(bson.encode(statement)) == size
        document = {name: "c", "ordered": True, field: [statement], "comment": ["c"], "$db": "d"}
        return encode_command(document, DEFAULT_CODEC_OPTIONS, (), 1, server, is_acknowledged=is_acknowledged)

    assert len(encoded(1000, is_acknowledged=False)) == len(encoded(1000, is_acknowledged=True))
    encoded(1001, is_acknowledged=True)
    with pytest.raises(
        DocumentTooLarge, match=f"the {what} has 1001 bytes, more than the 1000 that the server accepts"
    ):
        encoded(1001, is_acknowledged=False)
    # Other commands may be larger than a document.
    for other in ({"findAndModify": "c", "update": {"s": "x" * 1100}}, {name: "c", "s": "x" * 1100}):
        encode_command(other, DEFAULT_CODEC_OPTIONS, (), 1, server, is_acknowledged=False)
