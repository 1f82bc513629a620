"""Net: turns what sockets, TLS and name resolution raise into motorlite's errors; nothing foreign leaves `_net`."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from motorlite.errors import AutoReconnect, CertificateError, NameResolutionError, NetworkTimeout
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.errors import PyMongoError
    from motorlite.values import Address

# OpenSSL reasons that mean "closed in the middle", which an overloaded server does, not "misconfigured".
_CLOSED = ("UNEXPECTED_EOF_WHILE_READING", "CONNECTION_RESET")
# The one that means: this is no TLS at all.
_IN_THE_CLEAR = "WRONG_VERSION_NUMBER"
# Why a stream is closed on which something arrived that no request had asked for.
SURPLUS = "the connection was closed: the server sent more than it was asked for"


def connect_error(address: Address, error: BaseException) -> PyMongoError:
    """The motorlite error for `error`, which was raised while a stream to `address` was opened."""
    where = format_address(address)
    # All but the first: of a host or port that the libraries refuse, as no valid internationalised name.
    if isinstance(error, socket.gaierror | ValueError | TypeError | OverflowError) and not isinstance(
        error, ssl.SSLError
    ):
        return NameResolutionError(f"{where}: the host name cannot be resolved: {error}")
    if isinstance(error, ssl.SSLError) and not _is_closed(error):
        hint = "what arrived is not TLS: " if getattr(error, "reason", None) == _IN_THE_CLEAR else ""
        return CertificateError(f"{where}: TLS failed: {hint}{error}")
    if isinstance(error, TimeoutError):
        return NetworkTimeout(f"{where}: the connection was not established in time")
    return AutoReconnect(f"{where}: {describe(error)}")


def _is_closed(error: ssl.SSLError) -> bool:
    # Only OpenSSL sets a reason, not those who raise its errors themselves.
    closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return closed or getattr(error, "reason", None) in _CLOSED


def describe(error: BaseException) -> str:
    """`error` in one readable phrase; some carry no text of their own, trio's keep the reason in their cause."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    causes = cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause] if cause is not None else []
    return f"{text} ({'; '.join(map(describe, causes))})" if causes else text


@contextmanager
def connecting(address: Address) -> Iterator[None]:
    """Translate what the block raises while it opens a stream to `address`."""
    if "\0" in address[0]:
        # getaddrinfo and the operating system stop at it, and would connect to something else.
        raise NameResolutionError(f"{address[0]!r} cannot be a host: it has a NUL in it")
    try:
        yield
    # ssl.SSLError, gaierror and TimeoutError are OSErrors.
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise connect_error(address, error) from error
