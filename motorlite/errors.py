"""Pure: the exceptions of the driver.

Class names and base classes are PyMongo's, so that ``except`` clauses keep working after a port::

    PyMongoError
     ├── ProtocolError                      the peer broke the wire protocol
     ├── ConnectionFailure                  no usable reply from a server
     │    ├── AdmissionError                the client refused to send the operation
     │    │    ├── WaitQueueTimeoutError    no connection became available in time
     │    │    ├── WaitQueueFullError       too many operations wait for a connection
     │    │    ├── WaitQueueMemoryError     the operations that wait need too much memory
     │    │    ├── PoolFullError            all connections are in use
     │    │    ├── RateLimitError           too many operations per second
     │    │    └── CircuitBreakerOpenError  the server failed too often
     │    └── AutoReconnect                 the driver is rediscovering the topology
     │         ├── NameResolutionError      a host name could not be resolved
     │         ├── CertificateError         TLS could not be set up
     │         ├── ProxyError               the SOCKS5 proxy was unreachable, or refused
     │         │    └── ProxyTimeout        also a NetworkTimeout
     │         ├── NetworkTimeout           no reply on the socket in time
     │         ├── NotPrimaryError          the server is not (or no longer) a primary
     │         ├── PoolClearedError         the connection pool was cleared
     │         └── ServerSelectionTimeoutError
     ├── OperationFailure                   the server replied with an error
     │    ├── CursorNotFound
     │    ├── ExecutionTimeout              the operation's time limit passed
     │    │    ├── WriteExecutionTimeout         also a WriteError
     │    │    ├── WriteConcernExecutionTimeout  also a WriteConcernError
     │    │    └── BulkWriteExecutionTimeout     also a BulkWriteError
     │    ├── WriteConcernError
     │    │    └── WTimeoutError
     │    ├── WriteError
     │    │    └── DuplicateKeyError
     │    ├── BulkWriteError                of a collection
     │    └── ClientBulkWriteException      of a client
     ├── ConfigurationError
     │    ├── InvalidURI
     │    ├── InvalidOptionType             also a TypeError
     │    └── InvalidOptionValue            also a ValueError
     ├── InvalidOperation                   invalid use of the driver
     │    └── PoolClosedError               the client was closed
     ├── RetryStrategyError                 the application's own retry strategy failed
     ├── CollectionInvalid
     ├── GridFSError                        and its kinds, in motorlite.gridfs.errors
     ├── InvalidName
     └── DocumentTooLarge                   also bson's InvalidDocument

The type identifies the failure; labels identify the permitted reactions. Every error that leaves a retry loop
carries the server (`address`), the number of attempts (`attempts`), the reasons for retries (`retry_reasons`), the
reason for not retrying again (`retry_refusal`), and whether the operation may have been executed all the same
(`may_have_been_executed`).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

# Re-exported as in `pymongo.errors`: raised for documents that BSON cannot represent.
from bson.errors import InvalidDocument as InvalidDocument

from motorlite._base import error_documents
from motorlite._base.error_codes import MAX_TIME_MS_EXPIRED
from motorlite._errors.base import (
    AdmissionError,
    CircuitBreakerOpenError,
    ConnectionFailure,
    PoolFullError,
    PyMongoError,
    RateLimitError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AdmissionError",
    "AutoReconnect",
    "BulkWriteError",
    "BulkWriteExecutionTimeout",
    "CertificateError",
    "CircuitBreakerOpenError",
    "ClientBulkWriteException",
    "CollectionInvalid",
    "ConfigurationError",
    "ConnectionFailure",
    "CursorNotFound",
    "DocumentTooLarge",
    "DuplicateKeyError",
    "ExecutionTimeout",
    "InvalidDocument",
    "InvalidName",
    "InvalidOperation",
    "InvalidOptionType",
    "InvalidOptionValue",
    "InvalidURI",
    "NameResolutionError",
    "NetworkTimeout",
    "NotPrimaryError",
    "OperationFailure",
    "PoolClearedError",
    "PoolClosedError",
    "PoolFullError",
    "ProtocolError",
    "ProxyError",
    "ProxyTimeout",
    "PyMongoError",
    "RateLimitError",
    "RetryStrategyError",
    "ServerSelectionTimeoutError",
    "WTimeoutError",
    "WaitQueueFullError",
    "WaitQueueMemoryError",
    "WaitQueueTimeoutError",
    "WriteConcernError",
    "WriteConcernExecutionTimeout",
    "WriteError",
    "WriteExecutionTimeout",
]

# Fields that say nothing about the error: its text leaves them out.
_IN_EVERY_REPLY = ("$clusterTime", "operationTime")

if TYPE_CHECKING:
    ConcurrencyLimitError = PoolFullError
else:

    def __getattr__(name: str) -> type[PyMongoError]:
        """Return an error by its former name."""
        if name != "ConcurrencyLimitError":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn("ConcurrencyLimitError is deprecated, use PoolFullError", DeprecationWarning, stacklevel=2)
        return PoolFullError


# This is their public module: tracebacks and pickles name it.
for _kind in (
    PyMongoError,
    ConnectionFailure,
    AdmissionError,
    CircuitBreakerOpenError,
    PoolFullError,
    RateLimitError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
):
    _kind.__module__ = __name__


class ProtocolError(PyMongoError):
    """The peer violated the MongoDB wire protocol; its connection has been closed."""


class AutoReconnect(ConnectionFailure):
    """The connection to a server was lost; the driver is rediscovering the deployment.

    Attributes:
        details: The server's reply, or an empty mapping.
        errors: What the constructor was called with, PyMongo's older name for the same.
    """

    def __init__(self, message: str = "", errors: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        found: Mapping[str, Any] = errors if isinstance(errors, Mapping) else {}
        super().__init__(message, found.get("errorLabels"))
        self.errors: Mapping[str, Any] | Sequence[Any] = found if errors is None else errors
        self.details: Mapping[str, Any] = found


class NetworkTimeout(AutoReconnect):
    """A server did not reply in time. The operation may or may not have been executed."""

    @property
    def timeout(self) -> bool:
        return True


class NotPrimaryError(AutoReconnect):
    """The server replied that it is not a primary, is recovering or is shutting down.

    Attributes:
        code: The server's error code.
    """

    def __init__(self, message: str = "", errors: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, errors)
        self.code: int | None = error_documents.code(errors or {})


class NameResolutionError(AutoReconnect):
    """A host name could not be resolved. Not a sign of overload, so it never carries the overload labels."""


class CertificateError(AutoReconnect):
    """TLS could not be set up because of a certificate or a protocol mismatch. Not a sign of overload."""


class ProxyError(AutoReconnect):
    """The SOCKS5 proxy was unreachable, or did not connect to the server. Not a sign of overload."""


class ProxyTimeout(ProxyError, NetworkTimeout):
    """The SOCKS5 proxy did not reply, or did not connect to the server, in time. Not a sign of overload."""


class PoolClearedError(AutoReconnect):
    """The connection pool was cleared, because another operation or a monitor saw its server fail."""


class ServerSelectionTimeoutError(AutoReconnect):
    """No suitable server was found in time."""

    @property
    def timeout(self) -> bool:
        return True


class ConfigurationError(PyMongoError):
    """An option or a combination of options is invalid."""


class InvalidURI(ConfigurationError):
    """A connection string is malformed (connection string specification)."""


class InvalidOptionType(ConfigurationError, TypeError):
    """An option's value has the wrong type; also the TypeError that PyMongo raises."""


