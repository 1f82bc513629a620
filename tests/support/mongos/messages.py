"""OP_MSG as the facade needs it: what a request asks for, and replies, passed on with a field more or written anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from motorlite._wire import op_msg
from motorlite._wire.frames import OP_MSG

if TYPE_CHECKING:
    from collections.abc import Mapping

# Length, request id, responseTo, opcode, flags.
_HEAD: Final = Struct("<iiiiI")
_FLAGS_AT: Final = 16
# Values inside of a document stay bytes until they are looked at.
_RAW: Final[CodecOptions[Mapping[str, Any]]] = CodecOptions(document_class=RawBSONDocument)
# Commands that are executed where their read preference says; all others go to the primary.
_READS: Final = frozenset(
    {"aggregate", "collStats", "count", "dbStats", "distinct", "explain", "find", "listCollections", "listIndexes"}
)


class Unusable(Exception):
    """What no driver may send; the connection is closed."""


@dataclass(eq=False)
class Message:
    """A request or a reply: its bytes, and the document that is its section of kind 0."""

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) < _HEAD.size:
            raise Unusable(f"a message of {len(self.data)} bytes")
        _, self.request_id, self.response_to, opcode, self.flags = _HEAD.unpack_from(self.data)
        if opcode != OP_MSG or self.flags & op_msg.CHECKSUM_PRESENT:
            raise Unusable(f"opcode {opcode}, flags {self.flags}: no compressor and no checksum was agreed on")

    @property
    def more_to_come(self) -> bool:
        """Of a request: no reply is expected."""
        return bool(self.flags & op_msg.MORE_TO_COME)

    @property
    def exhaust_allowed(self) -> bool:
        """Of a request: there may be more than one reply."""
        return bool(self.flags & op_msg.EXHAUST_ALLOWED)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The command or the reply, without what is in sections of kind 1."""
        return bson.decode(bytes(op_msg.parse(self.data).body), _RAW)

    @cached_property
    def name(self) -> str:
        """Of a request: the command's name."""
        return next(iter(self.document))

    @property
    def namespace(self) -> str:
        """Of a request: database and collection."""
        target = self.document["collection" if self.name == "getMore" else self.name]
        return f"{self.document['$db']}.{target}"

    @property
    def is_read(self) -> bool:
        """Whether a read preference decides where it is executed."""
        return self.name in _READS

    def without_exhaust(self) -> bytes:
        """The bytes of a request that there is one reply to: mongos has no exhaust cursors."""
        if not self.exhaust_allowed:
            return self.data
        flags = (self.flags & ~op_msg.EXHAUST_ALLOWED).to_bytes(4, "little")
        return b"".join((self.data[:_FLAGS_AT], flags, self.data[_FLAGS_AT + 4 :]))

    def with_fields(self, fields: Mapping[str, Any]) -> bytes:
        """The bytes of a reply with more fields at its end; what is there already is not decoded."""
        body = bytes(op_msg.parse(self.data).body)
        longer: bytes = body[4:-1] + bson.encode(fields)[4:]
        return reply((len(longer) + 4).to_bytes(4, "little") + longer, self.response_to)


def request(document: Mapping[str, Any]) -> Message:
    """A request of the facade's own."""
    return Message(op_msg.encode(1, bson.encode(document)))


def reply(document: Mapping[str, Any] | bytes, response_to: int, request_id: int = 0, flags: int = 0) -> bytes:
    """The bytes of a reply."""
    body = document if isinstance(document, bytes) else bson.encode(document)
    message = bytearray(op_msg.encode(request_id, body, flags=flags))
    message[8:12] = response_to.to_bytes(4, "little", signed=True)
    return bytes(message)
