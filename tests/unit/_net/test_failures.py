from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from motorlite._net.failures import connect_error, connecting, describe
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    InvalidOperation,
    NameResolutionError,
    NetworkTimeout,
    PyMongoError,
)

if TYPE_CHECKING:
    from motorlite._base.values import Address

ADDRESS: Address = ("example.com", 27017)


def ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (socket.gaierror(-2, "Name or service not known"), NameResolutionError),
        (UnicodeError("label too long"), NameResolutionError),
        (ValueError("embedded null byte"), NameResolutionError),
        (TypeError("not a host"), NameResolutionError),
        (OverflowError("port must be 0-65535."), NameResolutionError),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), CertificateError),
        (ssl_error("WRONG_VERSION_NUMBER"), CertificateError),
        (ssl_error("UNEXPECTED_EOF_WHILE_READING"), AutoReconnect),
        (ssl_error("CONNECTION_RESET"), AutoReconnect),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), AutoReconnect),
        (ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed"), AutoReconnect),
        (TimeoutError(), NetworkTimeout),
        (ConnectionRefusedError(111, "Connection refused"), AutoReconnect),
        (ConnectionResetError(), AutoReconnect),
        (OSError("no route"), AutoReconnect),
    ],
)
def test_what_errors_become(error: Exception, expected: type[PyMongoError]) -> None:
    assert type(connect_error(ADDRESS, error)) is expected
    with pytest.raises(PyMongoError, match=r"^example\.com:27017: .") as caught, connecting(ADDRESS):
        raise error
    assert type(caught.value) is expected
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [InvalidOperation("ours"), KeyboardInterrupt(), ZeroDivisionError()])
def test_what_is_not_translated(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, connecting(ADDRESS):
        raise error
    assert caught.value is error


def test_describe() -> None:
    assert describe(OSError("text")) == "text"
    assert describe(ConnectionResetError()) == "ConnectionResetError"
    error = OSError("all attempts failed")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert describe(error) == "all attempts failed ([Errno 111] Connection refused)"
    error.__cause__ = ExceptionGroup("several", [OSError("one"), TimeoutError()])
    assert describe(error) == "all attempts failed (one; TimeoutError)"
