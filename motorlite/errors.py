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
     │    │    ├── WriteConcernExecutionTimeout  also a WTimeoutError
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
     ├── EncryptionError                    encryption or decryption failed
     │    └── EncryptedCollectionError      creating an encrypted collection failed
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
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

# Re-exported as in `pymongo.errors`: raised for documents that BSON cannot represent.
from bson.errors import InvalidDocument as InvalidDocument

from motorlite._base import error_documents
from motorlite._base.error_documents import MAX_TIME_MS_EXPIRED
from motorlite._base.values import format_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from motorlite._base.values import Address

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
    "EncryptedCollectionError",
    "EncryptionError",
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

# Helpers for copying errors, to another process (pickle) or another task (copy).

# The key for `__cause__` in the state of a copy. It is not a valid attribute name.
_CAUSE: Final = "cause of the error"


def _without_init(kind: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Make an exception without calling `__init__`, which may require other arguments."""
    return kind.__new__(kind, *args)


class UnportableError(Exception):
    """A stand-in, with the same text, for an exception that cannot be recreated in another process."""


def _portable(cause: BaseException) -> BaseException:
    """Return `cause` if it survives pickling, which many exceptions do not, else a stand-in."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # its class, or an object that it holds, may raise anything
        return UnportableError(f"{type(cause).__module__}.{type(cause).__qualname__}: {cause}")
    return cause


# What the text of an error says besides its message: server, phase, time limits, attempts.


def _notes(error: Any) -> list[str]:
    """Return the notes of a PyMongoError, in the order in which its text has them."""
    notes = []
    if error.address is not None:
        notes.append(f"server {format_address(error.address)}")
    if error.phase == "backoff":
        notes.append("too little time left for the backoff")
    elif error.phase is not None:
        notes.append(f"time used up in phase: {error.phase}")
    if error.client_limit is not None or error.server_limit is not None:
        notes.append(f"time limits: client {_seconds(error.client_limit)}, server {_seconds(error.server_limit)}")
    if error.attempts > 1:
        reasons = ", ".join(dict.fromkeys(error.retry_reasons))
        notes.append(f"{error.attempts} attempts, retried for: {reasons}")
    if error.attempts > 1 and error.may_have_been_executed:
        notes.append("may have been executed")
    if error.attempts > 1 and error.retry_refusal is not None:
        notes.append(f"not retried again: {error.retry_refusal}")
    elif error.retry_refusal not in (None, "not retryable") and not (
        error.retry_refusal == "deadline" and error.timeout
    ):
        notes.append(f"not retried: {error.retry_refusal}")
    return notes


def _seconds(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g} s"


class _Root(Exception):
    """The only base class of `PyMongoError`: where that is a built-in class, Python cannot add another (`compat`)."""


class PyMongoError(_Root):
    """Base class of every error that motorlite raises.

    Attributes:
        address: The server of the failed attempt, or None if no server was reached.
        attempts: The number of attempts, including the first one; 0 outside of operations.
        retry_reasons: Why the earlier attempts failed, oldest first (values of `RetryReason`, for example
            ``"overload"``); the newest 16 of them.
        retry_refusal: Why no further retry was made (a value of `RetryRefusal`: ``"attempts"``, ``"deadline"``,
            ``"tokens"``, ``"not retryable"``, ``"disabled"``, ``"circuit breaker"``, ``"closed"`` or
            ``"strategy failed"``), or None if no retry rule covers the error of a first attempt.
        phase: The phase of the operation in which its time limit passed (``"selection"``, ``"queue"``,
            ``"connecting"``, ``"before sending"``, ``"reply"``, ``"backoff"``, ``"retry delay"``, ``"rate limit"``,
            ``"session"``: earlier writes of the same session were running), or None.
        partial_result: The writes of a bulk write before one of its commands failed as a whole, as a
            `BulkWriteResult`; None elsewhere. (bson's errors for a document in the middle of a bulk write also have
            this attribute.)
        client_limit: For a timeout: how many seconds the driver gives the operation (`timeoutMS`) or the reply
            (`socketTimeoutMS`); None for no limit, or if the wait for a server or a connection used it up.
        server_limit: For a timeout: how many seconds the command gave the server (`maxTimeMS`); None for no limit.
        may_have_been_executed: Whether the server may have executed the operation, or a part of it, although it failed.
            It is True once an attempt got no reply, even if the error is that of a later attempt that was refused, and
            after an error in the middle of a write of many documents (`update_many`, `delete_many`, ``$merge``). If it
            is False, repeating the operation is safe. Always False for reads, which change nothing.
        reached_server: Whether the operation may have reached a server; of a bulk write, any of its commands.
        retry_after: After how many seconds the application may try again: set by errors of overload and of admission;
            None elsewhere.
    """

    address: Address | None = None
    attempts: int = 0
    retry_reasons: tuple[str, ...] = ()
    retry_refusal: str | None = None
    phase: str | None = None
    partial_result: Any = None
    may_have_been_executed: bool = False
    retry_after: float | None = None
    client_limit: float | None = None
    server_limit: float | None = None
    # Error-propagation rules of the retryable reads and writes specifications: whether this error came from a server
    # (a reply, or a socket to which the command was written). Errors from earlier phases never replace such an error.
    reached_server: bool = False
    # Class attributes: a program may derive an error whose constructor does not call this one.
    _message: str | None = None
    _error_labels: AbstractSet[str] = frozenset()
    # Whether every error of the class is a timeout.
    _is_timeout: bool = False

    def __init__(self, message: str = "", error_labels: Iterable[str] | None = None) -> None:
        # Not `super()`: `motorlite.compat` puts PyMongo's classes behind this one, whose constructors differ.
        Exception.__init__(self, message)
        self._message = message
        # PyMongo's name: behind this class, `motorlite.compat` puts PyMongo's, whose methods use it.
        self._error_labels = set(error_documents.texts(error_labels))

    @property
    def error_labels(self) -> frozenset[str]:
        """The labels of this error, from the server and from the driver."""
        return frozenset(self._error_labels)

    def has_error_label(self, label: str) -> bool:
        """Whether this error carries `label`."""
        return label in self._error_labels

    def _explain(self, text: str) -> None:
        """Add what helps a person to the message."""
        self._message = f"{self._said().removesuffix('.')}; {text}"
        Exception.__init__(self, self._message, *self.args[1:])

    def _said(self) -> str:
        return Exception.__str__(self) if self._message is None else self._message

    def _add_error_label(self, label: str) -> None:
        self._error_labels = {*self._error_labels, label}

    @property
    def timeout(self) -> bool:
        """Whether the time limit passed, also in a later retry (client-side operations timeout, "Errors")."""
        # "backoff" is not a timeout: the time left was merely too short for the backoff.
        return self._is_timeout or self.phase not in (None, "backoff")

    # --- copies: in another process (pickle), for another task (copy) ---
    #
    # By default Python recreates an exception by calling its class with `args`, which hold only the message, and drops
    # the cause. These copies are made without calling `__init__` and then take over the original's state.

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__
        if cause is not None and not isinstance(cause, PyMongoError):
            cause = _portable(cause)
        return _without_init, (type(self), self.args), self._state(cause)

    def __copy__(self) -> Self:
        return self._twin(self._state(self.__cause__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The cause is shared, not copied: many exceptions cannot be copied, and none changes once raised.
        twin = memo[id(self)] = self._twin({})
        twin.__setstate__({**copy.deepcopy(self.__dict__, memo), _CAUSE: self.__cause__})
        return twin

    def _state(self, cause: BaseException | None) -> dict[str, Any]:
        return {**self.__dict__, "_error_labels": set(self._error_labels), _CAUSE: cause}

    def _twin(self, state: dict[str, Any]) -> Self:
        twin: Self = _without_init(type(self), self.args)
        twin.__setstate__(state)
        return twin

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        attributes = dict(state or {})
        cause = attributes.pop(_CAUSE, None)
        self.__dict__.update(attributes)
        if cause is not None:
            self.__cause__ = cause

    def __str__(self) -> str:
        notes = _notes(self)
        return f"{self._said()} ({'; '.join(notes)})" if notes else self._said()


class ConnectionFailure(PyMongoError):
    """A connection to a server could not be established, was lost, or was not available."""


# The errors of operations that the client itself refuses to send.


class AdmissionError(ConnectionFailure):
    """The client refused to send the operation, to protect itself or the server.

    The operation was not sent. Only a bulk write may have sent earlier commands, if a later one waited too long for a
    connection (`reached_server`, `partial_result`). In a transaction, the error has the label
    ``TransientTransactionError``.

    Attributes:
        depth: The number that met the limit: operations in the queue or in progress; None if it does not apply.
        limit: The limit, in the unit of `depth`.
        wait_time: Seconds that the operation waited before it was refused.
    """

    depth: int | None = None
    limit: int | None = None
    wait_time: float = 0.0


class WaitQueueTimeoutError(AdmissionError):
    """No connection of the pool became available in time (pooling specification, "WaitQueueTimeoutError")."""

    _is_timeout = True


class WaitQueueFullError(AdmissionError):
    """As many operations as the queue may hold wait for a connection."""


class WaitQueueMemoryError(AdmissionError):
    """The operations that wait for a connection need more memory than the queue may use (in bytes)."""


class PoolFullError(AdmissionError):
    """All connections that the pool may have are in use, and the configuration does not let operations wait."""


class RateLimitError(AdmissionError):
    """More operations were started than the configured rate permits."""


class CircuitBreakerOpenError(AdmissionError):
    """The circuit breaker of the server is open, because too many operations failed there."""


if TYPE_CHECKING:
    ConcurrencyLimitError = PoolFullError
else:

    def __getattr__(name: str) -> type[PyMongoError]:
        """Return an error by its former name."""
        if name != "ConcurrencyLimitError":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn("ConcurrencyLimitError is deprecated, use PoolFullError", DeprecationWarning, stacklevel=2)
        return PoolFullError


# --- errors of connections, options and the driver's use ---


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

    _is_timeout = True


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

    _is_timeout = True


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


class EncryptionError(PyMongoError):
    """Client-side encryption or decryption failed. The cause says why: often a MongoCryptError of `pymongocrypt`.

    The labels of the cause are not its labels, as with PyMongo: they are about a command to the key vault.
    """

    # Declared again because the constructor assigns it, which type checkers would take for a new attribute.
    __cause__: BaseException | None

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.__cause__ = cause
        if isinstance(cause, PyMongoError):
            # Whether and when to try again, which is asked of the error that was raised.
            self.may_have_been_executed: bool = cause.may_have_been_executed
            self.retry_after: float | None = cause.retry_after

    @property
    def cause(self) -> BaseException | None:
        """The error of the encryption library, of a command to the key vault, or of a key management service."""
        return self.__cause__

    @property
    def timeout(self) -> bool:
        """Whether the time limit passed, also during a command to the key vault or to a key management service."""
        cause = self.__cause__
        return super().timeout or (isinstance(cause, PyMongoError) and cause.timeout)


class EncryptedCollectionError(EncryptionError):
    """An encrypted collection was not created, or not all of its data keys were.

    Args:
        cause: What failed.
        encrypted_fields: The description of its fields, with the data keys that were created.
    """

    def __init__(self, cause: BaseException, encrypted_fields: Mapping[str, Any]) -> None:
        super().__init__(cause)
        self._encrypted_fields = encrypted_fields

    @property
    def encrypted_fields(self) -> Mapping[str, Any]:
        """The fields, with the data keys known to have been created. After a timeout there may be more keys."""
        return self._encrypted_fields


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class CursorNotFound(OperationFailure):
    """A cursor was used after the server closed it."""


class ExecutionTimeout(OperationFailure):
    """The operation's time limit passed, on the server (`maxTimeMS`) or before the command could be sent."""

    _is_timeout = True


def no_time_left(limit: float | None, server_limit: float | None = None) -> ExecutionTimeout:
    """Return the error of an operation whose time limit (in seconds) passed before its command was sent."""
    error = ExecutionTimeout("the time limit of the operation was used up before the command was sent", 50)
    error.phase, error.client_limit, error.server_limit = "before sending", limit, server_limit
    return error


class WriteConcernError(OperationFailure):
    """The write was applied, but its write concern was not satisfied."""

    may_have_been_executed = True


class WTimeoutError(WriteConcernError):
    """The write concern was not satisfied in time: within `wtimeout`, or within the operation's time limit."""

    _is_timeout = True


class WriteConcernExecutionTimeout(WTimeoutError, ExecutionTimeout):
    """The time limit passed on the server while the applied write waited for its write concern."""


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
        except Exception:  # the constructor takes other arguments, or is private as that of trio's cancellation
            if isinstance(error, Exception):
                copied = PyMongoError(f"{type(error).__name__}: {error}")
            else:  # listeners tell a cancellation from an error by its class
                copied = type(error).__new__(type(error), *error.args)
    return copied  # type: ignore[no-any-return]
