"""Shell: one socket to a server. Sends messages and receives their replies; knows nothing of retries or sessions."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._net.runtime import WaitTimeout
from motorlite._pool.compressed_stream import CompressedStream
from motorlite._pool.messages import next_request_id
from motorlite._pool.services import Purpose
from motorlite._wire import op_msg
from motorlite._wire.documents import LENIENT, decode_reply, encode
from motorlite._wire.header import MAX_MESSAGE_SIZE
from motorlite.errors import NetworkTimeout, ProtocolError, PyMongoError, detached, no_time_left

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bson.codec_options import CodecOptions
    from bson.objectid import ObjectId

    from motorlite._net.runtime import FrameStream
    from motorlite._pool.handshake import Handshake
    from motorlite._wire.frames import FrameReader
    from motorlite.values import Address, Document, ServerFacts


Renew: TypeAlias = "Callable[[Connection, float, float | None], Awaitable[None]]"


class ExhaustReply(NamedTuple):
    """A reply after which the server may send another."""

    document: Document
    request_id: int
    more_to_come: bool


def _encode(database: str, document: Mapping[str, Any], request_id: int, flags: int) -> bytes:
    return op_msg.encode(request_id, encode({**document, "$db": database}, DEFAULT_CODEC_OPTIONS), (), flags)


def _not_the_reply(request_id: int, message: op_msg.Message) -> ProtocolError:
    return ProtocolError(f"expected the reply to request {request_id}, got that to {message.response_to}")


def _unusable(error: Exception) -> ProtocolError:
    """What `bson` or Python has to say about a value in a reply that no user is to see."""
    return ProtocolError(f"the server sent a reply that cannot be used: {error!r}")


class Connection:
    """A connection of a pool or of a monitor.

    After a timeout or a cancellation of `round_trip` the server may still owe the reply (`owed`); until that has
    arrived, the connection is good for nothing else. After any other error it is closed.
    """

    __slots__ = (
        "address",
        "asked_for_at",
        "facts",
        "framer",
        "generation",
        "handshake",
        "haste",
        "hello_duration",
        "id",
        "idle_since",
        "in_use_since",
        "interruption",
        "owed",
        "owed_until",
        "purpose",
        "refused",
        "renew",
        "service_id",
        "stream",
    )

    facts: ServerFacts
    handshake: Handshake

    def __init__(
        self, address: Address, connection_id: int, generation: int, stream: FrameStream, framer: FrameReader
    ) -> None:
        self.address = address
        # Unique in its pool, from 1 (pooling specification).
        self.id = connection_id
        # The pool's generation at its creation; behind a load balancer that of the service, once it is known.
        self.generation = generation
        self.service_id: ObjectId | None = None
        # What it is in use for.
        self.purpose = Purpose.OTHER
        self.stream = stream
        self.framer = framer
        # Seconds that the first hello and its reply took, which is a sample of the round-trip time.
        self.hello_duration = 0.0
        # Loop times of the last check-in, of the last check-out, and of the request that led to that.
        self.idle_since = 0.0
        self.in_use_since = 0.0
        self.asked_for_at = 0.0
        # The magnitude of the limit that this request had (`pace.haste`); None: none, or it is not known.
        self.haste: int | None = None
        # Why the pool interrupted the operation that uses this connection, or None.
        self.interruption: PyMongoError | None = None
        # The request that was sent whole and whose caller does not wait for the reply any more, or None; and the loop
        # time until which that reply is worth waiting for.
        self.owed: int | None = None
        self.owed_until = -inf
        # The last reply of `round_trip`, if it was in order but the caller's codec options refused a value in it.
        self.refused: Document | None = None
        # Authenticates it again: the connection, until when, and when the operation's timeoutMS is used up.
        self.renew: Renew | None = None

    def learn(self, handshake: Handshake) -> None:
        """Take over what the server said of itself."""
        self.handshake = handshake
        self.facts = handshake.facts

    def expect_replies(self) -> None:
        """Let replies be as long as the server may send them; before, they are those of a handshake."""
        # No server sends more than the protocol allows, whatever it announces.
        self.framer.max_message_size = min(self.facts.max_message_size, MAX_MESSAGE_SIZE)

    async def round_trip(
        self,
        message: bytes,
        request_id: int,
        until: float,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        document_fields: Mapping[str, Any] | None = None,
    ) -> Document:
        """Send `message` and wait for its reply, until the loop time `until`; the reply may be an error.

        Raises:
            NetworkTimeout: no reply in time; the connection is closed, or the reply is `owed`, as after a cancellation,
                or nothing was sent.
            AutoReconnect, ProtocolError: the connection is closed then.
            Exception: what Python or the user's decoder says of a value; the reply is in `refused`.
        """
        try:
            reply = op_msg.parse(await self.stream.exchange(message, until))
            if reply.response_to != request_id:
                raise _not_the_reply(request_id, reply)
            if reply.more_to_come:
                # This reply is in order; the next caller must not receive what follows it.
                self.close()
        except BaseException as error:
            if isinstance(error, ProtocolError) or self.stream.is_closed or self.stream.has_unsent:
                self._spoil(error)
            elif self.stream.sent_nothing:
                if isinstance(error, PyMongoError):
                    error.address = self.address
            else:
                self.owed = request_id
                self._mark(error)
            raise
        try:
            return decode_reply(reply.body, codec_options, document_fields)
        except ProtocolError as error:
            self._spoil(error)
            raise
        except Exception:
            # A value that Python or the user's own decoder refuses: the reply itself was in order.
            with suppress(ProtocolError):
                self.refused = decode_reply(reply.body, LENIENT, {})
            raise

    async def prepare(self, message: bytes, until: float) -> bytes:
        """A large message as it is to be sent: to compress it takes a while. Nothing is sent, so nothing can break.

        Raises:
            ExecutionTimeout: it was not ready at the loop time `until`.
        """
        stream = self.stream
        if not isinstance(stream, CompressedStream):
            return message
        try:
            return await stream.pack_large(message, until)
        except WaitTimeout:
            raise no_time_left() from None

    async def send_only(self, message: bytes, until: float) -> None:
        """Send `message`, to which no reply will come."""
        try:
            await self.stream.send(message, until)
        except BaseException as error:
            if self.stream.is_closed or not self.stream.sent_nothing:
                self._spoil(error)
            raise

    async def receive_owed(self, until: float = inf) -> Document | None:
        """Wait for the reply that is owed; then the connection is as good as new. None: not by the loop time `until`.

        Raises:
            NetworkTimeout: not by `owed_until`, which comes first or is the same; the connection is closed then.
            AutoReconnect, ProtocolError: the connection is closed then.
        """
        assert self.owed is not None
        try:
            reply = op_msg.parse(await self.stream.receive(min(until, self.owed_until)))
            if reply.response_to != self.owed or reply.more_to_come:
                raise _not_the_reply(self.owed, reply)
            document = decode_reply(reply.body, LENIENT, {})
        except BaseException as error:
            if until < self.owed_until and isinstance(error, NetworkTimeout) and not self.stream.is_closed:
                return None
            self._spoil(error)
            if isinstance(error, Exception) and not isinstance(error, PyMongoError):
                raise _unusable(error) from error
            raise
        self.owed = None
        return document

    async def command(self, database: str, document: Mapping[str, Any], until: float) -> Document:
        """Run a command of the driver's own (handshake, authentication, monitoring); the reply may be an error.

        Raises:
            NetworkTimeout, AutoReconnect, ProtocolError: the connection is closed then.
        """
        request_id = next_request_id()
        try:
            return await self.round_trip(_encode(database, document, request_id, 0), request_id, until)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, PyMongoError):
                raise _unusable(error) from error
            raise

    async def exhaust_command(self, database: str, document: Mapping[str, Any], until: float) -> ExhaustReply:
        """Run a command whose reply may be followed by others without being asked for."""
        request_id = next_request_id()
        message = _encode(database, document, request_id, op_msg.EXHAUST_ALLOWED)
        self.stream.expect_more(True)
        return await self._exhaust(self.stream.exchange(message, until), request_id)

    async def receive_more(self, before: ExhaustReply, until: float) -> ExhaustReply:
        """Wait for the reply after `before`, which said that more is to come."""
        return await self._exhaust(self.stream.receive(until), before.request_id)

    async def _exhaust(self, receiving: Awaitable[bytes | bytearray], response_to: int) -> ExhaustReply:
        try:
            message = op_msg.parse(await receiving)
            if message.response_to != response_to:
                raise _not_the_reply(response_to, message)
            if not message.more_to_come:
                self.stream.expect_more(False)
            # The server counts each of its messages as the request that the next one responds to.
            return ExhaustReply(decode_reply(message.body), message.request_id, message.more_to_come)
        except BaseException as error:
            self._spoil(error)
            if isinstance(error, Exception) and not isinstance(error, PyMongoError):
                raise _unusable(error) from error
            raise

    def _spoil(self, error: BaseException) -> None:
        self.stream.abort()
        self._mark(error)
        if isinstance(error, PyMongoError) and self.interruption is not None:
            raise detached(self.interruption) from error

    def _mark(self, error: BaseException) -> None:
        if isinstance(error, PyMongoError):
            error.address = self.address
            error.reached_server = True

    def interrupt(self, error: PyMongoError) -> None:
        """Make the operation that uses this connection fail with `error`."""
        self.interruption = error
        error.address = self.address
        error.reached_server = True
        self.stream.abort()

    def close(self) -> None:
        """Close the socket; returns at once."""
        self.stream.abort()
