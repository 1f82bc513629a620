"""A key management service that speaks KMIP over TLS, with as much of the protocol as data keys need."""

from __future__ import annotations

import ssl
import struct
from typing import TYPE_CHECKING, Final

from tests.support.threaded_server import ThreadedServer, received

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from motorlite.testing.server.certificates import Certificates

_STRUCTURE, _INTEGER, _ENUMERATION, _TEXT, _BYTES, _TIME = 1, 2, 5, 7, 8, 9
# Tags of KMIP 1.x.
_OPERATION, _DATA, _VECTOR, _MATERIAL, _ID = 0x42005C, 0x4200C2, 0x42003D, 0x420043, 0x420094
OPERATIONS: Final = {1: "Create", 3: "Register", 10: "Get", 18: "Activate", 31: "Encrypt", 32: "Decrypt"}
_NUMBERS: Final = {name: number for number, name in OPERATIONS.items()}


def _field(tag: int, kind: int, value: bytes) -> bytes:
    return tag.to_bytes(3) + struct.pack(">BI", kind, len(value)) + value + bytes(-len(value) % 8)


def _number(tag: int, value: int, kind: int = _ENUMERATION) -> bytes:
    return _field(tag, kind, struct.pack(">I", value))


def _structure(tag: int, *fields: bytes) -> bytes:
    return _field(tag, _STRUCTURE, b"".join(fields))


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield all fields that are no structures, also those within structures."""
    at = 0
    while at < len(data):
        tag, (kind, length) = int.from_bytes(data[at : at + 3]), struct.unpack_from(">BI", data, at + 3)
        value = data[at + 8 : at + 8 + length]
        if kind == _STRUCTURE:
            yield from _fields(value)
        else:
            yield tag, value
        at += 8 + length + -length % 8


class KmipServer(ThreadedServer):
    """Keeps the secrets that clients register. It demands a certificate of the client.

    Attributes:
        operations: The names of those that were asked for.
        secrets: The registered secrets by their ids.
        is_silent: It takes requests and does not answer.
    """

    def __init__(self, certificates: Certificates) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca_file))
        context.load_cert_chain(certificates.server_file)
        context.verify_mode = ssl.CERT_REQUIRED
        super().__init__(context)
        self.operations: list[str] = []
        self.secrets: dict[str, bytes] = {}
        self.is_silent = False

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def converse(self, connection: socket.socket, number: int) -> None:
        head = received(connection, 8)
        fields = dict(_fields(received(connection, int.from_bytes(head[4:]))))
        name = OPERATIONS[int.from_bytes(fields[_OPERATION])]
        self.operations.append(name)
        if self.is_silent:
            connection.recv(1)
            return
        payload = self._payload(name, fields)
        version = _structure(0x420069, _number(0x42006A, 1, _INTEGER), _number(0x42006B, 2, _INTEGER))
        header = _structure(0x42007A, version, _field(0x420092, _TIME, bytes(8)), _number(0x42000D, 1, _INTEGER))
        operation = _number(_OPERATION, _NUMBERS[name])
        if payload is None:
            reason, message = _number(0x42007E, 1), _field(0x42007D, _TEXT, b"no such key")
            item = _structure(0x42000F, operation, _number(0x42007F, 1), reason, message)
        else:
            item = _structure(0x42000F, operation, _number(0x42007F, 0), _structure(0x42007C, *payload))
        answer = _structure(0x42007B, header, item)
        connection.sendall(answer[:11])
        connection.sendall(answer[11:])

    def _payload(self, name: str, fields: dict[int, bytes]) -> list[bytes] | None:
        """Return the fields of the answer; None if the key is unknown."""
        if name in ("Register", "Create"):
            key = str(len(self.secrets) + 1)
            self.secrets[key] = fields.get(_MATERIAL, b"")
            return [_field(_ID, _TEXT, key.encode())]
        key = fields[_ID].decode()
        if key not in self.secrets:
            return None
        answered = [_field(_ID, _TEXT, key.encode())]
        if name == "Get":
            value = _structure(0x420045, _field(_MATERIAL, _BYTES, self.secrets[key]))
            block = _structure(0x420040, _number(0x420042, 2), value)
            return [_number(0x420057, 7), *answered, _structure(0x420085, _number(0x420086, 2), block)]
        if name in ("Encrypt", "Decrypt"):
            answered.append(_field(_DATA, _BYTES, fields[_DATA][::-1]))
        if name == "Encrypt":
            answered.append(_field(_VECTOR, _BYTES, bytes(16)))
        return answered