class InvalidOptionValue(ConfigurationError, ValueError):
    """An option's value is not allowed; also the ValueError that PyMongo raises."""


class InvalidOperation(PyMongoError):
    """An invalid use of the driver, for example after `close()`."""


class PoolClosedError(InvalidOperation):
    """The connection pool of a server was closed, because the client was closed."""


class RetryStrategyError(PyMongoError):
    """The application's retry strategy raised an exception (shown in a note), was too slow, or returned nonsense.

    The cause is the error of the newest attempt.
    """


class InvalidName(PyMongoError):
    """A database or collection name is not allowed."""


class CollectionInvalid(PyMongoError):
    """Collection validation failed, or the collection already exists."""


class DocumentTooLarge(PyMongoError, InvalidDocument):
    """A document or command is larger than the server accepts; it was not sent."""

    _document: Any = None  # it may be large


class OperationFailure(PyMongoError):
    """The server replied to a command with an error.

    Attributes:
        code: The server's error code, or None.
        details: The whole reply; empty if the error is the driver's own.
    """

    # Class attributes: `motorlite.compat` may add a base class with a property of this name, and a program may derive
    # an error whose constructor does not call this one.
    _max_wire_version: int | None = None
    _code: int | None = None
    _details: Mapping[str, Any] | None = None

    def __init__(
        self,
        error: str,
        code: int | None = None,
        details: Mapping[str, Any] | None = None,
        max_wire_version: int | None = None,
    ) -> None:
        super().__init__(error, details.get("errorLabels") if details is not None else None)
        self._code = code
        self._details = details
        self._max_wire_version = max_wire_version
        self.reached_server: bool = details is not None

    @property
    def code(self) -> int | None:
        """The server's error code."""
        return self._code

    @property
    def details(self) -> Mapping[str, Any]:
        """The complete reply of the server; empty if the error is the driver's own, or was raised before a reply."""
        return {} if self._details is None else self._details

    @property
    def timeout(self) -> bool:
        return super().timeout or self._code == MAX_TIME_MS_EXPIRED

    def __str__(self) -> str:
        text = super().__str__()
        if not self._details:
            return text
        shown = {key: value for key, value in self._details.items() if key not in _IN_EVERY_REPLY}
        try:
            return f"{text}, full error: {shown!r}"
        except RecursionError:
            return f"{text}, full error in `details`: nested too deeply to be shown"


