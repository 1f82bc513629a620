"""Pure: retries: why attempts fail, strategies for more retries, the policy for overload, and the budget.

`docs/retries.md` describes which rule decides when.
"""

from __future__ import annotations

from motorlite.retry.best_effort import BestEffort, exponential_backoff
from motorlite.retry.budget import RetryBudget
from motorlite.retry.overload import OverloadRetry
from motorlite.retry.reasons import RetryReason, RetryRefusal, RetryRule
from motorlite.retry.strategy import FailFast, RetryAction, RetryRequest, RetryStrategy, SpecificationRetry

__all__ = [
    "BestEffort",
    "FailFast",
    "OverloadRetry",
    "RetryAction",
    "RetryBudget",
    "RetryReason",
    "RetryRefusal",
    "RetryRequest",
    "RetryRule",
    "RetryStrategy",
    "SpecificationRetry",
    "exponential_backoff",
]
