"""Pure: what `with_transaction` does after an error (convenient API for transactions specification).

The caller passes the time and the random factor. A commit of unknown result is committed again at once; from the second
time on, each wait is the next step of the controlled backoff, and each takes a token from the client's retry budget, as
ordinary retries do (`_retry.decision`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from motorlite._base import error_documents
from motorlite._base.error_documents import (
    MAX_TIME_MS_EXPIRED,
    RETRYABLE,
    RETRYABLE_WRITE,
    RETRYABLE_WRITE_CODES,
    SYSTEM_OVERLOADED,
    TRANSIENT_TRANSACTION,
    UNKNOWN_COMMIT_RESULT,
)
from motorlite._retry.backoff import CONTROLLED_BACKOFF
from motorlite.errors import (
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    RetryStrategyError,
    WriteConcernError,
    error_code,
)
from motorlite.retry import RetryRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite.retry import RetryBudget

# Seconds.
_LIMIT: Final = 120.0
_FIRST_BACKOFF: Final = 0.005
_LONGEST_BACKOFF: Final = 0.5
_GROWTH: Final = 1.5
# Beyond this attempt the backoff is the longest; a greater power could overflow.
_LONGEST_FROM: Final = 20
# Labels of server errors that may not recur at another commit.
_PASSING: Final = frozenset({RETRYABLE, RETRYABLE_WRITE, SYSTEM_OVERLOADED, UNKNOWN_COMMIT_RESULT})


class After(Enum):
    """What follows an error."""

    RAISE = "raise the error"
    # Raise a timeout error with its labels, unless it is one.
    TIME_OUT = "raise that time ran out"
    COMMIT_AGAIN = "commit again"
    START_AGAIN = "execute the callback in a new transaction"


class TransactionRetries:
    """The retries of one call of `with_transaction`."""

    def __init__(
        self, deadline: Deadline, jitter: Callable[[], float], now: float, budget: RetryBudget | None = None
    ) -> None:
        self._deadline = deadline
        self._until = deadline.expires_at if deadline.is_set else now + _LIMIT
        self._jitter = jitter
        # Transactions started so far.
        self._attempts = 0
        # How often the newest transaction was committed again, and the server whose error led to the newest commit.
        self._commits = 0
        self._source: Address | None = None
        # None: retries have no budget.
        self._budget = budget

    def started(self) -> None:
        """Count a transaction."""
        self._attempts += 1
        self._commits = 0

    def after_callback(self, error: BaseException, now: float) -> tuple[After, float]:
        """Return what follows an error of the callback, and after how many seconds."""
        if not isinstance(error, PyMongoError) or not error.has_error_label(TRANSIENT_TRANSACTION):
            return After.RAISE, 0.0
        return self._start_again(now)

    def after_commit(self, error: PyMongoError, now: float) -> tuple[After, float]:
        """Return what follows an error of the commit, and after how many seconds."""
        is_unknown = error.has_error_label(UNKNOWN_COMMIT_RESULT) and error_code(error) != MAX_TIME_MS_EXPIRED
        if is_unknown and not _is_final(error):
            if error.retry_refusal == str(RetryRefusal.DEADLINE):
                # The commit had too little time left for its next attempt, and so would another.
                return (After.TIME_OUT if self._deadline.is_set else After.RAISE), 0.0
            return self._commit_again(error, now)
        if isinstance(error, OperationFailure) and not error.has_error_label(SYSTEM_OVERLOADED):
            self.repay()
        if error.has_error_label(TRANSIENT_TRANSACTION) and not is_unknown:
            return self._start_again(now)
        return After.RAISE, 0.0

    def _commit_again(self, error: PyMongoError, now: float) -> tuple[After, float]:
        delay, budget = 0.0, None
        if self._commits:
            delay = self._jitter() * CONTROLLED_BACKOFF[min(self._commits, len(CONTROLLED_BACKOFF)) - 1]
            budget = self._budget
        refused = self._lacks_time(now + delay)
        if refused is not None:
            return refused, 0.0
        if budget is not None and not budget.take(error.address):
            error.retry_refusal = str(RetryRefusal.TOKENS)
            return After.RAISE, 0.0
        self._commits += 1
        self._source = error.address
        return After.COMMIT_AGAIN, delay

    def repay(self) -> None:
        """Return the token of a further commit that was not made, or that was the last one.

        The others of a series return none, or it would pay for itself.
        """
        if self._budget is not None and self._commits > 1:
            self._budget.retry_not_made(self._source)

    def refused(self, error: PyMongoError, before: PyMongoError, *, may_be_committed: bool) -> None:
        """Mark the error of a further commit that was not sent. `before`, the error of the commit before, stands."""
        self.repay()
        error._add_error_label(UNKNOWN_COMMIT_RESULT)
        error.address, error.may_have_been_executed = before.address, may_be_committed

    def _start_again(self, now: float) -> tuple[After, float]:
        longest = min(_FIRST_BACKOFF * _GROWTH ** min(self._attempts, _LONGEST_FROM), _LONGEST_BACKOFF)
        delay = self._jitter() * longest
        refused = self._lacks_time(now + delay)
        return (After.START_AGAIN, delay) if refused is None else (refused, 0.0)

    def _lacks_time(self, then: float) -> After | None:
        """Return what follows instead of an attempt at the time `then` if that is too late."""
        if then >= self._until:
            return After.TIME_OUT
        # Raise the cause while the caller's own scope still lets it out.
        return After.RAISE if then >= self._deadline.scope_expires_at else None

    def timed_out(self, error: BaseException) -> BaseException:
        """Return the error to raise when time ran out ("Timeout Error propagation")."""
        if not isinstance(error, PyMongoError) or error.timeout:
            return error
        limit = self._deadline.timeout if self._deadline.is_set else _LIMIT
        message = f"no time was left of the {limit:g} s of with_transaction to retry after: {error}"
        raised: PyMongoError = ExecutionTimeout(message, 50) if self._deadline.is_set else NetworkTimeout(message)
        for label in error.error_labels:
            raised._add_error_label(label)
        raised.address, raised.may_have_been_executed = error.address, error.may_have_been_executed
        return raised


def _is_final(error: PyMongoError) -> bool:
    """Whether another commit would fail in the same way, so that it cannot tell the result of an earlier attempt."""
    if isinstance(error, InvalidOperation | ProtocolError | RetryStrategyError):
        return True
    if not isinstance(error, OperationFailure) or isinstance(error, WriteConcernError):
        return False
    # The driver added the label UnknownTransactionCommitResult, which the reply of the server does not have.
    own = frozenset(error_documents.texts(error.details.get("errorLabels")))
    return error_code(error) not in RETRYABLE_WRITE_CODES and _PASSING.isdisjoint(own)
