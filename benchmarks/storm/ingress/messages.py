"""Pure: what the ingress reads in a request, and the errors with which it answers itself."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import bson

HEADER: Final = struct.Struct("<iiii")
OP_MSG: Final = 2013
OP_QUERY: Final = 2004
MORE_TO_COME: Final = 1 << 1
REQUEST_RATE_EXCEEDED: Final = 462
HOST_UNREACHABLE: Final = 6
LABELS: Final = ("SystemOverloadedError", "RetryableError")
# Members of a replica set send this in their first message on a connection to each other.
MEMBER_MARK: Final = b"\x03internalClient\x00"
# The limiter for requests leaves alone what arrives on connections that are not authenticated (client backpressure
# specification, "Ingress Request Rate Limiter"; the server's IngressRequestRateLimiter::admitRequest asks the
# authorization session). Monitors never authenticate their connections. So these are the commands before, and for,
# authentication. The servers of the benchmark need none, where the real limiter would apply to all commands.
UNAUTHENTICATED: Final = frozenset(
    name.encode()
    for name in ("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "getnonce", "logout")
)
_INT32: Final = struct.Struct("<i")
_FLAGS_END: Final = 20
# After the header, the flags, the kind of the section, the document's size, and the type of the first field.
_NAME_AT: Final = 26


class Request(NamedTuple):
    """What the ingress knows about a message of a client."""

    number: int
    command: bytes
    # Whether the client expects a reply.
    is_answered: bool


def parse(message: bytes) -> Request:
    """Read the name of the command. It is empty where it cannot be seen (compression) or where there is none."""
    _, number, _, opcode = HEADER.unpack_from(message)
    if opcode == OP_MSG:
        is_answered = not message[16] & MORE_TO_COME
        at = _NAME_AT if not message[_FLAGS_END] else _body(message) + 6
        return Request(number, _name(message, at), is_answered)
    if opcode == OP_QUERY:
        # Flags, the namespace, the numbers to skip and to return; then the document.
        at = message.index(0, _FLAGS_END) + 1 + 8
        return Request(number, _name(message, at + 5), True)
    return Request(number, b"", True)


def _name(message: bytes, at: int) -> bytes:
    end = message.find(0, at)
    return message[at:end] if end >= 0 else b""


def _body(message: bytes) -> int:
    """Return the position of the section of kind 0, if another one is first."""
    at = _FLAGS_END
    while at + 5 <= len(message) and message[at]:
        at += 1 + max(4, *_INT32.unpack_from(message, at + 1))
    return at


def rejection(base_backoff: float | None) -> bytes:
    """Return the body of the server's answer when the rate is exceeded; `base_backoff` is in seconds."""
    reply = {
        "ok": 0.0,
        "errmsg": "Rate limiter 'ingressRequestRateLimiter' rate exceeded",
        "code": REQUEST_RATE_EXCEEDED,
        "codeName": "IngressRequestRateLimitExceeded",
        "errorLabels": list(LABELS),
    }
    if base_backoff is not None:
        reply["baseBackoffMS"] = round(base_backoff * 1000)
    return b"\x00\x00\x00\x00\x00" + bson.encode(reply)


def unreachable() -> bytes:
    """Return the body of the answer of a server that does not reach the one with the data."""
    reply = {"ok": 0.0, "errmsg": "host unreachable", "code": HOST_UNREACHABLE, "codeName": "HostUnreachable"}
    return b"\x00\x00\x00\x00\x00" + bson.encode(reply)


def reply(number: int, body: bytes) -> bytes:
    """Return the message that answers the request `number`; `body` begins with the flags."""
    return HEADER.pack(16 + len(body), 0, number, OP_MSG) + body
