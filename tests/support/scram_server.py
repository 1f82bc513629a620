"""The server's side of SCRAM, written from RFC 5802 and independent of the driver's side."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from motorlite._connection.auth.conversation import Compute, RunCommand

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._connection.auth.conversation import Conversation

Reply = dict[str, Any]


def hi(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802, section 2.2."""
    block = hmac.digest(password, salt + b"\0\0\0\1", digest)
    result = int.from_bytes(block, "big")
    for _ in range(iterations - 1):
        block = hmac.digest(password, block, digest)
        result ^= int.from_bytes(block, "big")
    return result.to_bytes(len(block), "big")


class ScramServer:
    """One conversation with one user; `tamper` may change each reply before it is sent."""

    def __init__(
        self,
        mechanism: str,
        password: bytes,
        *,
        username: bytes = b"user",
        salt: bytes = b"0123456789abcdef",
        iterations: int = 4096,
        short: bool = True,
        tamper: Callable[[int, Reply], None] = lambda step, reply: None,
    ) -> None:
        self.digest = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256"}[mechanism]
        self.mechanism = mechanism
        self.username = username
        self.password = password
        self.salt = salt
        self.iterations = iterations
        # No third, empty exchange, as in servers since 4.4.
        self.short = short
        self.tamper = tamper
        self.commands: list[dict[str, Any]] = []
        self.is_authenticated = False

    def answer(self, command: dict[str, Any]) -> Reply:
        self.commands.append(command)
        step = len(self.commands)
        reply: Reply = {"conversationId": 7, "done": False, "ok": 1.0}
        if step == 1:
            assert command["saslStart"] == 1
            assert command["mechanism"] == self.mechanism
            assert command["options"] == {"skipEmptyExchange": True}
            reply["payload"] = self._first(command["payload"])
        else:
            assert command["saslContinue"] == 1
            assert command["conversationId"] == 7
            if step == 2:
                signature = self._verify(command["payload"])
                if signature is None:
                    return {"ok": 0.0, "errmsg": "Authentication failed.", "code": 18}
                reply |= {"payload": b"v=" + base64.b64encode(signature), "done": self.short}
            else:
                assert command["payload"] == b""
                reply |= {"payload": b"", "done": True}
        self.is_authenticated = reply["done"]
        self.tamper(step, reply)
        return reply

    def _first(self, payload: bytes) -> bytes:
        header, self.client_first = payload[:3], payload[3:]
        assert header == b"n,,"
        name, nonce = self.client_first.split(b",")
        assert name == b"n=" + self.username
        self.nonce = nonce.removeprefix(b"r=") + b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        salt = base64.b64encode(self.salt)
        self.server_first = b"r=%s,s=%s,i=%d" % (self.nonce, salt, self.iterations)
        return self.server_first

    def _verify(self, payload: bytes) -> bytes | None:
        without_proof, _, proof = payload.rpartition(b",p=")
        assert without_proof == b"c=biws,r=" + self.nonce
        message = self.client_first + b"," + self.server_first + b"," + without_proof
        salted = hi(self.digest, self.password, self.salt, self.iterations)
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        stored_key = hashlib.new(self.digest, client_key).digest()
        signature = int.from_bytes(hmac.digest(stored_key, message, self.digest), "big")
        recovered = int.from_bytes(base64.b64decode(proof), "big") ^ signature
        if hashlib.new(self.digest, recovered.to_bytes(len(stored_key), "big")).digest() != stored_key:
            return None
        return hmac.digest(hmac.digest(salted, b"Server Key", self.digest), message, self.digest)


def drive(conversation: Conversation, answer: Callable[[dict[str, Any]], Reply], database: str = "admin") -> int:
    """Run a conversation to its end in place of the shell; return the number of computations."""
    computed = 0
    value: object = None
    while True:
        try:
            request = conversation.send(value)
        except StopIteration:
            return computed
        if isinstance(request, Compute):
            value = request.function()
            request.keep(value)
            computed += 1
        else:
            assert isinstance(request, RunCommand)
            assert request.database == database
            value = answer(request.document)


def recorder(sent: list[dict[str, Any]], reply: Reply) -> Callable[[dict[str, Any]], Reply]:
    """Answers every command with `reply` and keeps it in `sent`."""

    def answer(command: dict[str, Any]) -> Reply:
        sent.append(command)
        return reply

    return answer
