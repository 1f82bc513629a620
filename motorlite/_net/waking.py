"""Net: wakes many operations that wait for the same thing, a few in each step of the event loop."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._net.runtime import Runtime

# Waking an operation takes one or two microseconds, but until all that were woken have run, which takes a hundred each,
# the event loop looks at no socket and no timer.
AT_ONCE: Final = 100
_DONE: Final = object()


class Waking:
    """Wakes in the order in which it was asked to: what is asked for later waits until the earlier rounds are over."""

    __slots__ = ("_rounds", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._rounds: deque[Iterator[object]] = deque()

    def wake(self, offers: Iterator[object]) -> None:
        """Make `offers`, each by asking for the next item: the first ones now, the others in later steps."""
        self._rounds.append(offers)
        if len(self._rounds) == 1:
            self._wake_some()

    def _wake_some(self) -> None:
        rounds = self._rounds
        for _ in range(AT_ONCE):
            while next(rounds[0], _DONE) is _DONE:
                rounds.popleft()
                if not rounds:
                    return
        self._runtime.run_soon(self._wake_some)
