"""The replica set behind the facade: connections to its primary and to its secondaries."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

from tests.support.mongos import messages
from tests.support.mongos.errors import (
    FAILED_TO_PARSE,
    FAILED_TO_SATISFY_READ_PREFERENCE,
    HOST_UNREACHABLE,
    CommandError,
)
from tests.support.mongos.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._base.values import Address

# By mode: whether the primary is wanted, and then what else will do.
_ORDER: Final = {
    "primary": (True,),
    "primaryPreferred": (True, False),
    "secondary": (False,),
    "secondaryPreferred": (False, True),
    "nearest": (True, False),
}


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message.

    Raises:
        asyncio.IncompleteReadError: there is no more.
    """
    size = await reader.readexactly(4)
    return Message(size + await reader.readexactly(int.from_bytes(size, "little") - 4))


class Backend:
    """A connection to a member."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: Mapping[str, Any]
    ) -> None:
        self.address = address
        self.hello = hello
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address, hello: Message) -> tuple[Backend, Message]:
        """Connect, and say the hello of the client that the connection is for; return the reply too."""
        host, port = address
        reader, writer = await asyncio.open_connection(host, port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            writer.write(hello.data)
            reply = await read_message(reader)
        except BaseException:
            writer.close()
            raise
        return cls(address, reader, writer, reply.document), reply

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, data: bytes) -> Message:
        """Send a request and return the reply."""
        self._writer.write(data)
        return await read_message(self._reader)

    def close(self) -> None:
        self._writer.close()


class Backends:
    """The connections to members that one connection of a client has, each opened when it is needed."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses
        # The client's, for connections that are still to come.
        self.hello: Message = messages.request({"hello": 1, "$db": "admin"})
        self._open: dict[Address, Backend] = {}

    async def at(self, address: Address) -> Backend:
        """The connection to a member.

        Raises:
            CommandError: the member refuses the client's hello.
        """
        if address not in self._open:
            reply = (await self._connect(address, self.hello)).document
            if not reply["ok"]:
                raise CommandError(reply["code"], reply["errmsg"])
        return self._open[address]

    async def greet(self, hello: Message) -> Message:
        """Say hello to the primary and return the reply, with which an authentication may begin."""
        self.hello = hello
        for address in self._addresses:
            reply = await self._connect(address, hello)
            if _is_primary(reply.document) or not reply.document["ok"]:
                return reply
        raise CommandError(HOST_UNREACHABLE, "there is no primary")

    async def select(self, preference: Mapping[str, Any]) -> Backend:
        """A connection to a member that a read preference allows.

        Raises:
            CommandError: there is none; a mongos would look for one for a while.
        """
        mode = preference.get("mode", "primary")
        order = _ORDER.get(mode)
        if order is None:
            raise CommandError(FAILED_TO_PARSE, f"Could not parse $readPreference mode '{mode}'")
        for is_primary in order:
            for address in self._addresses:
                found = await self.at(address)
                if _is_suitable(found.hello, preference, is_primary=is_primary):
                    return found
        raise CommandError(
            FAILED_TO_SATISFY_READ_PREFERENCE, f"Could not find host matching read preference {preference}"
        )

    def close(self) -> None:
        for backend in self._open.values():
            backend.close()

    async def _connect(self, address: Address, hello: Message) -> Message:
        self._open[address], reply = await Backend.open(address, hello)
        return reply


def _is_primary(hello: Mapping[str, Any]) -> bool:
    return bool(hello.get("isWritablePrimary") or hello.get("ismaster"))


def _is_suitable(hello: Mapping[str, Any], preference: Mapping[str, Any], *, is_primary: bool) -> bool:
    if is_primary is not _is_primary(hello) or not (is_primary or hello.get("secondary")):
        return False
    if is_primary and preference.get("mode") != "nearest":
        return True  # tags choose among secondaries
    found = hello.get("tags", {})
    wanted = preference.get("tags") or [{}]
    return any(all(found.get(name) == value for name, value in one.items()) for one in wanted)
