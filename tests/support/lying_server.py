"""A server on a real socket, in threads, that may send more than requested."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import bson

from motorlite._wire import op_msg
from motorlite._wire.frames import FrameReader
from motorlite.testing.scripted import encode_reply
from tests.support.threaded_server import ThreadedServer

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

HELLO: Final = {
    "ok": 1,
    "helloOk": True,
    "isWritablePrimary": True,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "minWireVersion": 0,
    "maxWireVersion": 17,
}


class LyingServer(ThreadedServer):
    """Answers hello as a standalone server does, and all other commands with ``{"ok": 1}``.

    Attributes:
        lies: Called with every command except hello and its encoded reply; returns the pieces to send instead.
        delay: The delay of replies in seconds.
        commands: The received commands other than hello, each with its connection number.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.lies: Callable[[dict[str, Any], bytes], list[bytes]] = lambda _, reply: [reply]
        self.delay = 0.0
        self.commands: list[tuple[str, int]] = []

    def converse(self, connection: socket.socket, number: int) -> None:
        reader = FrameReader()
        while data := connection.recv(65536):
            for frame in reader.feed(data):
                message = op_msg.parse(frame)
                command = bson.decode(message.body)
                name = next(iter(command))
                if name in ("hello", "isMaster", "ismaster"):
                    connection.sendall(encode_reply(1, message.request_id, HELLO))
                    continue
                self.commands.append((name, number))
                time.sleep(self.delay)
                for piece in self.lies(command, encode_reply(1, message.request_id, {"ok": 1})):
                    connection.sendall(piece)
