"""Pure: the decision after a failed attempt: once more, or not and with which error.

Theory of operation. One `Retry` belongs to one operation, from its first error on; operations that succeed at once
never make one. Every rule about retries is an input to `after`: the labels of client backpressure, retryable reads,
retryable writes, the deadline and the token bucket. The order of the checks is fixed: does a rule permit it, has that
rule attempts left, does the delay fit, does the client stay open, is there a token; so that nothing is taken for a
retry that is not made.

Which rules permit a retry, in the order in which they are tried ("ordinary" is retryable reads or writes):

| labels of the error                      | rules           | backoff | token |
|------------------------------------------|-----------------|---------|-------|
| SystemOverloadedError and RetryableError | label           | yes     | yes   |
| SystemOverloadedError alone              | none            |         |       |
| RetryableError alone                     | label, ordinary | no      | label |
| neither                                  | ordinary        | no      | no    |

With `needs_both_labels` (the later revision) one label alone leaves the ordinary rule, after an overload error with
the backoff.

The label's rule has attempts left while all retries of the operation together are fewer than `max_retries`; so has the
ordinary rule once an overload error was met. Before that the ordinary rule has one attempt, or with timeoutMS as many
as there is time for, and after a retry by the label's rule no more than `max_retries` leaves. When the label's rule has
no attempt or no token left, the ordinary one decides: a label never makes an error less retryable than its code does.
An overload error has no such fallback: rule 4 of the client backpressure specification refuses its retry without a
token, and its pseudocode, like the later revision's, caps every retry after it. So `max_retries=0` turns off the retry
of a refused connection too, which carries both labels.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from motorlite._execution import backoff, classify
from motorlite._execution.operation import Kind
from motorlite.errors import SYSTEM_OVERLOADED
from motorlite.retry import RetryReason, RetryRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._execution.operation import Operation
    from motorlite._execution.token_bucket import TokenBucket
    from motorlite.deadline import Deadline
    from motorlite.errors import PyMongoError
    from motorlite.retry import OverloadRetry

_REASONS_KEPT = 16
_BY_LABEL = (RetryReason.OVERLOAD, RetryReason.LABEL)


class RetrySettings:
    """What a client was configured with."""

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
        self.policy = policy
        # None: retries are not budgeted.
        self.bucket = bucket
        # A random number in [0, 1).
        self.jitter = jitter
        self.retry_reads = retry_reads
        self.retry_writes = retry_writes

    def allows(self, kind: Kind) -> bool:
        """Whether operations of this kind may be retried at all; runCommand needs both options."""
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
        self.reason = reason
        self.delay = delay
        # Whether the server that failed is to be avoided.
        self.deprioritize = deprioritize


class Raise:
    """Decision: the operation fails with `error`, which is not always the newest.

    `refusal` is None when no rule about retries is about the error of a first attempt, or when a retry that the rules
    permitted was not made (`Retry.gave_up`).
    """

    __slots__ = ("error", "reason", "refusal")

    delay = 0.0
    deprioritize = False

    def __init__(self, error: PyMongoError, reason: RetryReason, refusal: RetryRefusal | None) -> None:
        self.error = error
        self.reason = reason
        self.refusal = refusal


class Retry:
    """The retry state of one operation."""

    __slots__ = (
        "_errors",
        "_operation",
        "_ordinary_retries",
        "_reasons",
        "_refusal",
        "_settings",
        "_was_overloaded",
        "retries",
    )

    def __init__(self, settings: RetrySettings, operation: Operation) -> None:
        self._settings = settings
        self._operation = operation
        # Of the errors so far, oldest first, those that may be raised: the first, the best and the newest.
        self._errors: list[PyMongoError] = []
        # How many retries were decided on, and why the newest of them were: with timeoutMS there may be very many.
        self.retries = 0
        self._reasons: deque[RetryReason] = deque(maxlen=_REASONS_KEPT)
        # How many of them the retryable reads and writes specifications made.
        self._ordinary_retries = 0
        # An overload error was met: all retries together are capped then, with or without timeoutMS.
        self._was_overloaded = False
        # Why the newest retry was refused.
        self._refusal: RetryRefusal | None = None

    def after(
        self,
        error: PyMongoError,
        deadline: Deadline,
        now: float,
        *,
        ordinary: bool,
        is_sharded: bool = False,
        is_closing: bool = False,
    ) -> Again | Raise:
        """What follows the failed attempt.

        `ordinary`: whether the retryable reads or writes specification applies on the server that failed;
        `is_sharded`: whether it is a mongos, which is avoided by the retry whatever the error was; `is_closing`:
        whether the client is being closed, so that nothing is retried.
        """
        self._remember(error)
        settings, policy = self._settings, self._settings.policy
        is_overload = error.has_error_label(SYSTEM_OVERLOADED)
        if self.retries and not is_overload and settings.bucket is not None:
            settings.bucket.retry_failed_otherwise()
        self._was_overloaded = self._was_overloaded or is_overload
        rules = classify.rules(error, self._operation, policy, ordinary=ordinary)
        if not rules:
            return self._refuse(RetryReason.NONE, self._why_not(error))
        if not settings.allows(self._operation.kind):
            return self._refuse(rules[0], RetryRefusal.DISABLED)
        left = [rule for rule in rules if self._has_attempts_left(rule, deadline)]
        if not left:
            return self._refuse(rules[0], RetryRefusal.ATTEMPTS)
        delay = 0.0
        if is_overload:
            delay = backoff.delay(policy, self.retries, settings.jitter(), error)
        if now + delay >= deadline.earliest():
            if delay and now + delay >= deadline.expires_at:
                self._errors[-1].phase = self._errors[-1].phase or "backoff"
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

    def _why_not(self, error: PyMongoError) -> RetryRefusal | None:
        """Why `error` is not retried although no rule was there to refuse it; None: the question did not come up."""
        if error.phase is not None:
            return RetryRefusal.DEADLINE
        return RetryRefusal.NOT_RETRYABLE if self.retries or classify.is_candidate(error) else None

    def _pay(self, reason: RetryReason) -> bool:
        bucket = self._settings.bucket
        return reason not in _BY_LABEL or bucket is None or bucket.take()

    def _remember(self, error: PyMongoError) -> None:
        kept = self._errors[:1]
        if kept:
            best = classify.to_raise(self._errors, self._operation)
            if best is not kept[0]:
                kept.append(best)
        self._errors = [*kept, error]

    def _has_attempts_left(self, rule: RetryReason, deadline: Deadline) -> bool:
        has_room = self.retries < self._settings.policy.max_retries
        if rule in _BY_LABEL or self._was_overloaded:
            return has_room
        if self.retries > self._ordinary_retries and not has_room:
            return False
        # With timeoutMS as often as there is time (client-side operations timeout, "Retryability").
        return self._ordinary_retries < (inf if deadline.is_set else 1)

    def _refuse(self, reason: RetryReason, refusal: RetryRefusal | None) -> Raise:
        self._refusal = refusal
        error = classify.to_raise(self._errors, self._operation)
        self.describe(error)
        newest = self._errors[-1]
        if newest is not error and newest.phase is not None:
            # A retry used up the time; the error says so although it is that of an earlier attempt.
            error.phase = newest.phase
        return Raise(error, reason, refusal)

    def describe(self, error: PyMongoError) -> PyMongoError:
        """`error`, with how often the operation was tried, why, and why not once more."""
        error.attempts = self.retries + 1
        error.retry_reasons = tuple(str(made) for made in self._reasons)
        error.retry_refusal = None if self._refusal is None else str(self._refusal)
        return error

    def succeeded(self) -> None:
        """The newest retry succeeded."""
        if self._settings.bucket is not None:
            self._settings.bucket.retry_succeeded()

    def gave_up(self, refusal: RetryRefusal | None = None) -> Raise:
        """The newest retry is not made, and costs nothing: before it the caller was cancelled, or the client closed."""
        reason = self._reasons.pop()
        self.retries -= 1
        if reason not in _BY_LABEL:
            self._ordinary_retries -= 1
        elif self._settings.bucket is not None:
            self._settings.bucket.retry_not_made()
        return self._refuse(reason, refusal)
