"""Pure: the exception tree, error labels and server code sets.

Class names and base classes are PyMongo's, so that ``except`` clauses keep working after a port::

    PyMongoError
     ├── ProtocolError                      the peer broke the wire protocol
     ├── ConnectionFailure                  no usable answer from a server
     │    ├── WaitQueueTimeoutError         no connection became free in time
     │    └── AutoReconnect                 the topology is being discovered again
     │         ├── NameResolutionError      a host name could not be resolved
     │         ├── CertificateError         TLS could not be set up
     │         ├── ProxyError               the SOCKS5 proxy could not be reached, or refused
     │         │    └── ProxyTimeout        also a NetworkTimeout
     │         ├── NetworkTimeout           the socket gave no answer in time
     │         ├── NotPrimaryError          the server is not (or no longer) a primary
     │         ├── PoolClearedError         the pool was cleared while the operation wanted a connection
     │         └── ServerSelectionTimeoutError
     ├── OperationFailure                   the server answered with an error
     │    ├── CursorNotFound
     │    ├── ExecutionTimeout              the time limit of the operation was used up
     │    ├── WriteConcernError
     │    │    └── WTimeoutError
     │    ├── WriteError
     │    │    └── DuplicateKeyError
     │    └── BulkWriteError
     ├── ConfigurationError
     │    └── InvalidURI
     ├── InvalidOperation                   the driver was used in a way that cannot work
     ├── CollectionInvalid
     ├── InvalidName
     └── DocumentTooLarge

The type says what happened; labels say what may be done about it. Every error that left a retry loop
carries where it happened (`address`), how often the operation was tried (`attempts`), why it was retried
(`retry_reasons`) and why no further retry was made (`retry_refusal`).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

# Also here, as in `pymongo.errors`: what a document raises that BSON cannot hold.
from bson.errors import InvalidDocument as InvalidDocument

from motorlite._error_copies import CAUSE, portable, without_init

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from motorlite.values import Address

# Labels that servers attach, and those that drivers must add (transactions, retryable writes, backpressure).
RETRYABLE_WRITE: Final = "RetryableWriteError"
RETRYABLE: Final = "RetryableError"
SYSTEM_OVERLOADED: Final = "SystemOverloadedError"
NO_WRITES_PERFORMED: Final = "NoWritesPerformed"
TRANSIENT_TRANSACTION: Final = "TransientTransactionError"
UNKNOWN_COMMIT_RESULT: Final = "UnknownTransactionCommitResult"
RESUMABLE_CHANGE_STREAM: Final = "ResumableChangeStreamError"

# Server discovery and monitoring specification, "not writable primary" and "node is recovering".
NOT_WRITABLE_PRIMARY_CODES: Final = frozenset({10058, 10107, 13435})
SHUTDOWN_CODES: Final = frozenset({91, 11600})
RECOVERING_CODES: Final = SHUTDOWN_CODES | {189, 11602, 13436}
NOT_PRIMARY_CODES: Final = NOT_WRITABLE_PRIMARY_CODES | RECOVERING_CODES

# Retryable writes specification; drivers add the label themselves only for servers older than 4.4.
RETRYABLE_WRITE_CODES: Final = frozenset(
    {6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436},
)
# Retryable reads specification: the same and ReadConcernMajorityNotAvailableYet.
RETRYABLE_READ_CODES: Final = RETRYABLE_WRITE_CODES | {134}

MAX_TIME_MS_EXPIRED: Final = 50
CURSOR_NOT_FOUND: Final = 43
DUPLICATE_KEY_CODES: Final = frozenset({11000, 11001, 12582})
REAUTHENTICATION_REQUIRED: Final = 391


class PyMongoError(Exception):
    """Base class of every error that motorlite raises.

    Attributes:
        address: The server that the failing attempt talked to, or None when none was reached.
        attempts: How many attempts of the operation were made, the first one included; 0 outside of operations.
        retry_reasons: Why retries were made, oldest first (for example ``"overload"``); the newest 16 of them.
        retry_refusal: Why no further retry was made (``"attempts"``, ``"deadline"``, ``"tokens"``,
            ``"not retryable"``, ``"disabled"`` or ``"closed"``), or None when the question did not come up: no rule
            about retries is about the error of a first attempt.
        phase: What the operation was doing when its time was used up (``"selection"``, ``"queue"``,
            ``"connecting"``, ``"before sending"``, ``"reply"``, ``"backoff"``), or None.
        partial_result: What a bulk write had written before one of its commands failed as a whole, as a
            `BulkWriteResult`; None elsewhere. (What bson raises for a document in the middle of a bulk write has
            this attribute too.)
    """

    address: Address | None = None
    attempts: int = 0
    retry_reasons: tuple[str, ...] = ()
    retry_refusal: str | None = None
    phase: str | None = None
    partial_result: Any = None
    # Error-propagation rules of the retryable reads and writes specifications: did this error come back from a
    # server (a reply, or a socket on which the command was put)? Errors from before that never replace one.
    reached_server: bool = False

    def __init__(self, message: str = "", error_labels: Iterable[str] | None = None) -> None:
        super().__init__(message)
        self._message = message
        self._labels: set[str] = set(_texts(error_labels))

    @property
    def error_labels(self) -> frozenset[str]:
        """The labels of this error, from the server and from the driver."""
        return frozenset(self._labels)

    def has_error_label(self, label: str) -> bool:
        """Whether this error carries `label`."""
        return label in self._labels

    def _add_error_label(self, label: str) -> None:
        self._labels.add(label)

    def _remove_error_label(self, label: str) -> None:
        self._labels.discard(label)

    @property
    def timeout(self) -> bool:
        """Whether time was used up, perhaps by a retry after this error (client-side operations timeout, "Errors")."""
        # In the backoff no time was used up: it would not have been enough.
        return self.phase not in (None, "backoff")

    # --- copies: in another process (pickle), for another task (copy) ---
    #
    # Exceptions are made anew by calling their class with `args`, which have the message alone, and lose what caused
    # them. These are made without a call, and then get all that the original had.

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__
        if cause is not None and not isinstance(cause, PyMongoError):
            cause = portable(cause)
        return without_init, (type(self), self.args), self._state(cause)

    def __copy__(self) -> Self:
        return self._twin(self._state(self.__cause__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Not what caused it: many an exception cannot be copied, and none is changed once it is raised.
        twin = memo[id(self)] = self._twin({})
        twin.__setstate__({**copy.deepcopy(self.__dict__, memo), CAUSE: self.__cause__})
        return twin

    def _state(self, cause: BaseException | None) -> dict[str, Any]:
        return {**self.__dict__, "_labels": set(self._labels), CAUSE: cause}

    def _twin(self, state: dict[str, Any]) -> Self:
        twin: Self = without_init(type(self), self.args)
        twin.__setstate__(state)
        return twin

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        attributes = dict(state or {})
        cause = attributes.pop(CAUSE, None)
        self.__dict__.update(attributes)
        if cause is not None:
            self.__cause__ = cause

    def __str__(self) -> str:
        notes = []
        if self.address is not None:
            host, port = self.address
            notes.append(f"server {host}" if port is None else f"server {host}:{port}")
        if self.phase == "backoff":
            notes.append("too little time left for the backoff")
        elif self.phase is not None:
            notes.append(f"time used up in phase: {self.phase}")
        if self.attempts > 1:
            reasons = ", ".join(dict.fromkeys(self.retry_reasons))
            notes.append(f"{self.attempts} attempts, retried for: {reasons}")
        if self.attempts > 1 and self.retry_refusal is not None:
            notes.append(f"not retried again: {self.retry_refusal}")
        elif self.retry_refusal not in (None, "not retryable") and not (
            self.retry_refusal == "deadline" and self.timeout
        ):
            notes.append(f"not retried: {self.retry_refusal}")
        return f"{self._message} ({'; '.join(notes)})" if notes else self._message


class ProtocolError(PyMongoError):
    """The peer sent something that is not the MongoDB wire protocol; its connection has been closed."""


class ConnectionFailure(PyMongoError):
    """A connection to a server could not be made or was lost, or none was free."""


class WaitQueueTimeoutError(ConnectionFailure):
    """No connection of the pool became free in time (pooling specification, "WaitQueueTimeoutError")."""

    @property
    def timeout(self) -> bool:
        return True


class AutoReconnect(ConnectionFailure):
    """The connection to a server was lost; the driver is discovering the deployment again.

    Attributes:
        details: The server's reply, or an empty mapping.
        errors: The same, under PyMongo's older name.
    """

    def __init__(self, message: str = "", errors: Mapping[str, Any] | Sequence[Any] | None = None) -> None:
        found: Any = {} if errors is None else errors
        super().__init__(message, found.get("errorLabels") if hasattr(found, "get") else None)
        self.errors: Mapping[str, Any] | Sequence[Any] = found
        self.details: Mapping[str, Any] | Sequence[Any] = self.errors


class NetworkTimeout(AutoReconnect):
    """A server did not answer in time. The operation may or may not have been executed."""

    @property
    def timeout(self) -> bool:
        return True


class NotPrimaryError(AutoReconnect):
    """The server answered that it is not a primary, is recovering or is shutting down.

    Attributes:
        code: The server's error code.
    """

    def __init__(self, message: str = "", errors: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, errors)
        self.code: int | None = _code(errors or {})


class NameResolutionError(AutoReconnect):
    """A host name could not be resolved. Not a sign of overload, so it never carries the overload labels."""


class CertificateError(AutoReconnect):
    """TLS could not be set up because of a certificate or a protocol mismatch. Not a sign of overload."""


class ProxyError(AutoReconnect):
    """The SOCKS5 proxy could not be reached, or did not connect to the server. Not a sign of overload."""


class ProxyTimeout(ProxyError, NetworkTimeout):
    """The SOCKS5 proxy did not answer, or did not connect to the server, in time. Not a sign of overload."""


class PoolClearedError(AutoReconnect):
    """The connection pool was cleared, because another operation or a monitor saw its server fail."""


class ServerSelectionTimeoutError(AutoReconnect):
    """No suitable server was found in time."""

    @property
    def timeout(self) -> bool:
        return True


class ConfigurationError(PyMongoError):
    """An option or a combination of options is wrong."""


class InvalidURI(ConfigurationError):
    """A connection string is malformed (connection string specification)."""


class InvalidOperation(PyMongoError):
    """The driver was used in a way that cannot work, for example after `close()`."""


class InvalidName(PyMongoError):
    """A database or collection name is not allowed."""


class CollectionInvalid(PyMongoError):
    """Collection validation failed, or the collection already exists."""


class DocumentTooLarge(PyMongoError):
    """A document or command is larger than the server accepts; it was not sent."""


class OperationFailure(PyMongoError):
    """The server answered a command with an error.

    Attributes:
        code: The server's error code, or None.
        details: The whole reply, or None.
    """

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
    def details(self) -> Mapping[str, Any] | None:
        """The complete reply of the server."""
        return self._details

    @property
    def timeout(self) -> bool:
        return super().timeout or self._code == MAX_TIME_MS_EXPIRED

    def __str__(self) -> str:
        text = super().__str__()
        if not self._details:
            return text
        try:
            return f"{text}, full error: {self._details!r}"
        except RecursionError:
            return f"{text}, full error in `details`: nested too deeply to be shown"


class CursorNotFound(OperationFailure):
    """A cursor was used after the server closed it."""


class ExecutionTimeout(OperationFailure):
    """The operation's time limit was used up: in the server (`maxTimeMS`) or before the command could be sent."""

    @property
    def timeout(self) -> bool:
        return True


