"""Shell: cursors of commands other than find: aggregations, lists and user-defined commands."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from motorlite._api.arguments.checks import for_operation
from motorlite._api.cursors.base import BatchedCursor
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.time_limits import CursorLimits
from motorlite._api.typings import DocumentT
from motorlite._base import arguments
from motorlite._base.arguments import converted, count
from motorlite._base.values import RawBatch
from motorlite._operations.contract import Call
from motorlite._operations.reads import Aggregate, AggregateWrite, has_write_stage, waits_for_data
from motorlite.errors import ConfigurationError, InvalidOperation, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from bson.codec_options import CodecOptions

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._client.core import Core
    from motorlite._operations.contract import CallOptions, CursorReply, Opened, Operation


class AsyncCommandCursor(BatchedCursor[DocumentT]):
    """The documents that a command returns.

    The command runs at the first step: iterate over the cursor, call `to_list`, or ``await`` the cursor,
    which runs the command and returns the cursor. Use ``async with`` or `close` if you may not read all documents.
    """

    __module__ = "motorlite"

    __slots__ = ("_make_operation", "_means_empty", "_must_run")

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
        # What the pipeline reads, if it writes; empty once its command is sent.
        self._must_run = ""

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        # A coroutine warns likewise. The attribute is missing if the constructor raised, and the modules may be gone.
        if getattr(self, "_must_run", "") and not self._is_closed:
            warn(f"aggregate() of {self._must_run}, which writes, was never run: await its cursor", RuntimeWarning, 1)

    def _first_operation(self) -> Operation[CursorReply]:
        return self._make_operation()

    async def _open(self) -> None:
        self._must_run = ""
        await super()._open()

    def _execute(self, call: Call) -> Awaitable[Opened | None]:
        return self._list(call) if self._means_empty else super()._execute(call)

    async def _list(self, call: Call) -> Opened | None:
        core, operation = self._core, self._first_operation()
        names = (operation.operation_name or operation.name, operation.database, operation.collection_name)
        operation_id = core.new_operation_id()
        call = Call(call.session, call.deadline, operation_id, call.options)
        # Published here: for listeners and statistics, too, the operation succeeds where there is nothing to list.
        with core.executor.published(*names, operation_id, call.session):
            try:
                return await core.executor.open(operation, call)
            except OperationFailure as error:
                if error.code not in self._means_empty:
                    raise
                return None

    def batch_size(self, batch_size: int) -> Self:
        """Set the number of documents in further batches; 0 lets the server choose."""
        self._get_more.batch_size = converted("batch_size", batch_size, count)
        return self

    async def try_next(self) -> DocumentT | None:
        """Return the next document, or None if the server has none right now. Asks the server at most once.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        if not self._documents:
            if self._cursor is not None:
                await self._fetch(is_patient=False)
            elif not self._is_closed:
                await self._open()
        return self._documents.popleft() if self._documents else None


# Cursors that return each batch as the bytes of its documents, for programs with a decoder of their own.


def raw_settings(settings: Settings) -> Settings:
    """Return settings that leave the documents of replies as they are."""
    options: Any = settings.codec_options.with_options(document_class=RawBatch)
    return settings.derive(options, None, None, None, None)


