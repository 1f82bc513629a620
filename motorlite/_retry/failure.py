"""Pure: one failed attempt, as input for decisions.

`annotate` alone writes the driver's knowledge to an exception, when the exception leaves the executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from motorlite._base.error_documents import SYSTEM_OVERLOADED
from motorlite._base.values import Progress
from motorlite._retry.backoff import DEFAULT_RETRY_AFTER, server_base_backoff

if TYPE_CHECKING:
    from motorlite._base.values import Address, Document
    from motorlite.errors import PyMongoError


class TimeLimits(NamedTuple):
    """How long each side gives one command, in seconds; None: no limit."""

    client: float | None
    server: float | None


ConnectionKey: TypeAlias = "tuple[Address, int]"
"""A connection: the address of its server, and its id in the pool."""


class Failure(NamedTuple):
    """A failed attempt.

    Attributes:
        error: The exception raised.
        progress: How far the attempt got.
        address: The selected server, or None if none was selected.
        wire_version: The server's wire version according to its handshake; 0 without a connection.
        phase: The phase in which time ran out, or None.
        labels: The labels of the error, plus the labels that the driver must add.
        is_ordinary: Whether the retryable reads or retryable writes specification applies to the operation on that
            server.
        is_transactional: Whether the operation is part of a transaction, and neither commits nor aborts it.
        limits: For a timeout, the limits of its command, if it was sent.
        reply: The reply with ``ok: 1`` that has the write concern error, or None. It stands if there is no retry.
        is_executed: Whether the server replied with ``ok: 1``, so that only the client failed.
        reauthenticated: The connection, if the server required it to be authenticated again and it was; else None.
        retry_after: For an overload error without a hint of its own: seconds until the server may be tried again.
    """

    error: PyMongoError
    progress: Progress = Progress.NOT_SENT
    address: Address | None = None
    wire_version: int = 0
    phase: str | None = None
    labels: frozenset[str] = frozenset()
    is_ordinary: bool = False
    is_transactional: bool = False
    limits: TimeLimits | None = None
    reply: Document | None = None
    is_executed: bool = False
    reauthenticated: ConnectionKey | None = None
    retry_after: float = DEFAULT_RETRY_AFTER

    def has_label(self, label: str) -> bool:
        """Whether the error has `label`, or must get it."""
        return label in self.labels

    @property
    def reached_server(self) -> bool:
        """Whether the command may have reached a server. Errors from before that replace no earlier error."""
        return self.progress is not Progress.NOT_SENT

    def in_phase(self, phase: str | None) -> Failure:
        """Return the same failure, with `phase` as the phase in which time ran out."""
        return self._replace(phase=phase)

    def annotate(self, error: PyMongoError | None = None) -> PyMongoError:
        """Return the error (or `error` as its replacement), annotated with the facts of the attempt."""
        error = self.error if error is None else error
        if error.address is None:
            error.address = self.address
        error.phase = self.phase
        error.reached_server = self.reached_server
        if self.limits is not None and error.timeout:
            error.client_limit, error.server_limit = self.limits
        if self.has_label(SYSTEM_OVERLOADED) and error.retry_after is None:
            error.retry_after = server_base_backoff(error) or self.retry_after
        for label in self.labels:
            error._add_error_label(label)
        return error