def no_time_left() -> ExecutionTimeout:
    """The error of an operation whose time limit was used up before its command was sent."""
    error = ExecutionTimeout("the time limit of the operation was used up before the command was sent", 50)
    error.phase = "before sending"
    return error


class WriteConcernError(OperationFailure):
    """The write was applied, but its write concern was not satisfied."""


class WTimeoutError(WriteConcernError):
    """The write concern was not satisfied within `wtimeout`."""

    @property
    def timeout(self) -> bool:
        return True


class WriteError(OperationFailure):
    """The server refused a single write."""


class DuplicateKeyError(WriteError):
    """A write violated a unique index."""


class BulkWriteError(OperationFailure):
    """At least one write of a bulk write failed; `details` has the counts and the errors by index.

    PyMongo's interface: ``details["writeErrors"]``, ``details["writeConcernErrors"]``, ``details["nInserted"]``...
    """

    def __init__(self, results: Mapping[str, Any]) -> None:
        super().__init__("batch op errors occurred", 65, results)
        for error in results.get("writeConcernErrors") or ():
            self._labels.update(_texts(error.get("errorLabels")))

    @property
    def timeout(self) -> bool:
        """Whether time was used up, also as the newest write concern error or a write error says it."""
        if super().timeout:
            return True
        details = self._details or {}
        concern_errors = details.get("writeConcernErrors") or ()
        if concern_errors and _is_timeout_document(concern_errors[-1]):
            return True
        return any(_code(error) == MAX_TIME_MS_EXPIRED for error in details.get("writeErrors") or ())


