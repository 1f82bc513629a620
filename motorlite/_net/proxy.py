"""Net: takes a socket that is connected to a SOCKS5 proxy through the conversation with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from motorlite._net.failures import describe
from motorlite._net.socks5 import Socks5Error, conversation
from motorlite.errors import ProxyError, ProxyTimeout
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from motorlite.options import ProxyOptions


async def introduce(
    proxy: ProxyOptions,
    host: str,
    port: int,
    write: Callable[[bytes], Awaitable[object]],
    read: Callable[[int], Awaitable[bytes]],
    peek: Callable[[], Awaitable[bytes]],
) -> None:
    """Let the proxy connect to `host` and `port`; afterwards the socket is as one to that server.

    Args:
        proxy: Whom to authenticate as.
        host: The server's name or address, for the proxy to look up.
        port: The server's port.
        write: Writes all of it.
        read: Reads at most so many bytes, none at the end of the stream.
        peek: Looks at the next byte without waiting for it and without taking it.
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
        # A server never speaks first, and nothing but TLS may be read where TLS begins.
        raise Socks5Error("bytes followed its answer before anything was sent to the server")


@contextmanager
def through(proxy: ProxyOptions, host: str, port: int) -> Iterator[None]:
    """Translate what the block raises while it reaches for a server through the proxy.

    Never the operating system's errors for the server's own: those would count as signs of its overload.
    """
    where = f"{format_address((host, port))}: the SOCKS5 proxy {format_address((proxy.host, proxy.port))}"
    try:
        yield
    except TimeoutError as error:
        raise ProxyTimeout(f"{where} did not connect in time") from error
    except Socks5Error as error:
        raise ProxyError(f"{where} did not connect: {error}") from None
    except (OSError, ValueError, TypeError, OverflowError) as error:  # the last three: of what cannot be a host
        raise ProxyError(f"{where} failed: {describe(error)}") from error
