"""Net: performs the SOCKS5 handshake on a socket connected to a proxy, and checks sockets that a program connected."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from motorlite._base.arguments import wrong
from motorlite._base.values import format_address
from motorlite._net.failures import describe
from motorlite._net.host import keep_from_children
from motorlite.errors import ConfigurationError, ProxyError, ProxyTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

    from motorlite._options.parts import ProxyOptions


# The client's side of a SOCKS5 conversation (RFC 1928, RFC 1929), without I/O.
#
# The generator yields the bytes to write and the number of bytes to read next. Send it exactly that many: any bytes
# after them belong to the server.

Conversation: TypeAlias = "Generator[tuple[bytes, int], bytes, None]"

_VERSION: Final = 5
_AUTHENTICATION_VERSION: Final = 1
_NONE: Final = 0
_PASSWORD: Final = 2
_CONNECT: Final = 1
_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4
_ADDRESS_SIZES: Final = {_IPV4: 4, _IPV6: 16}
_REFUSALS: Final = {
    1: "general failure",
    2: "the connection is not allowed",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the server refused the connection",
    6: "the time to live expired",
    7: "the command is not supported",
    8: "the kind of address is not supported",
}


class Socks5Error(Exception):
    """The proxy refused or does not speak SOCKS5. Never leaves `_net`."""


def conversation(host: str, port: int, username: str | None, password: str | None) -> Conversation:
    """Ask the proxy to connect to `host` and `port`. The proxy resolves `host`.

    Raises:
        Socks5Error: the proxy refused, or it does not speak SOCKS5.
    """
    has_password = username is not None and password is not None
    methods = bytes([_NONE, _PASSWORD] if has_password else [_NONE])
    version, method = yield bytes([_VERSION, len(methods)]) + methods, 2
    if version != _VERSION:
        raise Socks5Error("it does not speak SOCKS5")
    if method == _PASSWORD and username is not None and password is not None:
        login = bytes([_AUTHENTICATION_VERSION]) + _sized(username.encode()) + _sized(password.encode())
        _, status = yield login, 2
        if status != 0:
            raise Socks5Error("it refused proxyUsername and proxyPassword")
    elif method != _NONE:
        raise Socks5Error(
            "it does not accept user names and passwords" if has_password else "it requires authentication"
        )
    version, reply, _, kind = yield bytes([_VERSION, _CONNECT, 0]) + _address(host) + port.to_bytes(2), 4
    if version != _VERSION:
        raise Socks5Error("it does not speak SOCKS5")
    if reply != 0:
        raise Socks5Error(_REFUSALS.get(reply, f"failure {reply}"))
    # Skip the address and port that the proxy connects from; they are unused.
    if kind == _NAME:
        (size,) = yield b"", 1
    elif kind in _ADDRESS_SIZES:
        size = _ADDRESS_SIZES[kind]
    else:
        raise Socks5Error(f"it answered with an address of unknown kind {kind}")
    yield b"", size + 2


def _address(host: str) -> bytes:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return bytes([_NAME]) + _sized(host.encode() if host.isascii() else host.encode("idna"))
    return bytes([_IPV4 if ip.version == 4 else _IPV6]) + ip.packed


def _sized(text: bytes) -> bytes:
    if len(text) > 255:
        raise Socks5Error("a name has more than 255 bytes")
    return bytes([len(text)]) + text


async def introduce(
    proxy: ProxyOptions,
    host: str,
    port: int,
    write: Callable[[bytes], Awaitable[object]],
    read: Callable[[int], Awaitable[bytes]],
    peek: Callable[[], Awaitable[bytes]],
) -> None:
    """Ask the proxy to connect to `host` and `port`; afterwards the socket behaves like one to that server.

    Args:
        proxy: The credentials for the proxy.
        host: The server's name or address, resolved by the proxy.
        port: The server's port.
        write: Writes all of its argument.
        read: Reads at most the requested number of bytes; returns none at the end of the stream.
        peek: Returns the next byte without waiting for it and without consuming it.
    """
    talk = conversation(host, port, proxy.username, proxy.password)
    request, wanted = next(talk)
    while True:
        if request:
            await write(request)
        answer = b""
        while len(answer) < wanted:
            received = await read(wanted - len(answer))
            if not received:
                raise Socks5Error("it closed the connection")
            answer += received
        try:
            request, wanted = talk.send(answer)
        except StopIteration:
            break
    if await peek():
        # A server never speaks first, and the first bytes read as TLS must come from the TLS peer.
        raise Socks5Error("bytes followed its reply before anything was sent to the server")


@contextmanager
def through(proxy: ProxyOptions, host: str, port: int) -> Iterator[None]:
    """Translate the errors that the block raises while connecting to a server through the proxy.

    Operating system errors become proxy errors, never errors of the server: those would count as signs of its overload.
    """
    where = f"{format_address((host, port))}: the SOCKS5 proxy {format_address((proxy.host, proxy.port))}"
    try:
        yield
    except TimeoutError as error:
        raise ProxyTimeout(f"{where} did not connect in time") from error
    except Socks5Error as error:
        raise ProxyError(f"{where} did not connect: {error}") from None
    except (OSError, ValueError, TypeError, OverflowError) as error:  # the last three: an invalid host
        raise ProxyError(f"{where} failed: {describe(error)}") from error


def connected_socket(given: object, name: str) -> socket.socket:
    """Return `given`, non-blocking, if it is a connected socket without TLS. Else close it, if that is possible.

    Raises:
        ConfigurationError: It is something else. `name` says in the message where it came from.
    """
    if not isinstance(given, socket.socket) or isinstance(given, ssl.SSLSocket):
        found = type(given).__name__
    elif given.type != socket.SOCK_STREAM:
        found = "a datagram socket"
    else:
        try:
            given.getpeername()
        except OSError:
            found = "a socket that is not connected"
        else:
            given.setblocking(False)
            keep_from_children(given)
            return given
    close = getattr(given, "close", None)
    if callable(close):
        close()
    raise ConfigurationError(wrong(name, found, "a connected stream socket without TLS"))
