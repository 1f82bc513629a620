"""Shell: says how far the command is, on standard error."""

from __future__ import annotations

import sys
import time
from typing import Final

# In seconds, between two messages: on a terminal, where a message replaces the one before, and elsewhere.
_ON_TERMINAL: Final = 0.1
_ELSEWHERE: Final = 5.0
# The terminal's command that deletes the rest of a line.
_DELETE: Final = "\r\x1b[K"


class Progress:
    """Prints how many files are done, from time to time; a run that ends soon prints nothing."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._interval = _ON_TERMINAL if self._is_terminal else _ELSEWHERE
        self._last = time.perf_counter()
        # Whether the terminal's line has a message.
        self._is_shown = False

    def step(self, what: str, number: int, total: int) -> None:
        """Print that `number` of `total` files are read, or compared, if it is time to."""
        now = time.perf_counter()
        if now - self._last < self._interval:
            return
        self._last = now
        text = f"motorlite.port: {what} {number} of {total} files"
        if self._is_terminal:
            print(f"{_DELETE}{text}", end="", file=sys.stderr, flush=True)
            self._is_shown = True
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Delete the message from a terminal, since something else is printed now."""
        if self._is_shown:
            print(_DELETE, end="", file=sys.stderr, flush=True)
            self._is_shown = False
