"""Why an attempt failed: every kind of error at every stage, and the flags of every reason."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from motorlite._base.error_documents import NOT_PRIMARY_CODES, RETRYABLE_READ_CODES
from motorlite._base.values import Progress
from motorlite._retry.classification import reason_of
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    CircuitBreakerOpenError,
    ConfigurationError,
    ExecutionTimeout,
    InvalidOperation,
    NameResolutionError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    PoolFullError,
    ProtocolError,
    ProxyError,
    PyMongoError,
    RateLimitError,
    ServerSelectionTimeoutError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.retry import RetryReason
from tests.support.operations import failed, server_error

if TYPE_CHECKING:
    from motorlite._retry.failure import Failure

NOT_SENT, IN_FLIGHT, ANSWERED = Progress
OVERLOADED, RETRYABLE, WRITE = "SystemOverloadedError", "RetryableError", "RetryableWriteError"
KEY = (("a", 1), 5)


def reason(error: PyMongoError, progress: Progress, **facts: object) -> RetryReason:
    failure: Failure = failed(error, progress=progress, **facts)
    return reason_of(failure)


# The RFC's table: non-idempotent retry, always retry; and the RFC's names of what corresponds.
FLAGS = {
    RetryReason.UNKNOWN: (False, False),  # UNKNOWN
    RetryReason.NO_SUITABLE_SERVER: (True, False),
    RetryReason.SERVER_NOT_AVAILABLE: (True, False),
    RetryReason.CONNECTION_NOT_AVAILABLE: (True, False),
    RetryReason.NOT_ADMITTED: (True, False),
    RetryReason.CIRCUIT_BREAKER_OPEN: (True, False),
    RetryReason.CONNECTION_LOST_IN_FLIGHT: (False, False),
    RetryReason.REAUTHENTICATION_REQUIRED: (True, True),
    RetryReason.OVERLOAD: (True, False),
    RetryReason.RETRYABLE_ERROR: (True, False),
    RetryReason.FAILOVER: (False, False),
    RetryReason.TEMPORARY_FAILURE: (False, False),
    RetryReason.NAMED_CODE: (False, False),
}


@pytest.mark.parametrize("member", RetryReason)
def test_flags(member: RetryReason) -> None:
    assert (member.allows_non_idempotent_retry, member.always_retry) == FLAGS[member]


@pytest.mark.parametrize(
    ("code", "progress", "expected"),
    [
        (112, ANSWERED, RetryReason.NAMED_CODE),
        (112, NOT_SENT, RetryReason.UNKNOWN),
        (24, ANSWERED, RetryReason.UNKNOWN),
        # What the table knows is what it is.
        (6, ANSWERED, RetryReason.TEMPORARY_FAILURE),
    ],
)
def test_codes_that_a_strategy_names(code: int, progress: Progress, expected: RetryReason) -> None:
    assert reason_of(failed(server_error(code), progress=progress), frozenset({6, 112})) is expected


def test_reasons_are_words() -> None:
    assert RetryReason("overload") is RetryReason.OVERLOAD
    assert {"overload": 1}[RetryReason.OVERLOAD] == 1
    assert str(RetryReason.OVERLOAD) == "overload"
    assert len(set(RetryReason)) == len(RetryReason) == len(FLAGS)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CircuitBreakerOpenError("x"), RetryReason.CIRCUIT_BREAKER_OPEN),
        (WaitQueueTimeoutError("x"), RetryReason.CONNECTION_NOT_AVAILABLE),
        (WaitQueueFullError("x"), RetryReason.NOT_ADMITTED),
        (WaitQueueMemoryError("x"), RetryReason.NOT_ADMITTED),
        (PoolFullError("x"), RetryReason.NOT_ADMITTED),
        (RateLimitError("x"), RetryReason.NOT_ADMITTED),
        (ServerSelectionTimeoutError("x"), RetryReason.NO_SUITABLE_SERVER),
        (AutoReconnect("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (PoolClearedError("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (NetworkTimeout("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (NameResolutionError("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (CertificateError("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (ProxyError("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (NotPrimaryError("x", {"code": 10107}), RetryReason.SERVER_NOT_AVAILABLE),
        # What the server answered to the handshake or to the authentication.
        (server_error(91), RetryReason.SERVER_NOT_AVAILABLE),
        (server_error(18), RetryReason.UNKNOWN),
        (ConfigurationError("x"), RetryReason.UNKNOWN),
        (InvalidOperation("x"), RetryReason.UNKNOWN),
        (ExecutionTimeout("x", 50), RetryReason.UNKNOWN),
        (PyMongoError("x"), RetryReason.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PyMongoError) else value.name,
)
def test_before_the_command_was_sent(error: PyMongoError, expected: RetryReason) -> None:
    assert reason(error, NOT_SENT) is expected
    if expected is not RetryReason.UNKNOWN and not isinstance(error, (OperationFailure, NotPrimaryError)):
        # The labels of an error that was made on the way do not count.
        for label in (OVERLOADED, RETRYABLE, WRITE):
            assert reason(error, NOT_SENT, labels=frozenset({label})) is expected


@pytest.mark.parametrize(
    "error",
    [*map(server_error, (18, 91, 462)), NotPrimaryError("x", {"code": 11600})],
    ids=["18", "91", "462", "11600"],
)
def test_labels_in_the_reply_to_a_handshake(error: PyMongoError) -> None:
    assert reason(error, NOT_SENT, labels=frozenset({OVERLOADED})) is RetryReason.OVERLOAD
    assert reason(error, NOT_SENT, labels=frozenset({OVERLOADED, RETRYABLE})) is RetryReason.OVERLOAD
    assert reason(error, NOT_SENT, labels=frozenset({RETRYABLE})) is RetryReason.RETRYABLE_ERROR


def test_a_connection_that_was_lost_before_the_command_was_written() -> None:
    assert reason(AutoReconnect("x"), NOT_SENT, wire_version=25) is RetryReason.CONNECTION_NOT_AVAILABLE


@pytest.mark.parametrize("error", [AutoReconnect("x"), NetworkTimeout("x")])
def test_in_flight(error: PyMongoError) -> None:
    for version in (0, 25):
        assert reason(error, IN_FLIGHT, wire_version=version) is RetryReason.CONNECTION_LOST_IN_FLIGHT


@pytest.mark.parametrize("error", [ProtocolError("x"), PyMongoError("x"), server_error(91)])
def test_anything_else_in_flight_is_unknown(error: PyMongoError) -> None:
    assert reason(error, IN_FLIGHT) is RetryReason.UNKNOWN


CODES = [2, 11, 18, 26, 43, 50, 64, 112, 251, 391, 462, 11000, *sorted(RETRYABLE_READ_CODES | NOT_PRIMARY_CODES)]


@pytest.mark.parametrize("code", CODES)
def test_answers_by_labels_and_then_by_code(code: int) -> None:
    for flags in product((False, True), repeat=3):
        labels = frozenset(label for label, is_set in zip((OVERLOADED, RETRYABLE, WRITE), flags, strict=True) if is_set)
        if OVERLOADED in labels:
            expected = RetryReason.OVERLOAD
        elif RETRYABLE in labels:
            expected = RetryReason.RETRYABLE_ERROR
        elif code in {10058, 10107, 13435, 91, 11600, 189, 11602, 13436}:
            expected = RetryReason.FAILOVER
        elif code in RETRYABLE_READ_CODES or WRITE in labels:
            expected = RetryReason.TEMPORARY_FAILURE
        else:
            expected = RetryReason.UNKNOWN
        assert reason(server_error(code), ANSWERED, labels=labels) is expected
        not_primary = NotPrimaryError("x", {"code": code})
        assert reason(not_primary, ANSWERED, labels=labels) is expected


def test_reauthentication_is_always_retried_once_it_was_done() -> None:
    assert reason(server_error(391), ANSWERED) is RetryReason.UNKNOWN
    assert reason(server_error(391), ANSWERED, reauthenticated=KEY) is RetryReason.REAUTHENTICATION_REQUIRED
    assert reason(server_error(18), ANSWERED, reauthenticated=KEY) is RetryReason.UNKNOWN
    assert [member for member in RetryReason if member.always_retry] == [RetryReason.REAUTHENTICATION_REQUIRED]


def test_the_time_limit_of_the_server_is_final() -> None:
    assert reason(ExecutionTimeout("x", 50), ANSWERED) is RetryReason.UNKNOWN
