"""A server on a real socket, in threads, that may send more than requested."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import bson

from motorlite._wire import op_msg
from motorlite._wire.frames import FrameReader
from motorlite.testing.scripted import encode_reply

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    from motorlite._base.values import Address

PATIENCE: Final = 20.0
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


class LyingServer:
    """Answers hello as a standalone server does, and all other commands with ``{"ok": 1}``.

    Attributes:
        lies: Called with every command except hello and its encoded reply; returns the pieces to send instead.
        delay: The delay of replies in seconds.
        commands: The received commands other than hello, each with its connection number.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.lies: Callable[[dict[str, Any], bytes], list[bytes]] = lambda _, reply: [reply]
        self.delay = 0.0
        self.commands: list[tuple[str, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._is_closed = True
        for sock in (self._listener, *self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _start(self, function: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=function, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(PATIENCE)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(connection.dup())
                self._start(self._serve, connection, len(self._sockets))
                if self._is_closed:  # `__exit__` has already closed the other sockets
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError), connection:
            wrapped = connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)
            with wrapped:
                self._converse(wrapped, number)

    def _converse(self, connection: socket.socket, number: int) -> None:
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
