"""Net: translates errors of sockets, TLS and name resolution into motorlite's; no foreign exception leaves `_net`."""

from __future__ import annotations

import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from motorlite._base.values import format_address
from motorlite.errors import AutoReconnect, CertificateError, NameResolutionError, NetworkTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._base.values import Address
    from motorlite.errors import PyMongoError

# OpenSSL reasons for a connection closed midway: a sign of an overloaded server, not of a misconfiguration.
_CLOSED = ("UNEXPECTED_EOF_WHILE_READING", "CONNECTION_RESET")
# The OpenSSL reason for a peer that does not speak TLS.
_IN_THE_CLEAR = "WRONG_VERSION_NUMBER"
TLS_REFUSED: Final = "the server closed the connection during the TLS handshake; is TLS enabled on it?"
"""What servers without TLS do when a client begins it."""
# The reason for closing a stream that received unrequested bytes.
SURPLUS = "the connection was closed: the server sent more than it was asked for"


class HandshakeTimeout(TimeoutError):
    """The time for a connection ended in the TLS handshake."""


def connect_error(address: Address, error: BaseException) -> PyMongoError:
    """Return the motorlite error for `error`, raised while opening a stream to `address`."""
    where = format_address(address)
    # ValueError, TypeError and OverflowError: the libraries reject the host or port, for example an invalid
    # internationalised name.
    if isinstance(error, socket.gaierror | ValueError | TypeError | OverflowError) and not isinstance(
        error, ssl.SSLError
    ):
        return NameResolutionError(f"{where}: the host name cannot be resolved: {error}")
    if isinstance(error, ssl.SSLError) and not _is_closed(error):
        hint = ""
        if getattr(error, "reason", None) == _IN_THE_CLEAR:
            hint = "what arrived is not TLS, so TLS may not be enabled on the server: "
        return CertificateError(f"{where}: TLS failed: {hint}{error}")
    if isinstance(error, TimeoutError):
        step = ": the TLS handshake did not end" if isinstance(error, HandshakeTimeout) else ""
        return NetworkTimeout(f"{where}: the connection was not established in time{step}")
    if isinstance(error, ssl.SSLError):
        return AutoReconnect(f"{where}: {TLS_REFUSED}")
    return AutoReconnect(f"{where}: {describe(error)}")


def _is_closed(error: ssl.SSLError) -> bool:
    # Only OpenSSL sets a reason; Python code that raises SSLError does not.
    closed = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return closed or getattr(error, "reason", None) in _CLOSED


def describe(error: BaseException) -> str:
    """Describe `error` in one readable phrase. Some errors have no text; trio keeps the reason in the cause."""
    text = str(error) or type(error).__name__
    cause = error.__cause__
    causes = cause.exceptions if isinstance(cause, BaseExceptionGroup) else [cause] if cause is not None else []
    return f"{text} ({'; '.join(map(describe, causes))})" if causes else text


@contextmanager
def connecting(address: Address) -> Iterator[None]:
    """Translate the errors that the block raises while opening a stream to `address`."""
    if "\0" in address[0]:
        # getaddrinfo and the operating system cut the name at the NUL and would connect to another host.
        raise NameResolutionError(f"{address[0]!r} cannot be a host: it contains a NUL")
    try:
        yield
    # ssl.SSLError, gaierror and TimeoutError are OSErrors.
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise connect_error(address, error) from error
