"""Shell: queries and aggregations whose results become Arrow tables."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite._api.handles import AsyncCollection
from motorlite._base.arguments import instance, wrong
from motorlite._net.runtime import WaitTimeout
from motorlite.arrow._decoding import Decoder, schema_of
from motorlite.arrow._types import projection
from motorlite.errors import ConfigurationError, ExecutionTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from typing import TypeVar

    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core

    T = TypeVar("T")

# Documents of a batch, unless the caller says otherwise. The event loop does some work for each document of a reply;
# with small documents, a reply of 16 MB keeps it for 70 ms.
BATCH: Final = 5_000


class Scan:
    """One query or aggregation, and the decoder of its batches."""

    def __init__(self, collection: AsyncCollection[Any], cursor: Any, decoder: Decoder) -> None:
        self._core: Core = collection._core
        self._cursor = cursor
        self._decoder = decoder

    async def tables(self) -> AsyncGenerator[Any]:
        """Yield a table for each batch of the server."""
        async with self._cursor as cursor:
            try:
                async for batch in cursor:
                    if batch:
                        yield await self._in_thread(partial(self._decoder.decode, bytes(batch)))
            finally:
                self._decoder.stop()

    async def batches(self) -> AsyncGenerator[Any]:
        """Yield a record batch for each batch of the server."""
        tables = self.tables()
        try:
            async for table in tables:
                for batch in table.to_batches():
                    yield batch
        finally:
            await tables.aclose()

    async def table(self, convert: Callable[[Any], T]) -> T:
        """Read all, and return what `convert`, in a thread, makes of the table."""
        found = [table async for table in self.tables()]
        return await self._in_thread(lambda: convert(self._decoder.listed(found)))

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await in_thread(self._core, function, self._cursor._limits.step(self._core))


async def in_thread(core: Core, function: Callable[[], T], deadline: Deadline) -> T:
    """Run `function` in a thread.

    Raises:
        ExecutionTimeout: The deadline passed. The thread goes on, and its outcome is dropped.
    """
    try:
        return await core.runtime.run_in_thread(function, deadline.expires_at)
    except WaitTimeout:
        limit = None if deadline.timeout == inf else deadline.timeout
        error = ExecutionTimeout("the time limit was used up while documents and columns were converted", 50)
        error.client_limit = limit
        raise error from None


def found(
    collection: AsyncCollection[Any], query: Any, schema: Any, allow_invalid: bool, options: Mapping[str, Any]
) -> Scan:
    """Return the scan of a query."""
    instance("collection", collection, AsyncCollection)
    columns = schema_of(schema)
    given = {"prefetch": 1, "batch_size": BATCH, **options}
    if given.get("cursor_type"):
        raise ConfigurationError(wrong("cursor_type", given["cursor_type"], "left out: a table has an end"))
    if columns is not None:
        given.setdefault("projection", projection(columns.to_arrow()))
    return Scan(collection, collection.find_raw_batches(query, **given), _decoder(collection, columns, allow_invalid))


def aggregated(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    schema: Any,
    allow_invalid: bool,
    options: Mapping[str, Any],
) -> Scan:
    """Return the scan of an aggregation."""
    instance("collection", collection, AsyncCollection)
    columns = schema_of(schema)
    stages = list(pipeline)
    if stages and not {"$out", "$merge"}.isdisjoint(stages[-1]):
        raise ConfigurationError("a pipeline with $out or $merge has no result for a table; use aggregate")
    if columns is not None:
        stages.append({"$project": projection(columns.to_arrow())})
    cursor = collection.aggregate_raw_batches(stages, **{"prefetch": 1, "batchSize": BATCH, **options})
    return Scan(collection, cursor, _decoder(collection, columns, allow_invalid))


def _decoder(collection: AsyncCollection[Any], schema: Any, allow_invalid: bool) -> Decoder:
    return Decoder(schema, collection.codec_options, allow_invalid=allow_invalid)


def _same(table: Any) -> Any:
    return table


async def find_arrow(
    collection: AsyncCollection[Any],
    query: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the matching documents as a `pyarrow.Table`.

    Args:
        collection: The collection to read.
        query: A query; None matches everything.
        schema: The columns: a `Schema`, a `pyarrow.Schema`, or a mapping of names to types. None infers them.
        allow_invalid: Whether values of another type than the schema's become null, instead of a TypeError.
        options: Those of `find`: `projection`, `sort`, `limit`, `batch_size`, `timeoutMS` and so on.

    Raises:
        ConfigurationError: An option does not fit a table.
        TypeError: A value has another type than the schema says.
        PyMongoError: The operation failed.

    Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await found(collection, query, schema, allow_invalid, options).table(_same)


async def aggregate_arrow(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the result of a pipeline as a `pyarrow.Table`. See `find_arrow`; `options` are those of `aggregate`.

    Retries: as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await aggregated(collection, pipeline, schema, allow_invalid, options).table(_same)


def find_arrow_batches(
    collection: AsyncCollection[Any],
    query: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> AsyncGenerator[Any]:
    """Iterate over the matching documents as `pyarrow.RecordBatch`, one for each batch of the server.

    With a schema, all have the same fields. Without one, a record batch has the fields of all documents so far.
    See `find_arrow` for the arguments. Close the iterator (`contextlib.aclosing`) if you leave it early.

    Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return found(collection, query, schema, allow_invalid, options).batches()


def aggregate_arrow_batches(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> AsyncGenerator[Any]:
    """Iterate over the result of a pipeline as `pyarrow.RecordBatch`. See `find_arrow_batches`.

    Retries: as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return aggregated(collection, pipeline, schema, allow_invalid, options).batches()


for _public in (find_arrow, aggregate_arrow, find_arrow_batches, aggregate_arrow_batches):
    _public.__module__ = "motorlite.arrow"
