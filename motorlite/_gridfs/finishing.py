"""Shell: what is still done for a call that was cancelled, so that no half file remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._api.handles import AsyncCollection

LIMIT: Final = 5.0
"""Seconds for which a cancelled call may go on to delete chunks."""


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception is the event loop's way to cancel a task; all others end loops, generators or programs."""
    return not isinstance(error, (Exception, GeneratorExit, KeyboardInterrupt, SystemExit))


async def finish(chunks: AsyncCollection[Any], error: BaseException, work: Callable[[], Awaitable[None]]) -> None:
    """Delete chunks because of `error`, which gets a note if that fails. Not cancelled, and limited to `LIMIT`."""
    if not chunks.database.client.topology_description.has_writable_server():
        error.add_note(
            f"there may be chunks without a file in {chunks.full_name}: no server is known that takes writes"
        )
        return
    with anyio.move_on_after(LIMIT, shield=True) as scope:
        try:
            await work()
        except PyMongoError as failure:
            error.add_note(f"there may be chunks without a file in {chunks.full_name}: {failure}")
    if scope.cancelled_caught:
        error.add_note(f"there may be chunks without a file in {chunks.full_name}: {LIMIT:g} s were not enough")
