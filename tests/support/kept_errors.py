"""Detects references that keep errors alive, and references kept by errors."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_kept_copy(kept: BaseException | None, error: BaseException | None) -> bool:
    """Whether `kept` is a copy of `error` that refers to no frame."""
    return (
        kept is not None
        and kept is not error
        and (type(kept), kept.args) == (type(error), error.args if error is not None else ())
        and (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
    )


@contextmanager
def without_collector() -> Iterator[None]:
    """Turn the garbage collector off, so that only reference counts free objects in the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def garbage() -> list[object]:
    """Run the collector; return the errors, frames and coroutines that only it could free."""
    before = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [item for item in gc.garbage if isinstance(item, BaseException | FrameType | CoroutineType)]
    finally:
        gc.set_debug(before)
        gc.garbage.clear()
