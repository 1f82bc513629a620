"""A server on a real socket that serves each connection in a thread of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    from motorlite._base.values import Address

PATIENCE: Final = 20.0


class ThreadedServer:
    """Subclasses say what is said on a connection; at the end all connections are closed and all threads have ended."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    @property
    def port(self) -> int:
        return self.address[1] or 0

    def converse(self, connection: socket.socket, number: int) -> None:
        """Talk on the connection with this number, within TLS if there is a context; OSError ends it."""
        raise NotImplementedError

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
        for sock in self._sockets:  # also those that came too late for the first time
            sock.close()

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
                self.converse(wrapped, number)


class EchoServer(ThreadedServer):
    """Answers with what it gets."""

    def converse(self, connection: socket.socket, number: int) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)
