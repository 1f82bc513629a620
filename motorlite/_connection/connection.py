"""Shell: one socket to a server. Sends messages and receives replies; retries and sessions are handled elsewhere."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.values import Progress
from motorlite._connection.decoding import LARGE
from motorlite._connection.handshake import Purpose
from motorlite._connection.messages import next_request_id
from motorlite._net.runtime import WaitTimeout
from motorlite._wire import op_msg
from motorlite._wire.documents import decode_reply, encode
from motorlite._wire.frames import MAX_MESSAGE_SIZE
from motorlite._wire.slices import decode_unread
from motorlite.errors import NetworkTimeout, ProtocolError, PyMongoError, detached, no_time_left

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bson.codec_options import CodecOptions
    from bson.objectid import ObjectId

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address, Document, ServerFacts
    from motorlite._connection.decoding import Decoder
    from motorlite._connection.handshake import Handshake
    from motorlite._net.runtime import FrameStream, Parts
    from motorlite._wire.frames import FrameReader


Renew: TypeAlias = "Callable[[Connection, float, float | None], Awaitable[None]]"


def _not_the_reply(request_id: int, message: op_msg.Message) -> ProtocolError:
    return ProtocolError(f"expected the reply to request {request_id}, got the reply to {message.response_to}")


def _unusable(error: Exception) -> ProtocolError:
    """Wrap an error of `bson` or Python about a value in a reply that users never see."""
    return ProtocolError(f"the server sent a reply that cannot be used: {error!r}")


@dataclass(slots=True, eq=False, repr=False)
class Connection:
    """A connection of a pool or of a monitor.

    After a timeout or a cancellation of `round_trip` the reply may still be pending (`owed`). The connection cannot be
    used for anything else until that reply has arrived. Any other error closes the connection.
    """

    address: Address
    # Unique within its pool, starting at 1 (pooling specification).
    id: int
    # The pool's generation when the connection was created; behind a load balancer, the service's generation once the
    # service is known.
    generation: int
    stream: FrameStream
    framer: FrameReader
    _decoder: Decoder
    handshake: Handshake = field(init=False)
    facts: ServerFacts = field(init=False)
    service_id: ObjectId | None = None
    # What the connection is checked out for.
    purpose: Purpose = Purpose.OTHER
    # Duration of the first hello and its reply in seconds, a sample of the round-trip time.
    hello_duration: float = 0.0
    # Loop times of the last check-in, of the last check-out, and of the request that led to the check-out.
    idle_since: float = 0.0
    in_use_since: float = 0.0
    asked_for_at: float = 0.0
    # The magnitude of that request's limit (`pace.urgency`); None: no limit, or an unknown one.
    urgency: int | None = None
    # Why the pool interrupted the operation on this connection, or None.
    interruption: PyMongoError | None = None
    # The id of a request that was sent completely but whose caller stopped waiting for the reply, or None; and the
    # loop time until which that reply is worth waiting for.
    owed: int | None = None
    owed_until: float = -inf
    # Whether the reply may open a cursor, which no caller receives.
    owes_cursor: bool = False
    # The message that the next unsolicited reply responds to; None: the server has announced no further replies.
    streaming: int | None = None
    # How far the last failed request got.
    progress: Progress = Progress.NOT_SENT
    # The last reply of `round_trip`, if it was valid but the caller's codec options rejected a value in it, or decoding
    # it was cancelled. A large batch may be missing.
    _refused: Document | None = None
    # Reauthenticates; called with the connection, the loop time at which the attempt ends, and the loop time at which
    # the operation's timeoutMS expires (None: not set). None if no credentials can authenticate it again.
    renew: Renew | None = None

    def learn(self, handshake: Handshake) -> None:
        """Store what the server reported about itself."""
        self.handshake = handshake
        self.facts = handshake.facts

    def expect_replies(self) -> None:
        """Raise the reply size limit from that of a handshake to the server's own."""
        # The protocol's limit applies regardless of what the server announces.
        self.framer.max_message_size = min(self.facts.max_message_size, MAX_MESSAGE_SIZE)

    async def round_trip(
        self,
        message: bytes | Parts,
        request_id: int,
        until: float,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        document_fields: Mapping[str, Any] | None = None,
    ) -> Document:
        """Send `message` and wait for its reply until the loop time `until`; the reply may be an error.

        Raises:
            NetworkTimeout: no reply in time; either the connection is closed, or the reply is `owed` as after a
                cancellation, or nothing was sent.
            AutoReconnect, ProtocolError: the exchange failed; the connection is closed.
            Exception: Python or the user's decoder rejected a value; `take_refused` returns the reply.
        """
        waiting = None
        try:
            waiting = self.stream.start_exchange(message, until)
            frame = await waiting
            waiting = None
            body = op_msg.sole_body(frame, request_id)
            if body is None:
                reply = op_msg.parse(frame)
                if reply.response_to != request_id:
                    raise _not_the_reply(request_id, reply)
                if reply.more_to_come:
                    # This reply is valid, but the next caller must not receive the ones that follow it.
                    self.close()
                body = reply.body
        except BaseException as error:
            stream = self.stream
            if waiting is not None:
                stream.interrupted(waiting)
                waiting = None  # it may hold the error, whose traceback references this frame
            self._learn_progress(stream)
            if isinstance(error, ProtocolError) or stream.is_closed or stream.has_unsent:
                self._spoil(error)
            elif not stream.sent_nothing:
                self.owed = request_id
            raise
        if len(body) > LARGE:
            return await self._decode(body, codec_options, document_fields)
        try:
            return decode_reply(body, codec_options, document_fields)
        except Exception as error:
            self._learn_rejected(body, error)
            raise

    async def next_reply(
        self,
        message: bytes | Parts,
        request_id: int,
        until: float,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        document_fields: Mapping[str, Any] | None = None,
    ) -> Document:
        """Wait for the next of the replies that the server streams; if there are none, send `message` first.

        After a timeout or a cancellation the connection is closed, because the server goes on sending.

        Raises:
            As `round_trip`.
        """
        assert isinstance(message, bytes)  # only insertions come in parts
        stream, expected = self.stream, self.streaming
        try:
            if expected is None:
                expected = request_id
                stream.expect_more(True)
                reply = op_msg.parse(await stream.exchange(message, until))
            else:
                reply = op_msg.parse(await stream.receive(until))
            if reply.response_to != expected:
                raise _not_the_reply(expected, reply)
            self.streaming = reply.request_id if reply.more_to_come else None
            if not reply.more_to_come:
                stream.expect_more(False)
        except BaseException as error:
            self._learn_progress(stream)
            self.streaming = None
            self._spoil(error)
            raise
        return await self._decode(reply.body, codec_options, document_fields)

    async def _decode(
        self,
        body: bytes | bytearray | memoryview,
        codec_options: CodecOptions[Any],
        document_fields: Mapping[str, Any] | None,
    ) -> Document:
        try:
            return await self._decoder.decode(body, codec_options, document_fields, self._keep_refused)
        except Exception as error:
            self._learn_rejected(body, error)
            raise
        except BaseException:
            # Cancelled, with a complete reply.
            self.progress = Progress.ANSWERED
            if self.streaming is not None:
                self.streaming = None
                self.close()
            raise

    def _learn_rejected(self, body: bytes | bytearray | memoryview, error: Exception) -> None:
        """Keep or close the connection after a reply that could not be decoded."""
        self.progress = Progress.ANSWERED
        if isinstance(error, ProtocolError):
            self._spoil(error)
            return
        # Python or the user's own decoder rejected a value; the reply itself was valid.
        with suppress(ProtocolError):
            self._keep_refused(decode_unread(body))

    def _keep_refused(self, reply: Document) -> None:
        self._refused = reply

    def take_refused(self) -> Document | None:
        """Return the last reply if it was valid but did not reach the caller; returns it only once."""
        refused, self._refused = self._refused, None
        return refused

    async def prepare(self, message: bytes | Parts, deadline: Deadline) -> bytes | Parts:
        """Return a large message in the form in which it is sent; compressing it takes a while.

        Nothing is sent here, so a failure leaves the connection usable.

        Raises:
            ExecutionTimeout: The deadline passed before the message was ready.
        """
        # That of a `CompressedStream`, which a client without compressors does not import.
        pack: Callable[[bytes, float], Awaitable[bytes]] | None = getattr(self.stream, "pack_large", None)
        if pack is None:
            return message
        try:
            return await pack(message if isinstance(message, bytes) else message.joined(), deadline.expires_at)
        except WaitTimeout:
            raise no_time_left(deadline.timeout) from None

    async def send_only(self, message: bytes | Parts, until: float) -> None:
        """Send `message`, which has no reply."""
        assert isinstance(message, bytes)  # only acknowledged insertions come in parts
        try:
            await self.stream.send(message, until)
        except BaseException as error:
            stream = self.stream
            self._learn_progress(stream)
            if stream.is_closed or not stream.sent_nothing:
                self._spoil(error)
            raise

    async def receive_owed(self, until: float = inf) -> Document | None:
        """Wait for the owed reply; the connection is usable again afterwards.

        Returns:
            The reply, or None if it did not arrive by the loop time `until`.

        Raises:
            NetworkTimeout: no reply by `owed_until`, which is not later than `until`; the connection is closed.
            AutoReconnect, ProtocolError: the connection failed and is closed.
        """
        assert self.owed is not None
        try:
            reply = op_msg.parse(await self.stream.receive(min(until, self.owed_until)))
            if reply.response_to != self.owed or reply.more_to_come:
                raise _not_the_reply(self.owed, reply)
            document = decode_unread(reply.body)
        except BaseException as error:
            if until < self.owed_until and isinstance(error, NetworkTimeout) and not self.stream.is_closed:
                return None
            self._spoil(error)
            if isinstance(error, Exception) and not isinstance(error, PyMongoError):
                raise _unusable(error) from error
            raise
        self.owed, self.owes_cursor = None, False
        return document

    async def command(
        self, database: str, document: Mapping[str, Any], until: float, *, is_exhaust: bool = False
    ) -> Document:
        """Run one of the driver's own commands (handshake, authentication, monitoring); the reply may be an error.

        With `is_exhaust`, the server may go on with further replies (`streaming`). The next calls return these, and
        send nothing.

        Raises:
            NetworkTimeout, AutoReconnect, ProtocolError: the command failed; the connection is closed.
        """
        request_id = next_request_id()
        body = encode({**document, "$db": database}, DEFAULT_CODEC_OPTIONS)
        message = op_msg.encode(request_id, body, (), op_msg.EXHAUST_ALLOWED if is_exhaust else 0)
        try:
            if is_exhaust:
                return await self.next_reply(message, request_id, until)
            return await self.round_trip(message, request_id, until)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, PyMongoError):
                raise _unusable(error) from error
            raise

    def _learn_progress(self, stream: FrameStream) -> None:
        """Record how far a failed request came, before the stream is closed."""
        is_whole = not (stream.sent_nothing or stream.has_unsent)
        self.progress = Progress.IN_FLIGHT if is_whole else Progress.NOT_SENT

    def _spoil(self, error: BaseException) -> None:
        self.stream.abort()
        if isinstance(error, PyMongoError) and self.interruption is not None:
            raise detached(self.interruption) from error

    def interrupt(self, error: PyMongoError) -> None:
        """Make the operation on this connection fail with `error`."""
        self.interruption = error
        self.stream.abort()

    def close(self) -> None:
        """Close the socket; returns immediately."""
        self.stream.abort()