class CursorNotFound(OperationFailure):
    """A cursor was used after the server closed it."""


class ExecutionTimeout(OperationFailure):
    """The operation's time limit passed, on the server (`maxTimeMS`) or before the command could be sent."""

    @property
    def timeout(self) -> bool:
        return True


def no_time_left(limit: float | None, server_limit: float | None = None) -> ExecutionTimeout:
    """Return the error of an operation whose time limit (in seconds) passed before its command was sent."""
    error = ExecutionTimeout("the time limit of the operation was used up before the command was sent", 50)
    error.phase, error.client_limit, error.server_limit = "before sending", limit, server_limit
    return error


class WriteConcernError(OperationFailure):
    """The write was applied, but its write concern was not satisfied."""

    may_have_been_executed = True


class WriteConcernExecutionTimeout(WriteConcernError, ExecutionTimeout):
    """The time limit passed on the server while the applied write waited for its write concern."""


class WTimeoutError(WriteConcernError):
    """The write concern was not satisfied within `wtimeout`."""

    @property
    def timeout(self) -> bool:
        return True


class WriteError(OperationFailure):
    """The server rejected a single write."""


class WriteExecutionTimeout(WriteError, ExecutionTimeout):
    """A single write ran into the time limit on the server; the reply reports it as a write error."""


class DuplicateKeyError(WriteError):
    """A write violated a unique index."""


class _BulkFailure(OperationFailure):
    def __init__(self, results: Mapping[str, Any]) -> None:
        super().__init__("batch op errors occurred", 65, results)
        self._error_labels = {*self._error_labels, *error_documents.concern_labels(results)}
        self.may_have_been_executed: bool = error_documents.has_written(results)

    @property
    def timeout(self) -> bool:
        """Whether the time limit passed, also according to the newest write concern error or a write error."""
        return super().timeout or error_documents.is_timeout(self._details or {})


class BulkWriteError(_BulkFailure):
    """At least one write of a bulk write failed; `details` has the counts and the errors by index.

    PyMongo's interface: ``details["writeErrors"]``, ``details["writeConcernErrors"]``, ``details["nInserted"]``...
    """


class ClientBulkWriteException(_BulkFailure):
    """A `bulk_write` of a client failed, or at least one of its writes did.

    Attributes:
        verbose: Whether single results were requested.
        partial_result: The writes that succeeded, as a `ClientBulkWriteResult`; None if none is known to have.
    """

    def __init__(self, results: Mapping[str, Any], verbose: bool) -> None:
        super().__init__(results)
        self.verbose: bool = verbose

    @property
    def error(self) -> Any:
        """A copy of the error that ended the bulk write, or None if only single writes failed. Also the cause."""
        return self._part("error")

    @property
    def write_concern_errors(self) -> list[Any]:
        """The write concern errors of all commands, as documents."""
        return self._part("writeConcernErrors") or []

    @property
    def write_errors(self) -> list[Any]:
        """The errors of single writes, as documents with the index `idx` and the write `op` (with its namespace)."""
        return self._part("writeErrors") or []

    def _part(self, name: str) -> Any:
        return (self._details or {}).get(name)


class BulkWriteExecutionTimeout(BulkWriteError, ExecutionTimeout):
    """A write error, or the newest write concern error, of the bulk write says that the server's time limit passed."""


# --- from error documents ---
#
# Error documents come from servers, so any field may have any type. The error itself matters more than its fields: an
# invalid field is skipped, and `details` has the whole document.


def error_code(error: BaseException) -> int | None:
    """Return the server's code of `error`, or None."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


ErrorT = TypeVar("ErrorT", bound=BaseException | None)


def detached(error: ErrorT) -> ErrorT:
    """Return a copy of `error`, if there is one, that is safe to store: without traceback, cause and context.

    A traceback keeps alive every frame that the error passed through, and with them the failed operation's cursor and
    connection.
    """
    copied: Any = error
    if isinstance(error, PyMongoError):
        copied = error._twin(error._state(None))
    elif error is not None:
        try:
            copied = copy.copy(error).with_traceback(None)
        except Exception:  # an application's own class, whose constructor takes other arguments
            copied = PyMongoError(f"{type(error).__name__}: {error}")
    return copied  # type: ignore[no-any-return]
