"""Net: wakes many operations that wait for the same thing, a few in each step of the event loop."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from motorlite._net.runtime import Runtime

# Waking an operation takes one or two microseconds, but until all that were woken have run, which takes a hundred each,
# the event loop looks at no socket and no timer.
AT_ONCE: Final = 100
T = TypeVar("T")


class Waking:
    """Wakes in the order in which it was asked to: what is asked for later waits until the earlier rounds are over."""

    __slots__ = ("_rounds", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # The waiters still to be woken, and the function that wakes each. No round is empty.
        self._rounds: list[tuple[deque[Any], Callable[[Any], object]]] = []

    def wake(self, waiting: Collection[T], offer: Callable[[T], object]) -> None:
        """Call `offer` with each of `waiting`: with the first ones now, with the others in later steps."""
        if not self._rounds and len(waiting) <= AT_ONCE:
            for one in waiting:
                offer(one)
        elif waiting:
            # Emptied step by step, because to free all of them in the last one would take as long as to wake them.
            self._rounds.append((deque(waiting), offer))
            if len(self._rounds) == 1:
                self._wake_some()

    def _wake_some(self) -> None:
        rounds = self._rounds
        try:
            for _ in range(AT_ONCE):
                if not rounds:
                    return
                left, offer = rounds[0]
                one = left.popleft()
                if not left:
                    rounds.pop(0)
                offer(one)
        finally:
            # An interrupt of one call must not leave the others waiting.
            if rounds:
                self._runtime.run_soon(self._wake_some)
