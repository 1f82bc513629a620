"""Pure: the root of the exception tree: labels, what an operation learned, copies."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

from motorlite._base import error_documents, error_notes
from motorlite._base.error_copies import CAUSE, portable, without_init

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from motorlite._base.values import Address


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
        notes = error_notes.of(self)
        return f"{self._said()} ({'; '.join(notes)})" if notes else self._said()


class ConnectionFailure(PyMongoError):
    """A connection to a server could not be established, was lost, or was not available."""
