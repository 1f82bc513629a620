"""Shell: what is still done for a call that was cancelled, so that no half file remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._api.handles import AsyncCollection
    from motorlite.stats import ClientStats

LIMIT: Final = 5.0
"""Seconds for which a cancelled call may go on to delete chunks."""


# Seconds between two looks for the replies to cancelled operations, and how many there are: they make three seconds.
# Without a limit on the server, the pool gives up such a reply after one.
_LOOK_EVERY: Final = 0.01
_LOOKS: Final = 300


def is_cancellation(error: BaseException, chunks: AsyncCollection[Any]) -> bool:
    """Whether an exception cancels the call: that of the event loop, or an error in a cancel scope that has expired.

    A scope's deadline limits the operations in it on the server too, whose error may come first on a busy machine.
    """
    if isinstance(error, Exception):
        core = chunks._core
        return core.scope_deadline() <= core.now()
    return not isinstance(error, (GeneratorExit, KeyboardInterrupt, SystemExit))


async def have_replies_arrived(chunks: AsyncCollection[Any]) -> bool:
    """Wait for the replies to operations that were cancelled. False if one did not arrive."""
    client = chunks.database.client
    lost = _lost_replies(client.stats())
    for _ in range(_LOOKS):
        stats = client.stats()
        if not any(server.pending for server in stats.servers.values()):
            return _lost_replies(stats) == lost
        await anyio.sleep(_LOOK_EVERY)
    return False


def _lost_replies(stats: ClientStats) -> int:
    return sum(server.replies_given_up for server in stats.servers.values())


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
