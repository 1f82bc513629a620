"""Net: single commands to a server over a separate blocking socket, independent of the driver under test.

No pool, no retries, no background work: this also works while a test deliberately breaks the driver.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import socket
import ssl
from base64 import b64decode, b64encode
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import bson

from motorlite import errors
from motorlite._base.values import format_address
from motorlite._wire import op_msg
from motorlite._wire.documents import decode_reply
from motorlite._wire.frames import FrameReader
from motorlite._wire.replies import error_from_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from motorlite._base.values import Address, Document

TIMEOUT_SECONDS: Final = 20.0
# For the first commands to a deployment that was not started here, which may be anything that accepts connections.
ATTACH_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.02
MAX_LOOKS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Credential:
    """A user who authenticates with SCRAM-SHA-256."""

    username: str
    password: str
    source: str = "admin"


@dataclass(frozen=True, slots=True)
class Access:
    """How to access the servers of a deployment; None means no TLS or no authentication."""

    tls: ssl.SSLContext | None = None
    credential: Credential | None = None


def tls_context(
    ca_file: Path | str | None, certificate_file: Path | str | None, *, verify: bool = True
) -> ssl.SSLContext:
    """A client-side TLS context that trusts `ca_file` and presents `certificate_file`."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    if certificate_file is not None:
        context.load_cert_chain(certificate_file)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class CommandConnection:
    """A connection for several commands, one after the other.

    Raises:
        PyMongoError: the server refused the credential.
        OSError: the server could not be reached, or did not reply within `timeout` seconds.
    """

    def __init__(self, address: Address, access: Access, timeout: float = TIMEOUT_SECONDS) -> None:
        self._address, self._timeout = address, timeout
        with ExitStack() as stack:
            self._stream = stack.enter_context(_connected(address, access.tls, timeout))
            if access.credential is not None:
                with _timed(address, timeout, "authenticate the user"):
                    _authenticate(self._stream, access.credential)
            self._stack: ExitStack = stack.pop_all()

    def run(self, document: Mapping[str, Any], database: str) -> Document:
        """Send one command and return the reply.

        Raises:
            PyMongoError: the reply is an error; the class depends on the error, as in the driver.
            OSError: the connection was lost, or there was no reply in time; it cannot be used any more.
        """
        with _timed(self._address, self._timeout, f"reply to {next(iter(document))}"):
            return _checked(_round_trip(self._stream, {**document, "$db": database}))

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def run_command(
    address: Address,
    document: Mapping[str, Any],
    database: str,
    access: Access,
    timeout: float = TIMEOUT_SECONDS,
) -> Document:
    """Send one command over a new connection and return the reply.

    Raises:
        PyMongoError: the reply is an error; the class depends on the error, as in the driver.
        OSError: the server could not be reached, or did not reply within `timeout` seconds.
    """
    with CommandConnection(address, access, timeout) as connection:
        return connection.run(document, database)


@contextmanager
def _connected(address: Address, tls: ssl.SSLContext | None, timeout: float) -> Iterator[socket.socket]:
    host, port = address
    with _timed(address, timeout, "accept a connection"):
        if port is None:
            stream = socket.socket(socket.AF_UNIX)
            stream.settimeout(timeout)
            stream.connect(host)
        else:
            stream = socket.create_connection((host, port), timeout)
    with ExitStack() as stack:
        stack.enter_context(stream)
        if tls is not None:
            with _timed(address, timeout, "complete the TLS handshake"):
                stream = stack.enter_context(tls.wrap_socket(stream, server_hostname=host))
        yield stream


@contextmanager
def _timed(address: Address, timeout: float, what: str) -> Iterator[None]:
    """Name the server and what it did not do, which the error of a socket does not."""
    try:
        yield
    except TimeoutError as error:
        raise TimeoutError(f"{format_address(address)} did not {what} within {timeout:g} s") from error


def _round_trip(stream: socket.socket, document: Mapping[str, Any]) -> Document:
    stream.sendall(op_msg.encode(1, bson.encode(document)))
    reader = FrameReader()
    while (frame := reader.next_frame()) is None:
        count = stream.recv_into(reader.buffer())
        if not count:
            raise ConnectionResetError("the server closed the connection")
        reader.received(count)
    return decode_reply(op_msg.parse(frame).body)


def _checked(reply: Document) -> Document:
    if reply.get("ok") != 1:
        raise error_from_reply(reply)
    return reply


def _authenticate(stream: socket.socket, credential: Credential) -> None:
    """SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding."""
    name = credential.username.replace("=", "=3D").replace(",", "=2C")
    nonce = b64encode(os.urandom(24)).decode()
    first = f"n={name},r={nonce}"
    start = {
        "saslStart": 1,
        "mechanism": "SCRAM-SHA-256",
        "payload": f"n,,{first}".encode(),
        "options": {"skipEmptyExchange": True},
        "$db": credential.source,
    }
    reply = _checked(_round_trip(stream, start))
    challenge = reply["payload"].decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    unproven = f"c=biws,r={fields['r']}"
    signed = ",".join((first, challenge, unproven)).encode()
    salted = hashlib.pbkdf2_hmac("sha256", credential.password.encode(), b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    proceed = {
        "saslContinue": 1,
        "conversationId": reply["conversationId"],
        "payload": f"{unproven},p={proof}".encode(),
        "$db": credential.source,
    }
    final = _checked(_round_trip(stream, proceed))
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    expected = b"v=" + b64encode(hmac.digest(server_key, signed, "sha256"))
    if not fields["r"].startswith(nonce) or final["payload"] != expected:
        raise errors.ProtocolError("the server did not prove that it knows the password")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Block until `condition` holds, checking it every few milliseconds.

    Raises:
        TimeoutError: it did not hold within a minute.
    """
    for _ in range(MAX_LOOKS):
        if condition():
            return
        select.select([], [], [], LOOK_SECONDS)
    raise TimeoutError(f"timed out after a minute waiting for {what}")


def state(address: Address, access: Access) -> Document:
    """The reply to isMaster (hello exists since 4.4.2), or an empty document if the server does not reply."""
    try:
        return run_command(address, {"isMaster": 1}, "admin", Access(access.tls))
    except (OSError, errors.PyMongoError):
        return {}
