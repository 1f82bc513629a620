"""What attempts say about their server."""

from __future__ import annotations

import pytest

from motorlite._admission.circuit_breaker import Outcome
from motorlite._base.values import Progress
from motorlite._execution.admission import outcome_of
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    CertificateError,
    CircuitBreakerOpenError,
    ConfigurationError,
    DocumentTooLarge,
    DuplicateKeyError,
    ExecutionTimeout,
    NameResolutionError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ProtocolError,
    ProxyTimeout,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    no_time_left,
)

NOT_SENT, IN_FLIGHT, ANSWERED = Progress.NOT_SENT, Progress.IN_FLIGHT, Progress.ANSWERED
SUCCESS, FAILURE, NEUTRAL = Outcome


def labelled(error: PyMongoError, *labels: str) -> PyMongoError:
    for label in labels:
        error._add_error_label(label)
    return error


CASES: list[tuple[BaseException, Progress, Outcome]] = [
    # network errors
    (AutoReconnect("lost"), IN_FLIGHT, FAILURE),
    (AutoReconnect("refused"), NOT_SENT, FAILURE),
    (NameResolutionError("no such host"), NOT_SENT, FAILURE),
    (CertificateError("expired"), NOT_SENT, FAILURE),
    (ProtocolError("garbage"), IN_FLIGHT, FAILURE),
    # timeouts
    (NetworkTimeout("late"), IN_FLIGHT, FAILURE),
    (ProxyTimeout("late"), NOT_SENT, FAILURE),
    (ExecutionTimeout("too slow", 50), ANSWERED, FAILURE),
    (OperationFailure("too slow", 50), ANSWERED, FAILURE),
    # overload
    (labelled(OperationFailure("busy", 462), "SystemOverloadedError"), ANSWERED, FAILURE),
    (labelled(AutoReconnect("refused"), "SystemOverloadedError", "RetryableError"), NOT_SENT, FAILURE),
    # any other reply
    (DuplicateKeyError("twice", 11000), ANSWERED, SUCCESS),
    (BulkWriteError({}), ANSWERED, SUCCESS),
    (OperationFailure("bad value", 2), ANSWERED, SUCCESS),
    (labelled(OperationFailure("busy", 462), "RetryableError"), ANSWERED, SUCCESS),
    # what other errors or the topology already stand for
    (NotPrimaryError("stepped down", {"code": 10107}), ANSWERED, NEUTRAL),
    (PoolClearedError("cleared"), NOT_SENT, NEUTRAL),
    (PoolClearedError("interrupted"), IN_FLIGHT, NEUTRAL),
    (ServerSelectionTimeoutError("none"), NOT_SENT, NEUTRAL),
    # the client's own
    (no_time_left(0.1), NOT_SENT, NEUTRAL),
    (WaitQueueTimeoutError("full"), NOT_SENT, NEUTRAL),
    (CircuitBreakerOpenError("open"), NOT_SENT, NEUTRAL),
    (DocumentTooLarge("big"), NOT_SENT, NEUTRAL),
    (ConfigurationError("old server"), NOT_SENT, NEUTRAL),
    (OperationFailure("authentication failed", 18), NOT_SENT, NEUTRAL),
    (KeyError("the application's own"), NOT_SENT, NEUTRAL),
    (GeneratorExit(), IN_FLIGHT, NEUTRAL),
]


@pytest.mark.parametrize(("error", "progress", "outcome"), CASES, ids=lambda value: getattr(value, "name", repr(value)))
def test_outcomes(error: BaseException, progress: Progress, outcome: Outcome) -> None:
    assert outcome_of(error, progress) is outcome