# --- from error documents ---
#
# They come from servers, so any field may be anything. That the document is an error is what counts: a field that
# cannot be what it should be is left out, and `details` has all of it.


def _texts(labels: Any) -> Iterable[str]:
    """Error labels, as plain text (`bson.Code` is text that cannot be hashed)."""
    given = labels if isinstance(labels, list | tuple | set | frozenset) else ()
    return (str.__str__(label) for label in given if isinstance(label, str))


def _code(error: Mapping[str, Any]) -> int | None:
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _message(error: Mapping[str, Any]) -> str:
    message = error.get("errmsg") or error.get("$err")
    return str.__str__(message) if isinstance(message, str) else "the server sent an error without a message"


def _is_wtimeout(error: Mapping[str, Any]) -> bool:
    info: Any = error.get("errInfo")
    return hasattr(info, "get") and bool(info.get("wtimeout"))


def _is_timeout_document(error: Mapping[str, Any]) -> bool:
    return _code(error) == MAX_TIME_MS_EXPIRED or _is_wtimeout(error)


def error_from_reply(reply: Mapping[str, Any], max_wire_version: int | None = None) -> PyMongoError:
    """The error that a reply with ``ok: 0`` stands for."""
    code, message = _code(reply), _message(reply)
    error: PyMongoError
    if code in NOT_PRIMARY_CODES:
        error = NotPrimaryError(message, reply)
        error.reached_server = True
        return error
    if code in DUPLICATE_KEY_CODES:
        return DuplicateKeyError(message, code, reply, max_wire_version)
    if code == MAX_TIME_MS_EXPIRED:
        return ExecutionTimeout(message, code, reply, max_wire_version)
    if code == CURSOR_NOT_FOUND:
        return CursorNotFound(message, code, reply, max_wire_version)
    return OperationFailure(message, code, reply, max_wire_version)


