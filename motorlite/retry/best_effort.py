"""Shell: the strategy that retries as long as time permits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from motorlite._base.arguments import check_number, check_word, wrong
from motorlite.retry.strategy import RetryAction, RetryStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.retry.reasons import RetryReason
    from motorlite.retry.strategy import RetryRequest

__all__ = ["BestEffort", "exponential_backoff"]

_MIN_BACKOFF: Final = 0.001
_MAX_BACKOFF: Final = 0.5
GIVE_UP_AFTER: Final = 30.0


def exponential_backoff(retry_attempts: int) -> float:
    """Return 1 ms, 2 ms, 4 ms ... 256 ms, and 500 ms from then on, in seconds.

    Args:
        retry_attempts: The number of retries so far.
    """
    # 2 ** 1024 would overflow a float.
    return min(_MAX_BACKOFF, _MIN_BACKOFF * 2.0 ** min(retry_attempts, 64))


class BestEffort(RetryStrategy):
    """Retries what can safely be retried until the operation succeeds or its time limit passes.

    Args:
        backoff: Returns the seconds before the next retry from the number of retries so far.
        give_up_after: Seconds after which an operation without a time limit of its own is not retried any more; None:
            it is retried for ever.
        budget: As `RetryStrategy.budget`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is out of range, or `budget` is another string.
    """

    def __init__(
        self,
        backoff: Callable[[int], float] = exponential_backoff,
        *,
        give_up_after: float | None = GIVE_UP_AFTER,
        budget: Literal["client"] | None = "client",
    ) -> None:
        if not callable(backoff):
            raise TypeError(wrong("backoff", backoff, "a function of the number of retries"))
        if give_up_after is not None:
            check_number("give_up_after", give_up_after, "number of seconds", int, float)
        check_word("budget", budget, ("client", None), "'client' or None")
        self._backoff = backoff
        self._give_up_after = give_up_after
        self._budget = budget

    def __repr__(self) -> str:
        backoff = "" if self._backoff is exponential_backoff else f"{self._backoff!r}, "
        return f"{type(self).__name__}({backoff}give_up_after={self._give_up_after!r}, budget={self._budget!r})"

    @property
    def budget(self) -> Literal["client"] | None:
        return self._budget

    async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        """Retry after the backoff, if the operation is idempotent or the reason allows any to be sent again."""
        if not (request.idempotent or reason.allows_non_idempotent_retry):
            return RetryAction.no_retry()
        limit = self._give_up_after
        if request.remaining is None and limit is not None and request.elapsed >= limit:
            return RetryAction.no_retry()
        return RetryAction.with_duration(self._backoff(request.retry_attempts))
