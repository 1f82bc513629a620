"""Extensions of the format (spec-tests/EXTENSIONS.md): retry strategies and budgets of client entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from motorlite.retry import BestEffort, RetryAction, RetryBudget, RetryStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.retry import RetryReason, RetryRequest


class ScriptedStrategy(RetryStrategy):
    """What a test describes: a constant delay, up to a number of retries; or an error."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._delay: float = fields.get("delayMS", 0) / 1000
        self._max_retries: int | None = fields.get("maxRetries")
        self._is_budgeted: bool = fields.get("isBudgeted", True)
        self._fails: bool = fields.get("fails", False)

    @property
    def budget(self) -> Literal["client"] | None:
        return "client" if self._is_budgeted else None

    async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        if self._fails:
            raise LookupError("the test's strategy fails")
        if self._max_retries is not None and request.retry_attempts >= self._max_retries:
            return RetryAction.no_retry()
        return RetryAction.with_duration(self._delay)


def retry_strategy(fields: Mapping[str, Any]) -> RetryStrategy:
    """The strategy that a client entity describes."""
    return BestEffort() if fields.get("bestEffort") else ScriptedStrategy(fields)


def retry_budget(fields: Mapping[str, Any], shared: dict[str, RetryBudget]) -> RetryBudget:
    """The budget that a client entity describes; `shared` holds those of the test's other clients by their names."""
    made = RetryBudget(fields["capacity"], per_server=fields.get("perServer"))
    name = fields.get("sharedAs")
    return made if name is None else shared.setdefault(name, made)
