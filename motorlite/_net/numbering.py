"""Net: request ids, which are unique across the threads of the process."""

from __future__ import annotations

import sys
from itertools import chain, repeat
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def _has_gil() -> bool:
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    return is_enabled is None or is_enabled()


def make_request_ids(*, has_gil: bool) -> Callable[[], int]:
    """Return a function for `next_request_id`. Where the GIL makes that safe, it runs no Python code."""
    next_id = chain.from_iterable(repeat(range(1, 2**31))).__next__
    if has_gil:
        return next_id
    lock = Lock()

    def next_id_locked() -> int:
        with lock:
            return next_id()

    return next_id_locked


next_request_id: Final = make_request_ids(has_gil=_has_gil())
"""Returns a request id that no message in flight uses (31 bits, shared by all clients and threads)."""
