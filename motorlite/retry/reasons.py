"""Pure: the vocabulary of retries: why an attempt failed, which rule decided, and why no retry follows.

The reason says what happened, whatever the options are. The rule says who permitted or refused the retry. The same
reason may be retried by different rules: a lost connection by the retryable reads specification, and once that has no
retries left, by the application's strategy.
"""

from __future__ import annotations

import enum

__all__ = ["RetryReason", "RetryRefusal", "RetryRule"]


class RetryReason(enum.StrEnum):
    """Why an attempt failed.

    docs/retry-strategies.md lists the errors behind each reason.

    Attributes:
        allows_non_idempotent_retry: Whether the server certainly executed nothing, or asks for a retry itself, so that
            any operation may be sent again. Otherwise only idempotent ones (`RetryRequest.idempotent`) may.
        always_retry: Whether the driver retries by itself, without asking any strategy.
    """

    allows_non_idempotent_retry: bool
    always_retry: bool

    def __new__(cls, value: str, allows_non_idempotent_retry: bool = False, always_retry: bool = False) -> RetryReason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.allows_non_idempotent_retry = allows_non_idempotent_retry
        member.always_retry = always_retry
        return member

    UNKNOWN = "unknown", False, False
    """Any other error. Never retried."""

    # --- the command was not sent ---

    NO_SUITABLE_SERVER = "no suitable server", True, False
    """No server was suitable in time: for example no primary after a failover."""
    SERVER_NOT_AVAILABLE = "server not available", True, False
    """No connection to the selected server could be established, or its pool was cleared because it failed."""
    CONNECTION_NOT_AVAILABLE = "connection not available", True, False
    """No connection of the pool became free in time, or it was lost before the command was written."""
    NOT_ADMITTED = "not admitted", True, False
    """A limit of the client refused the operation: a full queue, too many operations in progress or in a second."""
    CIRCUIT_BREAKER_OPEN = "circuit breaker open", True, False
    """The client's circuit breaker of the server is open."""

    # --- the command was sent, and no reply arrived ---

    CONNECTION_LOST_IN_FLIGHT = "connection lost in flight", False, False
    """The connection was lost, or no reply arrived in time. The server may or may not have executed the command."""

    # --- the server replied ---

    REAUTHENTICATION_REQUIRED = "reauthentication required", True, True
    """The credentials of the connection expired (code 391). The driver has authenticated it again."""
    OVERLOAD = "overload", True, False
    """The server refused the command because of overload (label `SystemOverloadedError`)."""
    RETRYABLE_ERROR = "retryable error", True, False
    """The server declares that a retry is safe (label `RetryableError`)."""
    FAILOVER = "failover", False, False
    """The server is not, or no longer, a primary, or it is shutting down. It may have executed part of the command."""
    TEMPORARY_FAILURE = "temporary failure", False, False
    """Another error that the retryable reads or writes specification retries, such as a network error between
    servers. The server may have executed the command, in whole or in part."""
    NAMED_CODE = "named code", False, False
    """Any other error with a code that the strategy names (`RetryStrategy.codes`)."""


class RetryRule(enum.StrEnum):
    """Who decides about a retry."""

    ALWAYS = "always"
    """The reason (`RetryReason.always_retry`)."""
    OVERLOAD_POLICY = "overload policy"
    """The labels of the error (client backpressure specification, `OverloadRetry`). Retries take a token."""
    SPECIFICATION = "specification"
    """The retryable reads or retryable writes specification. From an operation's second such retry on, each takes a
    token."""
    STRATEGY = "strategy"
    """The application's `RetryStrategy`."""


class RetryRefusal(enum.StrEnum):
    """Why no retry follows. An error that no retry rule covers (a duplicate key) has no refusal."""

    NOT_RETRYABLE = "not retryable"
    """The error is retryable, but not for this operation; or a retry failed with an error that is not retryable; or
    the strategy declined."""
    DISABLED = "disabled"
    """`retryReads` or `retryWrites` is off (both must be on for runCommand)."""
    ATTEMPTS = "attempts"
    """No retries are left."""
    DEADLINE = "deadline"
    """The time limit of the operation, of server selection or of the connection passed, or the delay would end after
    the deadline of the operation or of the enclosing cancel scope."""
    TOKENS = "tokens"
    """The retry budget is empty."""
    BREAKER = "circuit breaker"
    """The circuit breaker of the server is open."""
    CLOSED = "closed"
    """The client is closing."""
    STRATEGY_FAILED = "strategy failed"
    """The application's retry strategy raised an exception, did not answer in time, or returned something else than a
    `RetryAction`."""
