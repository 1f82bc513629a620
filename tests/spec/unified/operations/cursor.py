"""Operations on a cursor."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from anyio import current_time

from motorlite import timeout
from motorlite.errors import PyMongoError
from tests.spec.unified.arguments import selected
from tests.spec.unified.matching import MISSING
from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler


# Seconds within which a cursor without a limit of its own has a document or an error.
_PATIENCE: Final = 10.0


def _step_timeout(cursor: Any) -> float | None:
    """How long a step of a tailable cursor may take, in seconds; None for no limit, and for other cursors."""
    limits = cursor._limits
    seconds = limits._first.timeout
    return seconds if limits._is_by_iteration and seconds != inf else None


async def _iterate_until_document_or_error(cursor: Any, arguments: Arguments) -> Any:
    end = current_time() + _PATIENCE
    # In the specifications one step of a tailable cursor goes on until there is a document. Here it ends at an empty
    # batch, and the next step has the whole time again: the block is what limits all of them together.
    with timeout(_step_timeout(cursor)):
        while True:
            try:
                return await cursor.next()
            except StopAsyncIteration:
                if not cursor.alive:
                    raise ValueError("the cursor has no further document") from None
            if current_time() > end:
                raise Failed(f"waited {_PATIENCE:g} s in vain for a document or an error")


async def _iterate_once(cursor: Any, arguments: Arguments) -> Any:
    """At most one getMore: a find cursor that is tailable stops at an empty batch."""
    if hasattr(cursor, "try_next"):
        found = await cursor.try_next()
        return MISSING if found is None else found
    try:
        return await cursor.next()
    except StopAsyncIteration:
        return MISSING


async def _close(cursor: Any, arguments: Arguments) -> None:
    keywords = selected(arguments, {"timeoutMS": "timeoutMS"}, "close")
    try:
        await cursor.close(**keywords)
    except PyMongoError:
        return  # the test looks at the events of killCursors


OPERATIONS: Final[Mapping[str, Handler]] = {
    "close": _close,
    "iterateOnce": _iterate_once,
    "iterateUntilDocumentOrError": _iterate_until_document_or_error,
}
