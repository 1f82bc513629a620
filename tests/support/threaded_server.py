"""A server on a real socket that serves each connection in a thread of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    from motorlite._base.values import Address

PATIENCE: Final = 20.0


def received(connection: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes; EOFError if the peer closes before."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class ThreadedServer:
    """Subclasses say what is said on a connection; at the end all connections are closed and all threads have ended."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        # What is open; whoever opens more adds it.
        self.sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def port(self) -> int:
        return self.address[1] or 0

    def converse(self, connection: socket.socket, number: int) -> None:
        """Talk on the connection with this number, within TLS if there is a context; OSError or EOFError ends it."""
        raise NotImplementedError

    def drop_connections(self) -> None:
        """Close all open connections, as a crash does."""
        for sock in list(self.sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def start(self, function: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=function, args=args)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self.start(self._accept)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _accept(self) -> None:
        with suppress(OSError):
            for number in count(1):
                connection, _ = self._listener.accept()
                self.start(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # TLS takes the socket itself.
        with suppress(OSError, EOFError), connection, connection.dup() as handle:
            self.sockets.add(handle)
            try:
                if not self._is_closed:
                    wrapped = connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)
                    with wrapped:
                        self.converse(wrapped, number)
            finally:
                self.sockets.discard(handle)


class EchoServer(ThreadedServer):
    """Answers with what it gets."""

    def converse(self, connection: socket.socket, number: int) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)
