"""Pure: the decision after a failed attempt: retry, and for a token or not; ask the strategy; or raise which error.

Theory of operation. Each operation has one `Retry`, created at its first error. An operation that succeeds at once
creates none. Every rule about retries is an input to `after`: reasons that are always retried, the labels of client
backpressure, retryable reads, retryable writes, the deadline, the budget, and the application's strategy. They decide
in this order:

1. A reason with `always_retry`: a controlled backoff, with a hard limit, whatever the operation and the options.
2. The specifications. The checks run in a fixed order: does a rule permit the retry, is the option on, has that rule
   attempts left, does the delay fit the deadline, does the client stay open, is there a token. So a retry that does not
   happen never costs a token.
3. The strategy, about what the specifications refuse, if the retry is safe (`_is_safe`). `after` returns `Ask`, the
   executor awaits the strategy, and `conclude` checks the deadline and takes the token. A delay that does not fit is
   capped: the operation fails when its time has passed, and is not sent again. A strategy that `decides` is asked in
   place of step 2, so that its refusal is final. An `OverloadRetry` as the strategy takes the place of the client's
   overload policy in step 2, and is not asked.

The rules of the specifications, in the order in which they are tried:

| labels of the error                      | rules                          | backoff | token           |
|------------------------------------------|--------------------------------|---------|-----------------|
| SystemOverloadedError and RetryableError | overload policy                | yes     | yes             |
| SystemOverloadedError alone              | none                           |         |                 |
| RetryableError alone                     | overload policy, specification | no      | overload policy |
| neither                                  | specification                  | no      | no              |

For "specification", the last two columns describe the first ordinary retry of an operation, which is immediate and
free. Further ordinary retries form a series, which timeoutMS can make very long: each waits for the next step of a
controlled backoff (`_ordinary_delay`) and takes a token. Without a token, the operation fails. A series must not pay
for itself: an ordinary retry whose failure permits another one, or another commit by `with_transaction`, returns no
token (`_is_repeated`). All other retries of the specifications return one when they fail without overload (rule 3 of
the token bucket) and 1.1 when they succeed (rule 2), even the first ordinary one, which took none.

"Specification" is retryable reads or retryable writes. With `needs_both_labels` (the later revision), an error with
only one label gets that rule. After an overload error that retry also backs off.

The overload policy has attempts left while the operation's retries, counted together, are fewer than `max_retries`.
After an overload error the same limit applies to the other rule. Before one, it has one attempt, or with timeoutMS as
many as time and tokens permit. After a retry by the overload policy, `max_retries` also caps the other rule. When the
overload policy has no attempt or no token left after RetryableError alone, the other rule decides: a label never makes
an error less retryable than its code does. An overload error has no such fallback: rule 4 of the client backpressure
specification refuses its retry without a token, and its pseudocode, like the later revision's, caps every retry after
it. So `max_retries=0` also turns off the retry of a refused connection, which carries both labels.

A strategy's retry after an error with the label RetryableError takes a token, unless the strategy has no budget; after
an overload error of the operation, each of its retries does. One that took no token also brings none when it fails or
succeeds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED, TRANSACTION_LABELS, TRANSIENT_TRANSACTION
from motorlite._operations.contract import DEFAULT_OPTIONS, Kind, TransactionEnd
from motorlite._retry import classification
from motorlite._retry.backoff import CONTROLLED_BACKOFF, server_base_backoff
from motorlite._retry.classification import reason_of
from motorlite._retry.failure import TimeLimits
from motorlite.errors import CircuitBreakerOpenError, ExecutionTimeout, RetryStrategyError
from motorlite.retry import OverloadRetry, RetryReason, RetryRefusal, RetryRequest, RetryRule
from motorlite.retry.overload import is_asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._operations.contract import CallOptions, Operation
    from motorlite._retry.failure import ConnectionKey, Failure
    from motorlite.errors import PyMongoError
    from motorlite.retry import RetryAction, RetryBudget, RetryStrategy


# What may follow a failed attempt, as values.


@dataclass(slots=True, eq=False, repr=False)
class Again:
    """Decision: try once more after `delay` seconds."""

    reason: RetryReason
    # Who permits the retry.
    rule: RetryRule
    delay: float
    _: KW_ONLY
    # Whether to avoid the server that failed.
    deprioritize: bool = False
    # Whether it took a token.
    is_paid: bool = False
    refusal: ClassVar[None] = None


@dataclass(slots=True, eq=False, repr=False)
class Raise:
    """Decision: the operation fails with `failure`, not always the newest one. If it has a reply, that reply stands.

    `refusal` is None if no rule covers the error of a first attempt, or if a permitted retry was not made
    (`Retry.gave_up`).
    """

    failure: Failure
    reason: RetryReason
    # Who refuses the retry; None: no rule permits it.
    rule: RetryRule | None
    refusal: RetryRefusal | None
    delay: float = 0.0
    deprioritize: ClassVar[bool] = False


class ExpireAfter(Raise):
    """Decision: the operation waits for `delay` seconds, until its time has passed, and is not sent again."""

    __slots__ = ()


class Ask(NamedTuple):
    """Decision: the application's strategy decides; `Retry.conclude` takes its answer."""

    strategy: RetryStrategy
    request: RetryRequest
    reason: RetryReason


