"""Operations on a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite.errors import PyMongoError
from tests.spec.unified.arguments import selected
from tests.spec.unified.matching import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler


async def _iterate_until_document_or_error(cursor: Any, arguments: Arguments) -> Any:
    while True:
        try:
            return await cursor.next()
        except StopAsyncIteration:
            # A tailable cursor stops at every empty batch.
            if not cursor.alive:
                raise ValueError("the cursor has no further document") from None


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
