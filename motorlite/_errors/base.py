"""Pure: the root of the exception tree: labels, what an operation learned, copies."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Self

from motorlite._base import error_documents
from motorlite._base.values import format_address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from motorlite._base.values import Address


# Helpers for copying errors, to another process (pickle) or another task (copy).

# The key for `__cause__` in the state of a copy. It is not a valid attribute name.
CAUSE: Final = "cause of the error"


def without_init(kind: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Make an exception without calling `__init__`, which may require other arguments."""
    return kind.__new__(kind, *args)


class UnportableError(Exception):
    """A stand-in, with the same text, for an exception that cannot be recreated in another process."""


def portable(cause: BaseException) -> BaseException:
    """Return `cause` if it survives pickling, which many exceptions do not, else a stand-in."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # its class, or an object that it holds, may raise anything
        return UnportableError(f"{type(cause).__module__}.{type(cause).__qualname__}: {cause}")
    return cause


# What the text of an error says besides its message: server, phase, time limits, attempts.


def of(error: Any) -> list[str]:
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
        return self.phase not in (None, "backoff")

    # --- copies: in another process (pickle), for another task (copy) ---
    #
    # By default Python recreates an exception by calling its class with `args`, which hold only the message, and drops
    # the cause. These copies are made without calling `__init__` and then take over the original's state.

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__
        if cause is not None and not isinstance(cause, PyMongoError):
            cause = portable(cause)
        return without_init, (type(self), self.args), self._state(cause)

    def __copy__(self) -> Self:
        return self._twin(self._state(self.__cause__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The cause is shared, not copied: many exceptions cannot be copied, and none changes once raised.
        twin = memo[id(self)] = self._twin({})
        twin.__setstate__({**copy.deepcopy(self.__dict__, memo), CAUSE: self.__cause__})
        return twin

    def _state(self, cause: BaseException | None) -> dict[str, Any]:
        return {**self.__dict__, "_error_labels": set(self._error_labels), CAUSE: cause}

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
        notes = of(self)
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

    @property
    def timeout(self) -> bool:
        return True


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