class StrategyFault(NamedTuple):
    """What a strategy did instead of returning a RetryAction, and the traceback of its exception."""

    text: str
    trace: str = ""


_REASONS_KEPT = 16


@dataclass(slots=True, eq=False, repr=False)
class Retry:
    """The retry state of one operation."""

    _settings: RetrySettings
    _operation: Operation[Any]
    _deadline: Deadline
    _options: CallOptions = DEFAULT_OPTIONS
    started_at: float = 0.0
    _policy: OverloadRetry = field(init=False)
    # The failures that the operation may still end with, oldest first: the first, the best and the newest.
    _failures: list[Failure] = field(init=False, default_factory=list)
    # Whether an attempt may have changed something. No later refusal undoes that.
    _may_have_been_executed: bool = field(init=False, default=False)
    # Whether an attempt may have reached a server.
    _has_reached: bool = field(init=False, default=False)
    # The number of retries decided on, without those that are always made, and the reasons of the newest ones: with
    # timeoutMS there may be very many.
    retries: int = field(init=False, default=0)
    _always_retries: int = field(init=False, default=0)
    _reasons: deque[RetryReason] = field(init=False, default_factory=lambda: deque(maxlen=_REASONS_KEPT))
    # All reasons for retries so far.
    _seen: frozenset[RetryReason] = field(init=False, default=frozenset())
    # Retries by the retryable reads and writes specifications.
    _ordinary_retries: int = field(init=False, default=0)
    # An overload error occurred. All retries together are then capped, with or without timeoutMS.
    _was_overloaded: bool = field(init=False, default=False)
    # The connections that were authenticated again for this operation.
    _reauthenticated: set[ConnectionKey] = field(init=False, default_factory=set)
    # The newest decision to retry.
    _newest: Again | None = field(init=False, default=None)
    # Why the newest attempt failed, whether a retry would avoid its server, and why a retry was refused.
    _reason: RetryReason = field(init=False, default=RetryReason.UNKNOWN)
    _deprioritize: bool = field(init=False, default=False)
    _refusal: RetryRefusal | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        strategy = self._options.retry_strategy
        self._policy = strategy if isinstance(strategy, OverloadRetry) else self._settings.policy

    @property
    def newest(self) -> Failure:
        """The newest failure."""
        return self._failures[-1]

    @property
    def attempts(self) -> int:
        """The number of attempts, including the one that the newest decision permits."""
        return 1 + self.retries + self._always_retries

    def has_reauthenticated(self, connection: ConnectionKey) -> bool:
        """Whether this operation has authenticated the connection again before. Its next refusal is an error."""
        return connection in self._reauthenticated

    # --- decisions ---

    def after(
        self, failure: Failure, now: float, *, is_sharded: bool = False, is_closing: bool = False
    ) -> Again | Raise | Ask:
        """Decide what follows the failed attempt.

        `is_sharded`: the server is a mongos, so the retry avoids it after any error.
        `is_closing`: the client is closing, so nothing is retried.
        """
        # What failed, and which rules permit a retry.
        settings, operation, strategy = self._settings, self._operation, self._options.retry_strategy
        labelled = failure
        if failure.is_ordinary and operation.kind is Kind.WRITE:
            if self._is_enabled:
                labelled = failure = classification.with_write_label(failure)
            else:
                # Neither driver nor server adds the label then: only the code shows that the option prevents the retry.
                labelled = classification.with_write_label(failure._replace(wire_version=0))
        is_overload = failure.has_label(SYSTEM_OVERLOADED)
        rules = classification.rules(labelled, operation, self._policy)
        if settings.bucket is not None and not is_overload and self._is_credited() and not self._is_repeated(rules):
            settings.bucket.retry_failed_otherwise(self.newest.address)

        # What remains of it.
        kept = self._failures[:1]
        if kept:
            best = classification.to_raise(self._failures, operation)
            if best is not kept[0]:
                kept.append(best)
        self._failures = [*kept, failure]
        self._has_reached |= failure.reached_server
        self._may_have_been_executed |= classification.may_have_been_executed(failure, operation)
        self._was_overloaded = self._was_overloaded or is_overload

        # Who decides: always a retry, or the strategy, or the specifications and after their refusal the strategy.
        self._reason = reason_of(failure, strategy.codes)
        if self._reason.always_retry:
            return self._always(failure, now)
        self._deprioritize = is_sharded or (is_overload and settings.policy.retargets)
        if strategy.scope == "decides":
            return self._by_strategy(failure, now, is_closing=is_closing)
        decision = self._by_specification(rules, failure, now, is_overload=is_overload, is_closing=is_closing)
        if isinstance(decision, Raise) and not is_closing and self._may_ask(decision):
            return self._ask(failure, now)
        return decision

    def _always(self, failure: Failure, now: float) -> Again | Raise:
        # Also while the client is closing: what is in flight may end.
        rule, delays = RetryRule.ALWAYS, CONTROLLED_BACKOFF
        if self._always_retries == len(delays):
            return self._refuse(rule, RetryRefusal.ATTEMPTS)
        delay = delays[self._always_retries]
        if self._lacks_time(failure, now, delay, is_backoff=True):
            return self._refuse(rule, RetryRefusal.DEADLINE)
        if failure.reauthenticated is not None:
            self._reauthenticated.add(failure.reauthenticated)
        self._deprioritize = False
        return self._again(rule, delay)

    def _by_specification(
        self, rules: tuple[RetryRule, ...], failure: Failure, now: float, *, is_overload: bool, is_closing: bool
    ) -> Again | Raise:
        if not rules:
            return self._refuse(None, self._why_not(failure))
        if not self._is_enabled:
            return self._refuse(rules[0], RetryRefusal.DISABLED)
        left = [rule for rule in rules if self._has_attempts_left(rule)]
        if not left:
            return self._refuse(rules[0], RetryRefusal.ATTEMPTS)
        bucket, jitter = self._settings.bucket, self._settings.jitter
        for rule in left:
            if is_overload:
                delay = self._policy.backoff(self.retries, jitter(), server_base_backoff(failure.error))
            else:
                delay = self._ordinary_delay(rule, jitter)
            if self._lacks_time(failure, now, delay, is_backoff=is_overload):
                return self._refuse(rule, RetryRefusal.DEADLINE)
            if is_closing:
                return self._refuse(rule, RetryRefusal.CLOSED)
            is_paid = bucket is not None and self._costs_token(rule)
            if not is_paid or bucket is None or bucket.take(failure.address):
                return self._again(rule, delay, is_paid=is_paid)
        return self._refuse(left[0], RetryRefusal.TOKENS)

    def _by_strategy(self, failure: Failure, now: float, *, is_closing: bool) -> Raise | Ask:
        """Ask the strategy in place of the specifications."""
        if not self._is_safe:
            return self._refuse(None, self._why_not(failure))
        if not self._is_enabled:
            return self._refuse(RetryRule.STRATEGY, RetryRefusal.DISABLED)
        if is_closing:
            return self._refuse(RetryRule.STRATEGY, RetryRefusal.CLOSED)
        self._refusal = None
        return self._ask(failure, now)

    def _ask(self, failure: Failure, now: float) -> Raise | Ask:
        if self._lacks_time(failure, now, 0.0):
            return self._refuse(RetryRule.STRATEGY, RetryRefusal.DEADLINE)
        return Ask(self._options.retry_strategy, self._request(now), self._reason)

    def _may_ask(self, refused: Raise) -> bool:
        """Whether the strategy may permit a retry that the specifications refuse."""
        strategy = self._options.retry_strategy
        if not (is_asked(strategy) and self._is_safe and self._is_enabled):
            return False
        if refused.refusal is RetryRefusal.TOKENS:
            return strategy.budget is None
        # If the backoff does not fit into the time left, a strategy must not shorten it.
        return refused.refusal is not RetryRefusal.DEADLINE or refused.rule is None

    def conclude(
        self, answer: RetryAction | StrategyFault, now: float, *, is_closing: bool = False
    ) -> Again | Raise | ExpireAfter:
        """Decide what follows the strategy's answer to `Ask`."""
        rule, deadline, refusal = RetryRule.STRATEGY, self._deadline, self._refusal
        if isinstance(answer, StrategyFault):
            if now >= deadline.expires_at:
                return self._expire(now)
            return self._blame(answer)
        if answer.duration is None:
            return self._refuse(rule, refusal or RetryRefusal.NOT_RETRYABLE)
        if now + answer.duration >= deadline.earliest():
            return self._expire(now)
        if is_closing:
            return self._refuse(rule, RetryRefusal.CLOSED)
        bucket = self._settings.bucket if self._is_metered else None
        if bucket is not None and not bucket.take(self.newest.address):
            return self._refuse(rule, RetryRefusal.TOKENS)
        return self._again(rule, answer.duration, is_paid=bucket is not None)

    # --- parts of decisions ---

    @property
    def _is_enabled(self) -> bool:
        """Whether the operation may be retried at all. Commit and abort ignore retryReads and retryWrites."""
        operation = self._operation
        return operation.ends is not None or self._settings.allows(operation.kind)

    @property
    def _is_idempotent(self) -> bool:
        # `is_ordinary` of a write: its transaction number lets the server recognise a repetition. In a transaction,
        # repeating a command never is harmless.
        operation = self._operation
        if self.newest.is_transactional:
            return False
        return operation.is_idempotent or (operation.kind is Kind.WRITE and self.newest.is_ordinary)

    @property
    def _is_safe(self) -> bool:
        """Whether another attempt does no harm, so that a strategy may permit it."""
        failure, reason, pin = self.newest, self._reason, self._operation.pin
        if reason is RetryReason.UNKNOWN or failure.has_label(TRANSIENT_TRANSACTION):
            return False
        if failure.has_label(SYSTEM_OVERLOADED) and not failure.has_label(RETRYABLE):
            return False  # rule 4: the server did not permit a retry
        return (reason.allows_non_idempotent_retry or self._is_idempotent) and (pin is None or pin.is_usable)

    def _costs_token(self, rule: RetryRule) -> bool:
        """Whether a retry by a rule of the specifications takes a token."""
        if rule is RetryRule.OVERLOAD_POLICY:
            return self._policy is self._settings.policy or self._policy.is_budgeted
        return self._ordinary_retries > 0

    def _ordinary_delay(self, rule: RetryRule, jitter: Callable[[], float]) -> float:
        """Return the backoff after an error without the label of overload."""
        if rule is not RetryRule.SPECIFICATION or not self._ordinary_retries:
            return 0.0
        return jitter() * CONTROLLED_BACKOFF[min(self._ordinary_retries, len(CONTROLLED_BACKOFF)) - 1]

    def _is_repeated(self, rules: tuple[RetryRule, ...]) -> bool:
        """Whether the newest attempt is an ordinary retry whose failure permits another one, or another commit."""
        newest, rule = self._newest, RetryRule.SPECIFICATION
        if newest is None or newest.rule is not rule:
            return False
        is_commit = self._operation.ends is TransactionEnd.COMMIT
        return rule in rules and (is_commit or self._has_attempts_left(rule))

    @property
    def _is_metered(self) -> bool:
        """Whether a retry of the strategy takes a token.

        Once the server was overloaded, all of them do. A retry that fails before it is sent returns its token, so a
        free one after it would reach the overloaded server without any.
        """
        if self._options.retry_strategy.budget is None:
            return False
        return self._was_overloaded or self.newest.has_label(RETRYABLE)

    def _request(self, now: float) -> RetryRequest:
        failure, earliest = self.newest, self._deadline.earliest()
        return RetryRequest(
            command_name=self._operation.name,
            namespace=self._operation.namespace,
            idempotent=self._is_idempotent,
            retry_attempts=self.attempts - 1,
            retry_reasons=self._seen,
            elapsed=now - self.started_at,
            remaining=None if earliest == inf else earliest - now,
            address=failure.address,
            server_hint=server_base_backoff(failure.error),
            error_labels=failure.labels,
            jitter=self._settings.jitter(),
            context=self._options.context,
        )

    def _why_not(self, failure: Failure) -> RetryRefusal | None:
        """Return the refusal when no rule permits a retry, or None if no retry was in question."""
        if failure.phase is not None:
            return RetryRefusal.DEADLINE
        if isinstance(failure.error, CircuitBreakerOpenError):
            return RetryRefusal.BREAKER
        return RetryRefusal.NOT_RETRYABLE if self.retries or classification.is_candidate(failure) else None

    def _has_attempts_left(self, rule: RetryRule) -> bool:
        has_room = self.retries < self._policy.max_retries
        if rule is RetryRule.OVERLOAD_POLICY or self._was_overloaded:
            return has_room
        if self.retries > self._ordinary_retries and not has_room:
            return False
        # With timeoutMS as many as time and tokens permit (client-side operations timeout, "Retryability").
        return self._ordinary_retries < (inf if self._deadline.is_set else 1)

    def _lacks_time(self, failure: Failure, now: float, delay: float, *, is_backoff: bool = False) -> bool:
        """Whether the deadline passes before the delay ends. The error then says so.

        `is_backoff`: it is the delay after an overload error. If it does not fit, that is no timeout, unless time has
        run out.
        """
        deadline = self._deadline
        if now + delay < deadline.earliest():
            return False
        if now + delay >= deadline.expires_at and failure.phase is None:
            in_time = is_backoff and now < deadline.expires_at
            self._failures[-1] = failure.in_phase("backoff" if in_time else "retry delay")
        return True

    def _again(self, rule: RetryRule, delay: float, *, is_paid: bool = False) -> Again:
        self._reasons.append(self._reason)
        self._seen |= {self._reason}
        if rule is RetryRule.ALWAYS:
            self._always_retries += 1
        else:
            self.retries += 1
        if rule is RetryRule.SPECIFICATION:
            self._ordinary_retries += 1
        self._newest = Again(self._reason, rule, delay, deprioritize=self._deprioritize, is_paid=is_paid)
        return self._newest

    def _refuse(self, rule: RetryRule | None, refusal: RetryRefusal | None) -> Raise:
        self._refusal = refusal
        failure = classification.to_raise(self._failures, self._operation)
        if not self._may_have_been_executed and classification.is_turned_away(self.newest):
            failure = self.newest
        if self.newest.phase is not None:
            # Time ran out during a retry. The error reports that, even if it comes from an earlier attempt.
            failure = failure.in_phase(self.newest.phase)
        return Raise(failure, self._reason, rule, refusal)

    def _expire(self, now: float) -> ExpireAfter:
        deadline = self._deadline
        failure = self._refuse(RetryRule.STRATEGY, RetryRefusal.DEADLINE).failure
        # At the end of a cancel scope, the caller gets its cancellation. It is no timeout of the driver.
        if self.newest.reply is None and deadline.expires_at <= deadline.scope_expires_at:
            error = ExecutionTimeout("the time limit of the operation passed before its next attempt", 50)
            limits, labels = TimeLimits(deadline.timeout, None), self.newest.labels & TRANSACTION_LABELS
            failure = self.newest._replace(error=error, phase="retry delay", labels=labels, limits=limits)
        delay = max(0.0, deadline.earliest() - now)
        return ExpireAfter(failure, self._reason, RetryRule.STRATEGY, RetryRefusal.DEADLINE, delay)

    def _blame(self, fault: StrategyFault) -> Raise:
        self._refusal = RetryRefusal.STRATEGY_FAILED
        name = type(self._options.retry_strategy).__name__
        error = RetryStrategyError(f"the operation failed, and its retry strategy {name} {fault.text}")
        if fault.trace:
            error.add_note(f"The exception of the retry strategy:\n{fault.trace}")
        failure = self.newest._replace(error=error, labels=self.newest.labels & TRANSACTION_LABELS, reply=None)
        return Raise(failure, self._reason, RetryRule.STRATEGY, self._refusal)

    # --- the outcome ---

    def describe(self, error: PyMongoError) -> PyMongoError:
        """Annotate `error` with the number of attempts, the reasons for them and the reason against another."""
        error.attempts = self.attempts
        if self._may_have_been_executed:
            error.may_have_been_executed = True
        if self._has_reached:
            error.reached_server = True  # the operation did, if not its newest attempt
        error.retry_reasons = tuple(str(reason) for reason in self._reasons)
        error.retry_refusal = None if self._refusal is None else str(self._refusal)
        return error

    def succeeded(self, address: Address | None = None) -> None:
        """Credit the bucket: the newest attempt succeeded, on the server at `address`."""
        bucket = self._settings.bucket
        if bucket is None:
            return
        if self._is_credited():
            bucket.retry_succeeded(self.newest.address)
        else:
            bucket.first_attempt_succeeded(address)

    def _is_credited(self) -> bool:
        """Whether the newest attempt is a retry that brings a token when it ends.

        Ordinary retries do, even the first one, which is free (rules 2 and 3); but see `_is_repeated`. Others must not
        return more than they took.
        """
        newest = self._newest
        return newest is not None and (newest.is_paid or newest.rule is RetryRule.SPECIFICATION)

    def gave_up(self, refusal: RetryRefusal | None = None) -> Raise:
        """Take back the newest retry at no cost: the caller was cancelled or the client closed before it started."""
        newest = self._newest
        assert newest is not None
        self._reasons.pop()
        if newest.rule is RetryRule.ALWAYS:
            self._always_retries -= 1
        else:
            self.retries -= 1
        if newest.is_paid and self._settings.bucket is not None:
            self._settings.bucket.retry_not_made(self.newest.address)
        return self._refuse(newest.rule, refusal)


@dataclass(slots=True, eq=False, repr=False)
class RetrySettings:
    """The retry options of a client."""

    policy: OverloadRetry
    # None: retries have no budget.
    bucket: RetryBudget | None
    # A random number in [0, 1).
    jitter: Callable[[], float]
    _: KW_ONLY
    retry_reads: bool
    retry_writes: bool

    def allows(self, kind: Kind) -> bool:
        """Whether operations of this kind may be retried at all. runCommand needs both options."""
        if kind is Kind.READ:
            return self.retry_reads
        if kind is Kind.WRITE:
            return self.retry_writes
        return self.retry_reads and self.retry_writes
