"""Pure: what the ingress reads in a request, and the errors with which it answers itself."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import bson

from benchmarks.documents import HEADER, MORE_TO_COME, OP_MSG, OP_QUERY

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

    command: bytes
    # Whether the client expects a reply.
    is_answered: bool


def parse(message: bytes) -> Request:
    """Read the name of the command. It is empty where it cannot be seen (compression) or where there is none."""
    opcode = HEADER.unpack_from(message)[3]
    if opcode == OP_MSG:
        is_answered = not message[16] & MORE_TO_COME
        at = _NAME_AT if not message[_FLAGS_END] else _body(message) + 6
        return Request(_name(message, at), is_answered)
    if opcode == OP_QUERY:
        # Flags, the namespace, the numbers to skip and to return; then the document.
        at = message.index(0, _FLAGS_END) + 1 + 8
        return Request(_name(message, at + 5), True)
    return Request(b"", True)


def _name(message: bytes, at: int) -> bytes:
    end = message.find(0, at)
    return message[at:end] if end >= 0 else b""


def _body(message: bytes) -> int:
    """The position of the section of kind 0, if another one is first."""
    at = _FLAGS_END
    while at + 5 <= len(message) and message[at]:
        at += 1 + max(4, *_INT32.unpack_from(message, at + 1))
    return at


def rejection(base_backoff: float | None) -> bytes:
    """The server's answer when the rate is exceeded; `base_backoff` is in seconds."""
    error = {
        "ok": 0.0,
        "errmsg": "Rate limiter 'ingressRequestRateLimiter' rate exceeded",
        "code": REQUEST_RATE_EXCEEDED,
        "codeName": "IngressRequestRateLimitExceeded",
        "errorLabels": list(LABELS),
    }
    return bson.encode(error if base_backoff is None else {**error, "baseBackoffMS": round(base_backoff * 1000)})


# The answer of a server that does not reach the one with the data.
UNREACHABLE: Final = bson.encode(
    {"ok": 0.0, "errmsg": "host unreachable", "code": HOST_UNREACHABLE, "codeName": "HostUnreachable"}
)
