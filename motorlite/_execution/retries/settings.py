"""Pure: the retry options of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._execution.operation import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.retry import OverloadRetry, RetryBudget


class RetrySettings:
    """The retry options of a client."""

    __slots__ = ("bucket", "jitter", "policy", "retry_reads", "retry_writes")

    def __init__(
        self,
        policy: OverloadRetry,
        bucket: RetryBudget | None,
        jitter: Callable[[], float],
        *,
        retry_reads: bool,
        retry_writes: bool,
    ) -> None:
        self.policy: OverloadRetry = policy
        # None: retries have no budget.
        self.bucket: RetryBudget | None = bucket
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
