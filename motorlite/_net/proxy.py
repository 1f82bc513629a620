"""Net: performs the SOCKS5 handshake on a socket connected to a proxy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from motorlite._base.values import format_address
from motorlite._net.failures import describe
from motorlite._net.socks5 import Socks5Error, conversation
from motorlite.errors import ProxyError, ProxyTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from motorlite._options.options import ProxyOptions


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
