"""What follows an error in `with_transaction`."""

from __future__ import annotations

from math import inf

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._sessions.convenient import After, TransactionRetries
from motorlite.errors import (
    AutoReconnect,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    RetryStrategyError,
    WriteConcernError,
)
from motorlite.retry import RetryBudget

TRANSIENT, UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"
START = 1000.0


def labelled(*labels: str, code: int = 251) -> OperationFailure:
    return OperationFailure("no", code, {"ok": 0, "code": code, "errorLabels": list(labels)})


def unknown(error: PyMongoError) -> PyMongoError:
    """The error of a commit whose earlier attempt got no reply."""
    error._add_error_label(UNKNOWN)
    return error


def retries(deadline: Deadline = NO_DEADLINE, *, jitter: float = 1.0, started: int = 1) -> TransactionRetries:
    made = TransactionRetries(deadline, lambda: jitter, START)
    for _ in range(started):
        made.started()
    return made


def test_the_backoff_grows_up_to_half_a_second() -> None:
    made, delays = retries(started=0), []
    for _ in range(100):
        made.started()
        after, delay = made.after_callback(labelled(TRANSIENT), START)
        assert after is After.START_AGAIN
        delays.append(delay)
    assert delays[:3] == pytest.approx([0.0075, 0.01125, 0.016875])
    # The prose test "Retry Backoff is Enforced" has 13 retries.
    assert sum(delays[:13]) == pytest.approx(2.3, abs=0.1)
    assert delays[-1] == max(delays) == 0.5
    assert retries(jitter=0).after_callback(labelled(TRANSIENT), START) == (After.START_AGAIN, 0)
    assert retries(jitter=0.5).after_callback(labelled(TRANSIENT), START)[1] == pytest.approx(0.00375)


@pytest.mark.parametrize(
    "error", [ValueError(), KeyboardInterrupt(), labelled(), labelled(UNKNOWN), AutoReconnect("x")]
)
def test_other_errors_of_the_callback_are_raised(error: BaseException) -> None:
    assert retries().after_callback(error, START) == (After.RAISE, 0)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (labelled(), After.RAISE),
        (labelled(UNKNOWN), After.COMMIT_AGAIN),
        (labelled(UNKNOWN, TRANSIENT), After.COMMIT_AGAIN),
        (labelled(UNKNOWN, code=50), After.RAISE),
        (labelled(UNKNOWN, TRANSIENT, code=50), After.START_AGAIN),
        (labelled(TRANSIENT), After.START_AGAIN),
        (unknown(labelled(code=13)), After.RAISE),
        (unknown(labelled(code=91)), After.COMMIT_AGAIN),
        (unknown(labelled("RetryableWriteError", code=13)), After.COMMIT_AGAIN),
        (unknown(labelled("SystemOverloadedError", code=462)), After.COMMIT_AGAIN),
        (unknown(WriteConcernError("x", 64)), After.COMMIT_AGAIN),
        (unknown(AutoReconnect("x")), After.COMMIT_AGAIN),
        (unknown(InvalidOperation("closed")), After.RAISE),
        (unknown(RetryStrategyError("x")), After.RAISE),
        (unknown(ProtocolError("x")), After.RAISE),
    ],
)
def test_errors_of_the_commit(error: PyMongoError, expected: After) -> None:
    after, delay = retries().after_commit(error, START)
    assert after is expected
    assert bool(delay) is (expected is After.START_AGAIN)


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [(NO_DEADLINE, 120), (Deadline(START + 7, inf, 7), 7), (Deadline(START + 500, inf, 500), 500)],
)
def test_when_time_runs_out(deadline: Deadline, seconds: float) -> None:
    made, end = retries(deadline), START + seconds
    transient, uncertain = labelled(TRANSIENT), labelled(UNKNOWN)
    assert made.after_callback(transient, end - 0.008)[0] is After.START_AGAIN
    assert made.after_callback(transient, end - 0.0075) == (After.TIME_OUT, 0)
    assert made.after_commit(transient, end - 0.0075) == (After.TIME_OUT, 0)
    assert made.after_commit(uncertain, end - 0.001)[0] is After.COMMIT_AGAIN
    assert made.after_commit(uncertain, end) == (After.TIME_OUT, 0)