def write_error(error: Mapping[str, Any], labels: Iterable[str] = ()) -> WriteError:
    """The exception for one entry of a reply's `writeErrors`; `labels` are the reply's own."""
    message, code = _message(error), _code(error)
    kind = DuplicateKeyError if code in DUPLICATE_KEY_CODES else WriteError
    raised = kind(message, code, error)
    for label in labels:
        raised._add_error_label(label)
    return raised


def write_concern_error(error: Mapping[str, Any], labels: Iterable[str] = ()) -> WriteConcernError:
    """The exception for a reply's `writeConcernError`; `labels` are the reply's own."""
    kind = WTimeoutError if _is_wtimeout(error) else WriteConcernError
    raised = kind(_message(error), _code(error), error)
    for label in _texts(labels):
        raised._add_error_label(label)
    return raised


def error_code(error: BaseException) -> int | None:
    """The server's code of `error`, or None."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


ErrorT = TypeVar("ErrorT", bound=PyMongoError)


@overload
def detached(error: ErrorT) -> ErrorT: ...


@overload
def detached(error: BaseException) -> BaseException: ...


def detached(error: BaseException) -> BaseException:
    """A copy of `error` to be kept: without traceback, cause and context.

    A traceback keeps alive every frame that the error came through, and with them the cursor and the connection of the
    operation that failed.
    """
    if isinstance(error, PyMongoError):
        return error._twin(error._state(None))
    try:
        return copy.copy(error).with_traceback(None)
    except Exception:  # an application's own class, whose constructor wants something else
        return PyMongoError(f"{type(error).__name__}: {error}")
