"""Key management services over TLS on this machine: AWS, Azure and GCP. What they wrap, they turn around."""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from tests.support.threaded_server import ThreadedServer

if TYPE_CHECKING:
    import socket

    from motorlite.testing.server.certificates import Certificates

TOKEN = "the planted token"


class KeyService(ThreadedServer):
    """Answers requests of all three; `script` has what becomes of the first ones: a status, "drop" or "silence"."""

    def __init__(self, certificates: Certificates) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.server_file)
        super().__init__(context)
        self.script: list[int | str] = []
        # The first lines of all requests.
        self.requests: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def converse(self, connection: socket.socket, number: int) -> None:
        head, body = _request(connection)
        self.requests.append(head.partition("\r\n")[0])
        step = self.script.pop(0) if self.script else 200
        if step == "drop":
            return
        if step == "silence":
            connection.recv(1)
            return
        answer = _answer(head, body) if step == 200 else {"message": "no"}
        encoded = json.dumps(answer).encode()
        start = f"HTTP/1.1 {step} x\r\nContent-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
        connection.sendall(start.encode())
        time.sleep(0.01)  # in two pieces
        connection.sendall(encoded)


def _request(connection: socket.socket) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields.get(b"content-length", b"0")):
        body += _received(connection)
    return head.decode(), body


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise EOFError
    return data


def _answer(head: str, body: bytes) -> dict[str, Any]:
    line = head.partition("\r\n")[0]
    if "oauth2" in line or "/token" in line:
        return {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}
    document = json.loads(body)
    if "TrentService.Encrypt" in head:
        return {"CiphertextBlob": b64encode(b64decode(document["Plaintext"])[::-1]).decode(), "KeyId": "k"}
    if "TrentService.Decrypt" in head:
        return {"Plaintext": b64encode(b64decode(document["CiphertextBlob"])[::-1]).decode(), "KeyId": "k"}
    if "wrapkey" in line:
        value = document["value"]
        turned = urlsafe_b64decode(value + "=" * (-len(value) % 4))[::-1]
        return {"kid": "k", "value": urlsafe_b64encode(turned).decode().rstrip("=")}
    if ":encrypt" in line:
        return {"name": "k", "ciphertext": b64encode(b64decode(document["plaintext"])[::-1]).decode()}
    return {"plaintext": b64encode(b64decode(document["ciphertext"])[::-1]).decode()}
