"""Pure: the interface of retry strategies: what they are asked, and what they answer."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from motorlite._base.arguments import check_number, check_word, instance, wrong
from motorlite._base.values import ByFields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from motorlite._base.values import Address
    from motorlite.retry.reasons import RetryReason

__all__ = ["FailFast", "RetryAction", "RetryRequest", "RetryStrategy", "SpecificationRetry"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RetryAction(ByFields):
    """The answer of a retry strategy. Create it with `with_duration` or `no_retry`.

    Attributes:
        duration: Seconds until the retry; None: no retry.
    """

    duration: float | None

    def __post_init__(self) -> None:
        if self.duration is not None:
            check_number("duration", self.duration, "number of seconds", int, float)

    @classmethod
    def with_duration(cls, seconds: float) -> Self:
        """Retry after `seconds`.

        If the operation's time limit passes before that, the operation is not sent again and fails at that moment.

        Args:
            seconds: The delay; 0 is at once.

        Raises:
            TypeError: `seconds` is not a number.
            ValueError: `seconds` is negative, NaN, infinite or above 2**53.
        """
        check_number("seconds", seconds, "number of seconds", int, float)
        return cls(seconds)

    @classmethod
    def no_retry(cls) -> Self:
        """Do not retry. The operation fails with the error that it would have raised without a strategy."""
        return cls(None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RetryRequest(ByFields):
    """A failed operation, as retry strategies see it.

    Attributes:
        command_name: The command.
        namespace: ``"database.collection"``, or the database of a command without a collection.
        idempotent: Whether sending the command again changes nothing more than sending it once: it is a read, or a
            write that the server recognises by its transaction number (retryable writes).
        retry_attempts: The number of retries so far.
        retry_reasons: The reasons of those retries.
        elapsed: Seconds since the operation began.
        remaining: Seconds until the time limit of the operation, or the deadline of the enclosing cancel scope if that
            is earlier; None without a limit.
        address: The server of the failed attempt, or None if none was selected.
        server_hint: The base of the backoff that the server asks for (`baseBackoffMS`), in seconds, or None.
        error_labels: The labels of the error.
        jitter: A random number in [0, 1) for this decision, so that strategies need no randomness of their own.
        context: The application's own data for this call (`motorlite.call_options`).
    """

    command_name: str
    namespace: str
    idempotent: bool
    retry_attempts: int
    retry_reasons: frozenset[RetryReason]
    elapsed: float
    remaining: float | None
    address: Address | None
    server_hint: float | None
    error_labels: frozenset[str]
    jitter: float
    context: Mapping[str, Any]


class RetryStrategy(abc.ABC):
    """Decides about retries. Subclass it and pass it as `retry_strategy`.

    A strategy is set for a client, for a database or collection (`with_options`), or for a block of calls
    (`motorlite.call_options`). The driver asks it only if the retry is safe: either the reason makes it safe for any
    operation, or this one is idempotent. It does not ask where `retryReads` or `retryWrites` is off, nor about reasons
    that are always retried. Where it asks, ``RetryAction.no_retry()`` is final.

    One strategy serves many operations at the same time, so it keeps no state of an operation; the request has it.

    Attributes:
        scope: ``"adds"``: the driver asks it about retries that the specifications refuse, so it can only add some.
            ``"decides"``: the driver asks it instead of the specifications, also about overload errors and about the
            first retry after a network error or a failover. Nothing else retries.
        codes: Codes of the server that the specifications do not retry, and that the driver asks this strategy about if
            the operation is idempotent (`RetryReason.NAMED_CODE`).
    """

    __slots__ = ()

    scope: Literal["adds", "decides"] = "adds"
    codes: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__}>"

    @property
    def budget(self) -> Literal["client"] | None:
        """The budget of the strategy's retries: after errors with the label `RetryableError`, and all retries of an
        operation that has met an overload error.

        ``"client"``: each takes a token from the client's budget. None: they take none, so that nothing but the
        strategy itself limits what it adds to an overload.
        """
        return "client"

    @property
    def _without_effect(self) -> str | None:
        """What is wrong with a field that has no effect for a strategy; None if all have one."""
        return None

    @abc.abstractmethod
    def retry_after(self, request: RetryRequest, reason: RetryReason) -> Awaitable[RetryAction] | RetryAction:
        """Decide whether and when the operation is tried again. May be an ``async def``.

        The driver waits for the answer until the operation's time limit, but no longer than
        `serverSelectionTimeoutMS`. If this method raises an exception, does not answer in time or returns anything
        else, the operation fails with RetryStrategyError.

        Args:
            request: The operation.
            reason: Why its newest attempt failed.
        """


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpecificationRetry(ByFields, RetryStrategy):
    """The default: the retries of the specifications, and no others.

    The retryable reads, retryable writes and client backpressure specifications have decided before a strategy is
    asked. This one adds nothing, and ends the effect of a strategy set at an outer level.
    """

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        """Return ``RetryAction.no_retry()``."""
        return RetryAction.no_retry()


class FailFast(RetryStrategy):
    """No retries: every operation is sent once, and its error is raised at once.

    For a call whose answer is worth nothing later, or for code that retries by itself. The only exception: if the
    server asks to authenticate the connection again, the driver does, and asks no strategy.
    """

    __slots__ = ()

    scope: Literal["adds", "decides"] = "decides"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        """Return ``RetryAction.no_retry()``."""
        return RetryAction.no_retry()


def as_retry_strategy(value: Any) -> RetryStrategy:
    """Check a strategy where it is set. Its attributes are read here too: a wrong one must not break operations later.

    Raises:
        TypeError: It is no strategy, its budget is neither a string nor None, its scope is no string, or its codes are
            no frozenset of integers.
        ValueError: Its budget or its scope is another string, or a field has no effect for a strategy.
    """
    instance("retry_strategy", value, RetryStrategy)
    strategy: RetryStrategy = value
    check_word("retry_strategy.budget", strategy.budget, ("client", None), "'client' or None")
    check_word("retry_strategy.scope", strategy.scope, ("adds", "decides"), "'adds' or 'decides'")
    codes: Any = strategy.codes
    if not isinstance(codes, frozenset | set) or not all(type(code) is int for code in codes):
        raise TypeError(wrong("retry_strategy.codes", codes, "a frozenset of integers"))
    complaint = strategy._without_effect
    if complaint is not None:
        raise ValueError(complaint)
    return strategy
