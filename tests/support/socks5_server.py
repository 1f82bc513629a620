"""A small SOCKS5 proxy in threads (RFC 1928, RFC 1929), written independently of the client under test."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE: Final = 20.0


class Socks5Server:
    """Listens on a local port and connects to the requested targets.

    Attributes:
        requests: The requested hosts (as the text that was sent) and ports.
        methods: The methods that each client offered, as bytes.
        greets_with, replies_with: Sent instead of the correct reply to the greeting and to the request.
        hangs_at: "greeting" or "request": read it and never reply.
        dies_at: "connection", "greeting" or "request": close instead of replying.
        dribbles: Send every byte of a reply separately.
        name_in_reply: Reply with a host name of this length as the bound address, instead of an IPv4 address.
        trailing: Sent immediately after the last reply, as if the server had sent it.
    """

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        *,
        map_to: dict[str, tuple[str, int]] | None = None,
    ) -> None:
        self._login = None if username is None or password is None else (username.encode(), password.encode())
        # Maps "host:port" to an address, for names that only the proxy can resolve.
        self._map = map_to or {}
        self.requests: list[tuple[str, int]] = []
        self.methods: list[bytes] = []
        self.greets_with: bytes | None = None
        self.replies_with: bytes | None = None
        self.hangs_at: str | None = None
        self.dies_at: str | None = None
        self.dribbles = False
        self.name_in_reply: int | None = None
        self.trailing = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        self._start(self._accept)
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

    @property
    def uri_options(self) -> str:
        return f"proxyHost=127.0.0.1&proxyPort={self.port}"

    def drop_connections(self) -> None:
        """Close all open connections, as a crash does."""
        for sock in list(self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _start(self, function: object, *args: object) -> None:
        thread = threading.Thread(target=function, args=args)  # type: ignore[arg-type]  # any function
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError):
            self._sockets.add(client)
            try:
                self._converse(client)
            finally:
                self._sockets.discard(client)

    def _converse(self, client: socket.socket) -> None:
        if self.dies_at == "connection":
            return
        version, count = self._read(client, 2)
        assert version == 5
        methods = self._read(client, count)
        self.methods.append(methods)
        if not self._goes_on(client, "greeting"):
            return
        if self.greets_with is not None:
            client.sendall(self.greets_with)
            self._wait_for_end(client)
            return
        method = 0 if self._login is None else 2
        if method not in methods:
            self._send(client, b"\5\xff")
            return
        self._send(client, bytes([5, method]))
        if self._login is not None and not self._authenticate(client):
            return
        target = self._read_request(client)
        self.requests.append(target)
        if not self._goes_on(client, "request"):
            return
        if self.replies_with is not None:
            client.sendall(self.replies_with)
            self._wait_for_end(client)
            return
        host, port = self._map.get(f"{target[0]}:{target[1]}", target)
        try:
            server = socket.create_connection((host, port), PATIENCE)
        except OSError:
            self._send(client, b"\5\5\0\1" + bytes(6))
            return
        with server:
            server.settimeout(None)
            self._sockets.add(server)
            if self.name_in_reply is None:
                bound = b"\1" + bytes(4)
            else:
                bound = bytes([3, self.name_in_reply]) + b"n" * self.name_in_reply
            self._send(client, b"\5\0\0" + bound + b"\0\0" + self.trailing)
            self._start(self._copy, server, client)
            self._copy(client, server)
            self._sockets.discard(server)

    def _authenticate(self, client: socket.socket) -> bool:
        version, size = self._read(client, 2)
        assert version == 1
        username = self._read(client, size)
        password = self._read(client, self._read(client, 1)[0])
        is_right = (username, password) == self._login
        self._send(client, b"\1\0" if is_right else b"\1\1")
        return is_right

    def _read_request(self, client: socket.socket) -> tuple[str, int]:
        version, command, reserved, kind = self._read(client, 4)
        assert (version, command, reserved) == (5, 1, 0)
        if kind == 3:
            host = self._read(client, self._read(client, 1)[0]).decode("ascii")
        elif kind == 1:
            host = socket.inet_ntop(socket.AF_INET, self._read(client, 4))
        else:
            assert kind == 4
            host = socket.inet_ntop(socket.AF_INET6, self._read(client, 16))
        return host, struct.unpack(">H", self._read(client, 2))[0]

    def _goes_on(self, client: socket.socket, stage: str) -> bool:
        if self.hangs_at == stage:
            self._wait_for_end(client)
        return self.hangs_at != stage and self.dies_at != stage

    def _wait_for_end(self, client: socket.socket) -> None:
        while client.recv(1000):
            pass

    def _send(self, client: socket.socket, data: bytes) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in (data[i : i + 1] for i in range(len(data))) if self.dribbles else [data]:
            client.sendall(part)

    def _read(self, client: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            received = client.recv(count - len(data))
            if not received:
                raise EOFError
            data += received
        return data

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
