"""Pure: what a client's network saw: its connections, the commands it sent, and the replies that reached it.

The account of the bytes. It shares nothing with the driver's own state, so it can contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import bson

from motorlite._wire import op_msg
from motorlite._wire.frames import OP_MSG

if TYPE_CHECKING:
    from collections.abc import Hashable

    from motorlite._base.values import Address

# What sets up or checks a connection. Its replies may arrive unasked (streaming), and tell nothing about operations.
_SETUP: Final = frozenset({"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate"})
_LENGTH: Final = Struct("<i")
_HEADER: Final = Struct("<iiiiI")
# The header, the flags, the kind of the first section, the length of its document, and the type of its first field.
_FIRST_NAME: Final = 16 + 4 + 1 + 4 + 1


@dataclass(slots=True, eq=False)
class Request:
    """A command on the wire.

    Attributes:
        id: That of its message.
        link: The connection that it was sent on.
        name: Its name.
        document: All of it, document sequences included.
        sent_at: Loop time.
        is_acknowledged: Whether the server replies.
        reply: What arrived, or None.
        is_lost: The connection ended before the reply had arrived as a whole.
    """

    id: int
    link: Link
    name: str
    document: dict[str, Any]
    sent_at: float
    is_acknowledged: bool
    reply: dict[str, Any] | None = None
    is_lost: bool = False

    @property
    def session(self) -> bytes | None:
        """The id of its server session."""
        lsid = self.document.get("lsid")
        return None if lsid is None else bytes(lsid["id"])

    @property
    def number(self) -> int | None:
        """Its transaction number."""
        number = self.document.get("txnNumber")
        return None if number is None else int(number)

    @property
    def is_open(self) -> bool:
        """Whether the server may still work on it."""
        return self.is_acknowledged and self.reply is None and not self.is_lost

    def content(self) -> bytes:
        """Return what its retry must repeat: all but the fields that the driver derives from the moment of sending."""
        return bson.encode({key: value for key, value in self.document.items() if key not in _MOMENTARY})


_MOMENTARY: Final = frozenset(
    {
        *("lsid", "txnNumber", "$clusterTime", "maxTimeMS", "$readPreference", "comment"),
        *("readConcern", "writeConcern", "recoveryToken"),  # afterClusterTime, and what a second commit waits for
    }
)


@dataclass(slots=True, eq=False)
class Link:
    """One connection of the client's.

    Attributes:
        address: Of its server.
        is_open: Whether the client has kept its end open.
        is_cut: Whether the other end is gone, as far as the client can know.
        is_used: Whether it has carried a command of an operation, which a monitor's never does.
        is_spoiled: Whether a reply has arrived since that no request of the client waits for.
        owed: The requests without a reply, by the id that the reply responds to.
    """

    address: Address
    is_open: bool = True
    is_cut: bool = False
    is_used: bool = False
    is_spoiled: bool = False
    owed: dict[int, Request] = field(default_factory=dict)
    _written: bytearray = field(default_factory=bytearray)
    _arrived: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes, now: float) -> list[Request]:
        """Take bytes that the client has written; return the commands of operations that they complete."""
        return [request for frame in _frames(self._written, data) if (request := self._request(frame, now)) is not None]

    def _request(self, frame: bytes, now: float) -> Request | None:
        name = frame[_FIRST_NAME : frame.index(b"\0", _FIRST_NAME)].decode()
        if name in _SETUP:
            return None
        message = op_msg.parse(frame)
        document = bson.decode(message.body)
        for key, items in (message.sequences or {}).items():
            document[key] = [bson.decode(item) for item in items]
        request = Request(message.request_id, self, name, document, now, not message.more_to_come)
        self.is_used = True
        return request

    def deliver(self, data: bytes) -> list[Request]:
        """Take bytes that reach the client; return the requests whose replies they complete."""
        answered = []
        for frame in _frames(self._arrived, data):
            _, reply_id, response_to, op_code, _ = _HEADER.unpack_from(frame)
            request = self.owed.pop(response_to, None) if op_code == OP_MSG else None
            if request is None:
                self.is_spoiled = self.is_used
            else:
                message = op_msg.parse(frame)
                request.reply = bson.decode(message.body)
                answered.append(request)
                if message.more_to_come:
                    self.owed[reply_id] = Request(
                        reply_id, self, request.name, request.document, request.sent_at, is_acknowledged=True
                    )
        return answered

    def end(self, *, by_client: bool) -> list[Request]:
        """Take the end of one side; return the requests that will get no reply."""
        if by_client:
            self.is_open = False
        else:
            self.is_cut = True
        lost = list(self.owed.values())
        self.owed.clear()
        for request in lost:
            request.is_lost = True
        return lost


def _frames(buffer: bytearray, data: bytes) -> list[bytes]:
    """Return the messages that `data` completes, and keep the rest."""
    buffer += data
    frames = []
    while len(buffer) >= _LENGTH.size and len(buffer) >= (length := _LENGTH.unpack_from(buffer)[0]) > 0:
        frames.append(bytes(buffer[:length]))
        del buffer[:length]
    return frames


@dataclass(slots=True)
class Wire:
    """All connections of one client, by what its network knows them by."""

    links: dict[Hashable, Link] = field(default_factory=dict)

    def open_links(self) -> list[Link]:
        """Return the connections that neither side has closed, and forget the others."""
        for key in [key for key, link in self.links.items() if not link.is_open or link.is_cut]:
            del self.links[key]
        return list(self.links.values())
