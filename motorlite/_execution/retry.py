"""Pure: the decision after a failed attempt: retry, or raise which error.

Theory of operation. Each operation has one `Retry`, created at its first error. An operation that succeeds at once
creates none. Every rule about retries is an input to `after`: the labels of client backpressure, retryable reads,
retryable writes, the deadline and the token bucket. The checks run in a fixed order: does a rule permit the retry, is
the option on, has that rule attempts left, does the delay fit the deadline, does the client stay open, is there a
token. So a retry that does not happen never costs a token.

Rules that permit a retry, in the order in which they are tried ("ordinary" is retryable reads or writes):

| labels of the error                      | rules           | backoff | token |
|------------------------------------------|-----------------|---------|-------|
| SystemOverloadedError and RetryableError | label           | yes     | yes   |
| SystemOverloadedError alone              | none            |         |       |
| RetryableError alone                     | label, ordinary | no      | label |
| neither                                  | ordinary        | no      | no    |

With `needs_both_labels` (the later revision), an error with only one label gets the ordinary rule. After an overload
error that retry also backs off.

The label's rule has attempts left while the operation's retries, counted together, are fewer than `max_retries`. After
an overload error the same limit applies to the ordinary rule. Before one, the ordinary rule has one attempt, or with
timeoutMS as many as time permits. After a retry by the label's rule, `max_retries` also caps the ordinary rule. When
the label's rule has no attempt or no token left, the ordinary rule decides: a label never makes an error less retryable
than its code does. An overload error has no such fallback: rule 4 of the client backpressure specification refuses its
retry without a token, and its pseudocode, like the later revision's, caps every retry after it. So `max_retries=0` also
turns off the retry of a refused connection, which carries both labels.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._base.error_codes import SYSTEM_OVERLOADED
from motorlite._execution import classify
from motorlite._execution.operation import Kind
from motorlite._overload import backoff
from motorlite.errors import CircuitBreakerOpenError
from motorlite.retry import RetryReason, RetryRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.deadline import Deadline
    from motorlite._execution.failure import Failure
    from motorlite._execution.operation import Operation
    from motorlite._overload.token_bucket import TokenBucket
    from motorlite.errors import PyMongoError
    from motorlite.retry import OverloadRetry

_REASONS_KEPT = 16
_BY_LABEL = (RetryReason.OVERLOAD, RetryReason.LABEL)


class RetrySettings:
    """The retry options of a client."""

    __slots__ = ("bucket", "jitter", "policy", "retry_reads", "retry_writes")

    def __init__(
        self,
        policy: OverloadRetry,
        bucket: TokenBucket | None,
        jitter: Callable[[], float],
        *,
        retry_reads: bool,
        retry_writes: bool,
    ) -> None:
        self.policy: OverloadRetry = policy
        # None: retries have no budget.
        self.bucket: TokenBucket | None = bucket
        # A random number in [0, 1).
        self.jitter: Callable[[], float] = jitter
        self.retry_reads: bool = retry_reads
        self.retry_writes: bool = retry_writes

    def allows(self, kind: Kind) -> bool:
        """Whether operations of this kind may be retried at all. runCommand needs both options."""
        if kind is Kind.READ:
            return self.retry_reads
        if kind is Kind.WRITE:
            return self.retry_writes
        return self.retry_reads and self.retry_writes


class Again:
    """Decision: try once more after `delay` seconds."""

    __slots__ = ("delay", "deprioritize", "reason")

    refusal = None

    def __init__(self, reason: RetryReason, delay: float, *, deprioritize: bool) -> None:
        self.reason: RetryReason = reason
        self.delay: float = delay
        # Whether to avoid the server that failed.
        self.deprioritize: bool = deprioritize


class Raise:
    """Decision: the operation fails with `failure`, not always the newest one. If it has a reply, that reply stands.

    `refusal` is None if no rule covers the error of a first attempt, or if a permitted retry was not made
    (`Retry.gave_up`).
    """

    __slots__ = ("failure", "reason", "refusal")

    delay: float = 0.0
    deprioritize = False

    def __init__(self, failure: Failure, reason: RetryReason, refusal: RetryRefusal | None) -> None:
        self.failure: Failure = failure
        self.reason: RetryReason = reason
        self.refusal: RetryRefusal | None = refusal


class Retry:
    """The retry state of one operation."""

    __slots__ = (
        "_deadline",
        "_failures",
        "_operation",
        "_ordinary_retries",
        "_reasons",
        "_refusal",
        "_settings",
        "_was_overloaded",
        "retries",
    )

    def __init__(self, settings: RetrySettings, operation: Operation[Any], deadline: Deadline) -> None:
        self._settings = settings
        self._operation = operation
        self._deadline = deadline
        # The failures that the operation may still end with, oldest first: the first, the best and the newest.
        self._failures: list[Failure] = []
        # The number of retries decided on, and the reasons of the newest ones: with timeoutMS there may be very many.
        self.retries: int = 0
        self._reasons: deque[RetryReason] = deque(maxlen=_REASONS_KEPT)
        # Retries by the retryable reads and writes specifications.
        self._ordinary_retries = 0
        # An overload error occurred. All retries together are then capped, with or without timeoutMS.
        self._was_overloaded = False
        # Why the newest retry was refused.
        self._refusal: RetryRefusal | None = None

    def after(
        self, failure: Failure, now: float, *, is_sharded: bool = False, is_closing: bool = False
    ) -> Again | Raise:
        """Decide what follows the failed attempt.

        `is_sharded`: the server is a mongos, so the retry avoids it after any error.
        `is_closing`: the client is closing, so nothing is retried.
        """
        settings, policy, deadline = self._settings, self._settings.policy, self._deadline
        if failure.is_ordinary and self._operation.kind is Kind.WRITE and settings.retry_writes:
            failure = classify.with_write_label(failure)
        self._remember(failure)
        is_overload = failure.has_label(SYSTEM_OVERLOADED)
        if self.retries and not is_overload and settings.bucket is not None:
            settings.bucket.retry_failed_otherwise()
        self._was_overloaded = self._was_overloaded or is_overload
        rules = classify.rules(failure, self._operation, policy)
        if not rules:
            return self._refuse(RetryReason.NONE, self._why_not(failure))
        if not settings.allows(self._operation.kind):
            return self._refuse(rules[0], RetryRefusal.DISABLED)
        left = [rule for rule in rules if self._has_attempts_left(rule)]
        if not left:
            return self._refuse(rules[0], RetryRefusal.ATTEMPTS)
        delay = 0.0
        if is_overload:
            delay = backoff.delay(policy, self.retries, settings.jitter(), failure.error)
        if now + delay >= deadline.earliest():
            if delay and now + delay >= deadline.expires_at and failure.phase is None:
                self._failures[-1] = failure.in_phase("backoff")
            return self._refuse(left[0], RetryRefusal.DEADLINE)
        if is_closing:
            return self._refuse(left[0], RetryRefusal.CLOSED)
        for reason in left:
            if self._pay(reason):
                break
        else:
            return self._refuse(left[0], RetryRefusal.TOKENS)
        self._reasons.append(reason)
        self.retries += 1
        if reason not in _BY_LABEL:
            self._ordinary_retries += 1
        return Again(reason, delay, deprioritize=is_sharded or (is_overload and policy.retargets))

    @property
    def newest(self) -> Failure:
        """The newest failure."""
        return self._failures[-1]

    def _why_not(self, failure: Failure) -> RetryRefusal | None:
        """Return the refusal when no rule permits a retry, or None if no retry was in question."""
        if failure.phase is not None:
            return RetryRefusal.DEADLINE
        if isinstance(failure.error, CircuitBreakerOpenError):
            return RetryRefusal.BREAKER
        return RetryRefusal.NOT_RETRYABLE if self.retries or classify.is_candidate(failure) else None

    def _pay(self, reason: RetryReason) -> bool:
        bucket = self._settings.bucket
        return reason not in _BY_LABEL or bucket is None or bucket.take()

    def _remember(self, failure: Failure) -> None:
        kept = self._failures[:1]
        if kept:
            best = classify.to_raise(self._failures, self._operation)
            if best is not kept[0]:
                kept.append(best)
        self._failures = [*kept, failure]

    def _has_attempts_left(self, rule: RetryReason) -> bool:
        has_room = self.retries < self._settings.policy.max_retries
        if rule in _BY_LABEL or self._was_overloaded:
            return has_room
        if self.retries > self._ordinary_retries and not has_room:
            return False
        # With timeoutMS as many as time permits (client-side operations timeout, "Retryability").
        return self._ordinary_retries < (inf if self._deadline.is_set else 1)

    def _refuse(self, reason: RetryReason, refusal: RetryRefusal | None) -> Raise:
        self._refusal = refusal
        failure = classify.to_raise(self._failures, self._operation)
        if self.newest.phase is not None:
            # Time ran out during a retry. The error reports that, even if it comes from an earlier attempt.
            failure = failure.in_phase(self.newest.phase)
        return Raise(failure, reason, refusal)

    def describe(self, error: PyMongoError) -> PyMongoError:
        """Annotate `error` with the number of attempts, the reasons for them and the reason against another."""
        error.attempts = self.retries + 1
        error.retry_reasons = tuple(str(made) for made in self._reasons)
        error.retry_refusal = None if self._refusal is None else str(self._refusal)
        return error

    def succeeded(self) -> None:
        """Credit the bucket: the newest retry succeeded."""
        if self._settings.bucket is not None:
            self._settings.bucket.retry_succeeded()

    def gave_up(self, refusal: RetryRefusal | None = None) -> Raise:
        """Take back the newest retry at no cost: the caller was cancelled or the client closed before it started."""
        reason = self._reasons.pop()
        self.retries -= 1
        if reason in _BY_LABEL and self._settings.bucket is not None:
            self._settings.bucket.retry_not_made()
        return self._refuse(reason, refusal)
