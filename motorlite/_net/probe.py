"""Net: looks at one address and at its TLS, and at this machine's limits, for `motorlite.doctor`.

The functions block, and are for threads: an examination has no hot path, and so works on either event loop.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from motorlite._base.hosts import certified
from motorlite._net.failures import describe
from motorlite._net.tls import make_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._net.runtime import Runtime
    from motorlite._options.parts import TLSOptions

T = TypeVar("T")

_FAMILIES: Final[dict[str, int]] = {
    "IPv4": socket.AF_INET,
    "IPv6": socket.AF_INET6,
    "Unix": getattr(socket, "AF_UNIX", -1),
}


@dataclass(frozen=True, slots=True)
class Reached:
    """What became of a connection to one address.

    Attributes:
        ip: The address, or the path of a socket of Unix.
        family: ``"IPv4"``, ``"IPv6"`` or ``"Unix"``.
        seconds: How long the connection, or its failure, took.
        error: ``"refused"``, ``"timeout"``, another error's text, or None if there was a connection.
        where: What `socket.connect` takes.
    """

    ip: str
    family: str
    seconds: float
    error: str | None
    where: Any = None


@dataclass(frozen=True, slots=True)
class TLSLook:
    """What a TLS handshake showed.

    Attributes:
        version: For example ``"TLSv1.3"``, or None if there was no handshake.
        cipher: The name of the cipher suite, or None.
        chain: The certificates in DER, that of the server first; the others only from Python 3.13 on.
        error: Why the handshake with verification failed, or None.
        verify_code: OpenSSL's number of the reason why the certificate was refused, or None.
        is_closed: Whether the server closed the connection during the handshake.
    """

    version: str | None = None
    cipher: str | None = None
    chain: tuple[bytes, ...] = ()
    error: str | None = None
    verify_code: int | None = None
    is_closed: bool = False


async def in_daemon(runtime: Runtime, function: Callable[[], T]) -> T:
    """Run one of the functions below in a daemon thread, which an interrupted caller leaves behind.

    Python ends without waiting for daemons, unlike the threads of asyncio's pool. So Ctrl-C ends the command at once,
    whatever does not answer.
    """
    waiter = runtime.waiter()

    def hand_over(result: T | None, problem: Exception | None) -> None:
        waiter.offer((result, problem))

    def work() -> None:
        try:
            result = function()
        except Exception as error:
            runtime.run_soon(hand_over, None, error)
        else:
            runtime.run_soon(hand_over, result, None)

    threading.Thread(target=work, name="motorlite doctor", daemon=True).start()
    found: tuple[T, Exception | None] = await waiter.wait(inf)
    result, problem = found
    if problem is not None:
        raise problem
    return result


def resolve(host: str, port: int, timeout: float) -> list[tuple[str, str, Any]]:
    """Return family, IP address and socket address of each address of a host.

    Raises:
        TimeoutError: there is no answer in time.
        OSError: the name cannot be resolved.
        UnicodeError: the name cannot be written in DNS.
    """
    answers: SimpleQueue[list[Any] | OSError | UnicodeError] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # The resolver cannot be interrupted, so the caller's thread leaves it behind when its time is up.
    threading.Thread(target=ask, name="motorlite doctor", daemon=True).start()
    try:
        found = answers.get(timeout=timeout)
    except Empty:
        raise TimeoutError(f"no answer within {timeout:g} s") from None
    if isinstance(found, Exception):
        raise found
    names: dict[int, str] = {family: name for name, family in _FAMILIES.items()}
    return [(names[family], str(where[0]), where) for family, _, _, _, where in found if family in names]


def reach(family: str, ip: str, where: Any, timeout: float) -> Reached:
    """Open a connection and close it."""
    started = time.perf_counter()
    try:
        _open(family, where, timeout).close()
    except ConnectionRefusedError:
        error: str | None = "refused"
    except TimeoutError:
        error = "timeout"
    except OSError as other:
        error = describe(other)
    else:
        error = None
    return Reached(ip, family, time.perf_counter() - started, error, where)


def _open(family: str, where: Any, timeout: float) -> socket.socket:
    sock = socket.socket(_FAMILIES[family], socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def look_at_tls(reached: Reached, host: str, options: TLSOptions, timeout: float) -> TLSLook:
    """Make the handshake of a client with these options; after a refusal look at the certificate without a check.

    Nothing is sent on either connection but the handshake.
    """
    try:
        return _handshake(reached, host, options, timeout)
    except ssl.SSLCertVerificationError as error:
        refusal = TLSLook(error=error.verify_message or describe(error), verify_code=error.verify_code)
    except TimeoutError:
        return TLSLook(error="timeout")
    except OSError as error:
        # From Python 3.12 on a server that closes during the handshake may be an EOF or a reset.
        is_closed = isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError)
        return TLSLook(error=describe(error), is_closed=is_closed)
    trusting = replace(options, allow_invalid_certificates=True, allow_invalid_hostnames=True)
    try:
        seen = _handshake(reached, host, trusting, timeout)
    except OSError:
        return refusal
    return replace(seen, error=refusal.error, verify_code=refusal.verify_code)


def _handshake(reached: Reached, host: str, options: TLSOptions, timeout: float) -> TLSLook:
    with closing(_open(reached.family, reached.where, timeout)) as plain:
        context = make_context(options)
        with context.wrap_socket(plain, server_hostname=certified(host)) as secure:
            own = secure.getpeercert(binary_form=True)
            # Public from Python 3.13 on.
            whole = getattr(secure, "get_unverified_chain", None)
            chain = tuple(whole()) if whole is not None else (own,) if own else ()
            cipher = secure.cipher()
            return TLSLook(secure.version(), cipher[0] if cipher else None, chain)


def open_files_limit() -> int | None:
    """The number of files and sockets that this process may open (``ulimit -n``); None if unlimited or unknown."""
    try:
        import resource
    except ImportError:  # only on Unix
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def wall_clock() -> float:
    """This machine's time in seconds since 1970."""
    return time.time()
