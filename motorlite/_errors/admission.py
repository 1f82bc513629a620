"""Pure: the errors of operations that the client itself refuses to send."""

from __future__ import annotations

from motorlite._errors.base import ConnectionFailure


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