class AsyncRawBatchCursor(AsyncCursor[Any]):
    """The matching documents of a query, batch by batch, created by `AsyncCollection.find_raw_batches`.

    Each item is the concatenation of the documents of one batch as BSON, for example for `bson.decode_all`. Otherwise
    it is used like an `AsyncCursor`.
    """

    __module__ = "motorlite.cursor"

    __slots__ = ()

    _is_raw: ClassVar[bool] = True

    async def __anext__(self) -> bytes:
        batch: bytes = await super().__anext__()
        return batch

    async def next(self) -> bytes:
        """Return the next batch.

        Raises:
            StopAsyncIteration: There are no more documents.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return await self.__anext__()

    async def explain(self, timeoutMS: float | None = None) -> Mapping[str, Any]:
        """Return the server's plan for this query, as a document.

        Args:
            timeoutMS: Time limit of the operation; 0 for no limit.

        Retries: overload errors only (docs/retries.md).
        """
        # With the collection's own codec options.
        return await self._clone(AsyncCursor, self._collection._settings).explain(timeoutMS)

    async def distinct(self, key: str, timeoutMS: float | None = None) -> list[Any]:
        """Return the distinct values of a field among the matches, decoded. Ignores skip, limit and hint.

        Args:
            key: The name of the field.
            timeoutMS: Time limit of the operation; 0 for no limit.

        Retries: as a retryable read (docs/retries.md).
        """
        return await self._clone(AsyncCursor, self._collection._settings).distinct(key, timeoutMS)

    def __getitem__(self, index: slice) -> NoReturn:
        """Reject an index: it would count batches."""
        raise InvalidOperation("a raw batch cursor has no items; use skip() and limit(), which count documents")


class AsyncRawBatchCommandCursor(AsyncCommandCursor[Any]):
    """The result of an aggregation, batch by batch, created by `AsyncCollection.aggregate_raw_batches`.

    Each item is the concatenation of the documents of one batch as BSON, for example for `bson.decode_all`. Otherwise
    it is used like an `AsyncCommandCursor`.
    """

    __module__ = "motorlite.cursor"

    __slots__ = ()

    async def __anext__(self) -> bytes:
        batch: bytes = await super().__anext__()
        return batch

    async def next(self) -> bytes:
        """Return the next batch.

        Raises:
            StopAsyncIteration: There are no more documents.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return await self.__anext__()


# Aggregation cursors, on a collection and on a database.

CursorT = TypeVar("CursorT", bound=AsyncCommandCursor[Any])


def aggregation(
    kind: type[CursorT],
    core: Core,
    settings: Settings,
    names: tuple[str, str | None],
    pipeline: Any,
    session: AsyncClientSession | None,
    options: dict[str, Any],
    fields: Mapping[str, Any],
    read: type[Aggregate] = Aggregate,
) -> CursorT:
    """Create the cursor of a pipeline. `options` are checked and have the server's names.

    `fields` are further ones of the command; `read` is the operation for a pipeline that does not write.

    Raises:
        TypeError: The pipeline is not a list of mappings.
        ConfigurationError: The timeout's mode conflicts with the other arguments.
    """
    stages = arguments.converted("pipeline", pipeline, arguments.mappings)
    is_write = has_write_stage(stages)
    mode = options.pop("timeoutMode", None)
    if is_write and mode == "iteration":
        allowed = "'cursorLifetime', because the pipeline has $out or $merge"
        raise ConfigurationError(arguments.wrong("timeoutMode", mode, allowed))
    is_endless = waits_for_data(stages)
    limits = CursorLimits(
        settings.timeout, options.pop("timeoutMS", None), mode, is_tailable=is_endless, is_await_data=is_endless
    )
    max_await_time_ms = options.pop("maxAwaitTimeMS", None)
    get_more = GetMoreOptions(
        batch_size=options.get("batchSize", 0),
        comment=options.get("comment"),
        is_await_data=max_await_time_ms is not None or is_endless,
        is_endless=is_endless,
        is_raw=issubclass(kind, AsyncRawBatchCommandCursor),
        max_await_time_ms=max_await_time_ms,
        prefetch=options.pop("prefetch", 0),
        read_preference=settings.read_preference,
    )
    if "explain" in options:  # a field of the command like others
        fields = {"explain": options.pop("explain"), **fields}
    keywords = for_operation(options)

    def make() -> Aggregate:
        given = {
            **keywords,
            "read_preference": settings.read_preference,
            "selector": settings.read_preference,
            "read_concern": settings.read_concern,
            "codec_options": settings.codec_options,
            "time_limit": limits.time_limit,
            "options": fields,
        }
        if not is_write:
            return read(*names, stages, **given)
        return AggregateWrite(*names, stages, write_concern=settings.write_concern, **given)

    cursor = kind(core, session, limits, settings.codec_options, get_more, settings.call_options, make)
    if is_write and not fields.get("explain"):
        cursor._must_run = ".".join(filter(None, names))
    return cursor
