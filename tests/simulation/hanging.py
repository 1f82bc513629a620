"""Shell: ends a loop that never gives control back, which no clock of a simulation can see."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class HungError(KeyboardInterrupt):
    """A program has computed for longer than it may. Like an interrupt by hand, it passes tasks and event loops."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Bound the CPU time of this block, in the main thread.

    Args:
        seconds: The bound; after each so many further seconds, the exception is raised again.

    Raises:
        HungError: The block has not ended by then.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one receives signals
        yield
        return

    def interrupt(_number: int, frame: FrameType | None) -> None:
        where = "nowhere" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        raise HungError(f"no end after {seconds:g} s, at {where}")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
