"""A load balancer with services behind it, made of one server.

The load balancer specification has its tests run on a sharded cluster whose servers only pretend to be behind a load
balancer: the runner puts a serviceId into the replies to hello. This goes one step further. Each connection is led to
the same server, in turn as one or the other of the services; the reply to its hello is made that of a mongos, and a
hello that does not ask for load balancing is refused, as a mongos does at its port for load balancers. All else passes
as it is.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from itertools import cycle
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.objectid import ObjectId

if TYPE_CHECKING:
    from motorlite._base.values import Address

_HEADER: Final = 16
# Flags, and the kind of the section that the document is in.
_BEFORE_DOCUMENT: Final = 5
_OP_MSG: Final = 2013
_CHECKSUM_PRESENT: Final = 1
_MISMATCH: Final = {
    "ok": 0,
    "code": 354,
    "codeName": "LoadBalancerSupportMismatch",
    "errmsg": "the server is accessed through a load balancer, but the client does not have load balancing enabled",
}
# What a mongos does not say.
_OF_REPLICA_SETS: Final = (
    "setName",
    "setVersion",
    "hosts",
    "primary",
    "me",
    "electionId",
    "lastWrite",
    "secondary",
    "tags",
)


class LoadBalancer:
    """Listens until `close`; `address` is what clients connect to."""

    def __init__(self, server: Address, services: int) -> None:
        self._server = server
        self._services = cycle([ObjectId() for _ in range(services)])
        self._lock = Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()[:2]
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close the listener and all connections."""
        _close(self._listener)
        with self._lock:
            for one in self._sockets:
                _close(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(client, next(self._services)), daemon=True).start()

    def _serve(self, client: socket.socket, service_id: ObjectId) -> None:
        ends = {client}
        try:
            server = socket.create_connection(self._server)
            ends.add(server)
            with self._lock:
                self._sockets |= ends
            for end in ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._greet(client, server, service_id)
            Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)
        except OSError:
            for end in ends:
                _close(end)
        finally:
            with self._lock:
                self._sockets -= ends

    def _greet(self, client: socket.socket, server: socket.socket, service_id: ObjectId) -> None:
        """Pass on the first command, which is a hello, and its reply."""
        request = _receive(client)
        if _document(request).get("loadBalanced") is not True:
            client.sendall(_reply(_MISMATCH, request[4:8]))
            raise ConnectionResetError("nobody may go on from here")
        server.sendall(request)
        reply = _receive(server)
        hello = _document(reply)
        if hello["ok"]:
            hello = {name: value for name, value in hello.items() if name not in _OF_REPLICA_SETS}
            reply = _reply({**hello, "msg": "isdbgrid", "serviceId": service_id}, request[4:8])
        client.sendall(reply)


def _receive(source: socket.socket) -> bytes:
    """One message."""
    message = b""
    size = 4
    while len(message) < size:
        data = source.recv(size - len(message))
        if not data:
            raise ConnectionResetError("the end")
        message += data
        if len(message) == 4:
            size = int.from_bytes(message, "little")
    return message


def _document(message: bytes) -> dict[str, Any]:
    opcode, flags = int.from_bytes(message[12:16], "little"), int.from_bytes(message[16:20], "little")
    if opcode != _OP_MSG or flags & _CHECKSUM_PRESENT:
        raise ConnectionResetError("behind a load balancer all messages are OP_MSG, and none here has a checksum")
    found: dict[str, Any] = bson.decode(message[_HEADER + _BEFORE_DOCUMENT :])
    return found


def _reply(document: dict[str, Any], response_to: bytes) -> bytes:
    body = bytes(_BEFORE_DOCUMENT) + bson.encode(document)
    size = (_HEADER + len(body)).to_bytes(4, "little")
    return size + bytes(4) + response_to + _OP_MSG.to_bytes(4, "little") + body


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on everything; when one end closes, the other one is closed as well."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass  # the other direction has ended first
    for end in (source, target):
        _close(end)


def _close(end: socket.socket) -> None:
    # Wakes whoever waits for it in another thread; fails when it is closed already.
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
