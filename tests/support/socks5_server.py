"""A small SOCKS5 proxy in threads (RFC 1928, RFC 1929), written independently of the client under test."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from tests.support.threaded_server import PATIENCE, ThreadedServer, received


class Socks5Server(ThreadedServer):
    """Listens on a local port and connects to the requested targets.

    Attributes:
        requests: The requested hosts (as the text that was sent) and ports.
        methods: The methods that each client offered, as bytes.
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
        super().__init__()
        self._login = None if username is None or password is None else (username.encode(), password.encode())
        # Maps "host:port" to an address, for names that only the proxy can resolve.
        self._map = map_to or {}
        self.requests: list[tuple[str, int]] = []
        self.methods: list[bytes] = []
        self.hangs_at: str | None = None
        self.dies_at: str | None = None
        self.dribbles = False
        self.name_in_reply: int | None = None
        self.trailing = b""

    @property
    def uri_options(self) -> str:
        return f"proxyHost=127.0.0.1&proxyPort={self.port}"

    def converse(self, client: socket.socket, number: int) -> None:
        if self.dies_at == "connection":
            return
        version, count = received(client, 2)
        assert version == 5
        methods = received(client, count)
        self.methods.append(methods)
        if not self._goes_on(client, "greeting"):
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
        host, port = self._map.get(f"{target[0]}:{target[1]}", target)
        try:
            server = socket.create_connection((host, port), PATIENCE)
        except OSError:
            self._send(client, b"\5\5\0\1" + bytes(6))
            return
        with server:
            # Connections of a pool may be idle for long.
            client.settimeout(None)
            server.settimeout(None)
            self.sockets.add(server)
            if self.name_in_reply is None:
                bound = b"\1" + bytes(4)
            else:
                bound = bytes([3, self.name_in_reply]) + b"n" * self.name_in_reply
            self._send(client, b"\5\0\0" + bound + b"\0\0" + self.trailing)
            self.start(self._copy, server, client)
            self._copy(client, server)
            self.sockets.discard(server)

    def _authenticate(self, client: socket.socket) -> bool:
        version, size = received(client, 2)
        assert version == 1
        username = received(client, size)
        password = received(client, received(client, 1)[0])
        is_right = (username, password) == self._login
        self._send(client, b"\1\0" if is_right else b"\1\1")
        return is_right

    def _read_request(self, client: socket.socket) -> tuple[str, int]:
        version, command, reserved, kind = received(client, 4)
        assert (version, command, reserved) == (5, 1, 0)
        if kind == 3:
            host = received(client, received(client, 1)[0]).decode("ascii")
        elif kind == 1:
            host = socket.inet_ntop(socket.AF_INET, received(client, 4))
        else:
            assert kind == 4
            host = socket.inet_ntop(socket.AF_INET6, received(client, 16))
        return host, struct.unpack(">H", received(client, 2))[0]

    def _goes_on(self, client: socket.socket, stage: str) -> bool:
        while self.hangs_at == stage and client.recv(1000):
            pass
        return self.hangs_at != stage and self.dies_at != stage

    def _send(self, client: socket.socket, data: bytes) -> None:
        for part in (data[i : i + 1] for i in range(len(data))) if self.dribbles else [data]:
            client.sendall(part)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
