"""Creating a change stream on a client, a database or a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified.operations.method import Method

if TYPE_CHECKING:
    from tests.spec.unified.operations.method import Arguments

_WATCH: Final = Method(
    "watch",
    "pipeline fullDocument fullDocumentBeforeChange resumeAfter startAfter startAtOperationTime maxAwaitTimeMS="
    "max_await_time_ms batchSize collation comment showExpandedEvents timeoutMS=timeoutMS",
)


async def create_change_stream(watched: Any, arguments: Arguments) -> Any:
    """Open a change stream."""
    return await _WATCH.call(watched, arguments)
