"""Shell: cursors of commands other than find: aggregations, lists and user-defined commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from motorlite._api.cursors.batches import BatchedCursor
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import converted, count
from motorlite.errors import OperationFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bson.codec_options import CodecOptions

    from motorlite._api.cursors.limits import CursorLimits
    from motorlite._api.cursors.server_cursor import GetMoreOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._client.core import Core
    from motorlite._execution.call import CallOptions
    from motorlite._execution.operation import CursorReply, Operation


class AsyncCommandCursor(BatchedCursor[DocumentT]):
    """The documents that a command returns.

    The command runs at the first step: iterate over the cursor, call `to_list`, or ``await`` the cursor,
    which runs the command and returns the cursor. Use ``async with`` or `close` if you may not read all documents.
    """

    __module__ = "motorlite"

    __slots__ = ("_make_operation", "_means_empty")

    def __init__(
        self,
        core: Core,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        get_more: GetMoreOptions,
        call_options: CallOptions,
        make_operation: Callable[[], Operation[CursorReply]],
        means_empty: Collection[int] = (),
    ) -> None:
        super().__init__(core, session, limits, codec_options, get_more, call_options)
        self._make_operation = make_operation
        # Error codes with which the server reports that there is nothing to list.
        self._means_empty = means_empty

    def _first_operation(self) -> Operation[CursorReply]:
        return self._make_operation()

    async def _open(self) -> None:
        try:
            await super()._open()
        except OperationFailure as error:
            if error.code not in self._means_empty:
                raise
            self._is_closed = True

    def batch_size(self, batch_size: int) -> Self:
        """Set the number of documents in further batches; 0 lets the server choose."""
        self._get_more.batch_size = converted("batch_size", batch_size, count)
        return self

    async def try_next(self) -> DocumentT | None:
        """Return the next document, or None if the server has none right now. Asks the server at most once.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        if not self._documents:
            if self._cursor is not None:
                await self._fetch(is_patient=False)
            elif not self._is_closed:
                await self._open()
        return self._documents.popleft() if self._documents else None