def test_further_commits_back_off_and_take_a_token_each() -> None:
    budget = RetryBudget(8)
    made = TransactionRetries(NO_DEADLINE, lambda: 1.0, START, budget)
    made.started()
    found = [made.after_commit(labelled(UNKNOWN), START) for _ in range(9)]
    assert found == [(After.COMMIT_AGAIN, delay) for delay in (0, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 1, 1)]
    assert budget.tokens == 0
    error = labelled(UNKNOWN)
    assert made.after_commit(error, START) == (After.RAISE, 0)
    assert error.retry_refusal == "tokens"
    # The first further commit of another transaction is free.
    made.started()
    assert made.after_commit(labelled(UNKNOWN), START) == (After.COMMIT_AGAIN, 0)


def test_a_commit_whose_backoff_does_not_fit_takes_no_token() -> None:
    budget = RetryBudget(8)
    for deadline, expected in ((Deadline(START + 1, inf, 1), After.TIME_OUT), (Deadline(inf, START + 1), After.RAISE)):
        made = TransactionRetries(deadline, lambda: 0.5, START, budget)
        for _ in range(2):
            made.after_commit(labelled(UNKNOWN), START)
        tokens = budget.tokens
        # 5 ms are due.
        assert made.after_commit(labelled(UNKNOWN), START + 0.995) == (expected, 0)
        assert budget.tokens == tokens
        assert made.after_commit(labelled(UNKNOWN), START + 0.9949) == (After.COMMIT_AGAIN, 0.005)


def test_only_a_commit_that_took_a_token_returns_one() -> None:
    budget = RetryBudget(8)
    made = TransactionRetries(NO_DEADLINE, lambda: 1.0, START, budget)
    made.started()
    error = labelled(UNKNOWN)
    for expected in (8, 7, 6):
        assert made.after_commit(error, START)[0] is After.COMMIT_AGAIN
        assert budget.tokens == expected
    made.repay()
    assert budget.tokens == 7
    made.started()
    made.after_commit(error, START)
    made.repay()
    assert budget.tokens == 7


def test_a_limit_of_zero_is_none() -> None:
    made = retries(Deadline(inf, inf, inf, is_set=True))
    assert made.after_callback(labelled(TRANSIENT), START + 1e9)[0] is After.START_AGAIN


def test_a_backoff_that_the_callers_scope_would_cut_off() -> None:
    made = retries(Deadline(inf, START + 1))
    assert made.after_callback(labelled(TRANSIENT), START + 0.99)[0] is After.START_AGAIN
    assert made.after_callback(labelled(TRANSIENT), START + 0.9925) == (After.RAISE, 0)


@pytest.mark.parametrize(
    ("deadline", "kind", "seconds"),
    [(NO_DEADLINE, NetworkTimeout, "120 s"), (Deadline(START + 7, inf, 7), ExecutionTimeout, "7 s")],
)
def test_the_error_when_time_ran_out(deadline: Deadline, kind: type[PyMongoError], seconds: str) -> None:
    cause = labelled(TRANSIENT, "another label")
    cause.address, cause.may_have_been_executed = ("a", 1), True
    error = retries(deadline).timed_out(cause)
    assert type(error) is kind
    assert error.timeout
    assert error.error_labels == {TRANSIENT, "another label"}
    assert (error.address, error.may_have_been_executed) == (("a", 1), True)
    assert seconds in str(error)
    assert str(cause) in str(error)


@pytest.mark.parametrize("error", [ExecutionTimeout("late", 50), NetworkTimeout("late"), ValueError()])
def test_what_is_a_timeout_already_stays(error: BaseException) -> None:
    assert retries().timed_out(error) is error


@pytest.mark.parametrize(
    ("deadline", "expected"), [(NO_DEADLINE, After.RAISE), (Deadline(START + 7, inf, 7), After.TIME_OUT)]
)
def test_a_commit_that_found_too_little_time_left_is_not_repeated(deadline: Deadline, expected: After) -> None:
    error = unknown(labelled("SystemOverloadedError", code=462))
    error.retry_refusal = "deadline"
    assert retries(deadline).after_commit(error, START) == (expected, 0)
