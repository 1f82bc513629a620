"""Shell: one socket to a server. Sends messages and receives their replies; knows nothing of retries or sessions."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._wire import op_msg
from motorlite._wire.documents import decode_reply, encode
from motorlite.errors import ProtocolError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._net.runtime import FrameStream
    from motorlite._pool.handshake import Handshake
    from motorlite._wire.frames import FrameReader
    from motorlite.values import Address, Document, ServerFacts

_request_ids = count(1)


def next_request_id() -> int:
    """A request id that no message in flight has (31 bits, shared by all clients)."""
    return next(_request_ids) & 0x7FFFFFFF


class Connection:
    """A connection of a pool or of a monitor.

    After an error or a cancellation in the middle of a request the connection is closed: its next reply would be
    somebody else's.
    """

    __slots__ = (
        "address",
        "facts",
        "framer",
        "generation",
        "handshake",
        "id",
        "idle_since",
        "interruption",
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
        # The pool's generation at its creation.
        self.generation = generation
        self.stream = stream
        self.framer = framer
        # Loop time of the last check-in.
        self.idle_since = 0.0
        # Why the pool interrupted the operation that uses this connection, or None.
        self.interruption: PyMongoError | None = None

    def learn(self, handshake: Handshake) -> None:
        """Take over what the server said of itself."""
        self.handshake = handshake
        self.facts = handshake.facts
        self.framer.max_message_size = handshake.facts.max_message_size

    async def round_trip(self, message: bytes, request_id: int, until: float) -> op_msg.Message:
        """Send `message` and wait for its reply, until the loop time `until`.

        Raises:
            NetworkTimeout, AutoReconnect, ProtocolError: the connection is closed then.
        """
        try:
            reply = op_msg.parse(await self.stream.exchange(message, until))
            if reply.response_to != request_id:
                raise ProtocolError(f"expected the reply to request {request_id}, got that to {reply.response_to}")
            return reply
        except BaseException as error:
            self._spoil(error)
            raise

    async def send_only(self, message: bytes, until: float) -> None:
        """Send `message`, to which no reply will come."""
        try:
            await self.stream.send(message, until)
        except BaseException as error:
            self._spoil(error)
            raise

    async def receive_more(self, response_to: int, until: float) -> op_msg.Message:
        """Wait for another message of an exhaust reply; `response_to` is the request id of the message before."""
        try:
            reply = op_msg.parse(await self.stream.receive(until))
            if reply.response_to != response_to:
                raise ProtocolError(f"expected more of request {response_to}, got a reply to {reply.response_to}")
            return reply
        except BaseException as error:
            self._spoil(error)
            raise

    async def command(
        self, database: str, document: Mapping[str, Any], until: float, flags: int = 0
    ) -> tuple[Document, op_msg.Message]:
        """Run a command of the driver's own (handshake, authentication, monitoring); the reply may be an error."""
        request_id = next_request_id()
        body = encode({**document, "$db": database}, DEFAULT_CODEC_OPTIONS)
        message = await self.round_trip(op_msg.encode(request_id, body, (), flags), request_id, until)
        return decode_reply(message.body), message

    def _spoil(self, error: BaseException) -> None:
        self.stream.abort()
        if isinstance(error, PyMongoError):
            error.address = self.address
            error.reached_server = True
            if self.interruption is not None:
                raise self.interruption from error

    def interrupt(self, error: PyMongoError) -> None:
        """Make the operation that uses this connection fail with `error`."""
        self.interruption = error
        error.address = self.address
        error.reached_server = True
        self.stream.abort()

    def close(self) -> None:
        """Close the socket; returns at once."""
        self.stream.abort()
