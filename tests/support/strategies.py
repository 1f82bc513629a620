"""A retry strategy that does as it is told."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import anyio

from motorlite.retry import RetryAction, RetryStrategy

if TYPE_CHECKING:
    from motorlite.retry import RetryReason, RetryRequest


class Strategy(RetryStrategy):
    """Waits and answers as it is told, the last answer again and again, and remembers what it was asked.

    A float is a duration, and an exception is raised.
    """

    def __init__(self, *answers: Any, delay: float = 0.0) -> None:
        self.answers = list(answers)
        self.delay = delay
        self.asked: list[tuple[RetryRequest, RetryReason]] = []

    @property
    def reasons(self) -> list[RetryReason]:
        return [reason for _, reason in self.asked]

    async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        self.asked.append((request, reason))
        if self.delay:
            await anyio.sleep(self.delay)
        answer: Any = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            # A new one each time: an instance keeps the traceback of its last use, and so the frames of that operation.
            raise copy.copy(answer)
        action: RetryAction = RetryAction.with_duration(answer) if isinstance(answer, float) else answer
        return action
