"""Threads of a test: tasks that execute operations one after another, beside the test."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from anyio import Event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Thread:
    """Operations that wait to be executed, and what went wrong with the first one that failed."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.has_ended: bool = False
        self.is_started: bool = False
        self._operations: deque[Callable[[], Awaitable[None]]] = deque()
        self._is_complete = False
        self._news = Event()

    def add(self, operation: Callable[[], Awaitable[None]]) -> None:
        """Execute an operation when those before it are over."""
        self._operations.append(operation)
        self._news.set()

    def complete(self) -> None:
        """No further operation will be added."""
        self._is_complete = True
        self._news.set()

    async def run(self) -> None:
        """Execute operations until there are no more to come."""
        try:
            while self._operations or not self._is_complete:
                if self._operations:
                    await self._operations.popleft()()
                else:
                    self._news = Event()
                    await self._news.wait()
        except Exception as error:
            self.failure = error
        finally:
            self.has_ended = True
