"""Shell: inserts the rows of a table as documents."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any, Final

import bson
import pyarrow as pa
from bson.codec_options import TypeEncoder, TypeRegistry
from bson.decimal128 import Decimal128
from bson.raw_bson import RawBSONDocument
from pyarrow.compute import CastOptions
from pymongoarrow.errors import ArrowWriteError
from pymongoarrow.result import ArrowWriteResult

from motorlite._api.handles import AsyncCollection
from motorlite._api.time_limits import deadline, timeout
from motorlite._base.arguments import instance, wrong
from motorlite.arrow._reading import in_thread
from motorlite.arrow._types import stored
from motorlite.errors import BulkWriteError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bson.codec_options import CodecOptions

    from motorlite import AsyncClientSession
    from motorlite._client.core import Core

# Rows that become Python objects at a time, while Python's global lock is held.
ROWS: Final = 256
# What one insert_many gets: bytes, and documents.
BYTES: Final = 8 * 1024 * 1024
DOCUMENTS: Final = 50_000


class DecimalEncoder(TypeEncoder):
    """Stores the decimals of Arrow's own type."""

    @property
    def python_type(self) -> type[Decimal]:
        """What is encoded."""
        return Decimal

    def transform_python(self, value: Any) -> Decimal128:
        """Return BSON's decimal."""
        return Decimal128(value)


def table_of(tabular: Any, *, exclude_none: bool) -> Any:
    """Return a table for what a caller may insert.

    Raises:
        TypeError: It is no such thing.
    """
    if isinstance(tabular, pa.Table):
        return tabular
    if isinstance(tabular, pa.RecordBatch):
        return pa.Table.from_batches([tabular])
    if isinstance(tabular, dict):
        return pa.table({name: pa.array(values) for name, values in tabular.items()})
    library = type(tabular).__module__.partition(".")[0]
    if library == "polars":
        return tabular.to_arrow()
    if library == "pandas":
        # NaN is a value; only without nulls it is left out like these.
        columns = [pa.array(column, from_pandas=exclude_none) for _, column in tabular.items()]
        return pa.table(columns, names=[str(name) for name in tabular.columns])
    allowed = "a pyarrow.Table or RecordBatch, a DataFrame of pandas or Polars, or a dict of NumPy arrays"
    raise TypeError(wrong("tabular", type(tabular).__name__, allowed))


def storable(table: Any, *, converts: bool) -> Any:
    """Return a table with types that BSON has; see `stored`.

    Raises:
        ValueError: BSON has no such type, a value is too large for the type that BSON has, or columns share a name.
    """
    shared = sorted(name for name, count in Counter(table.column_names).items() if count > 1)
    if shared:  # a document would have the last one alone
        raise ValueError(f"columns have the same name, {', '.join(map(repr, shared))}: rename or drop some")
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = stored(column.type, name, converts=converts)
        columns.append(column if kind == column.type else _cast(name, column, kind))
    return pa.Table.from_arrays(columns, names=table.column_names)


def _cast(name: str, column: Any, kind: Any) -> Any:
    # Dates lose what is finer than BSON's milliseconds. Any other value stays what it is, or is an error.
    try:
        return column.cast(options=CastOptions(target_type=kind, allow_time_truncate=True))
    except pa.ArrowInvalid as error:
        raise ValueError(f"a value of column {name!r} cannot be stored as {kind}: {error}") from error


class Rows:
    """The rows of a table as documents; `take` is called in a thread."""

    def __init__(self, table: Any, codec_options: CodecOptions[Any], *, exclude_none: bool) -> None:
        registry = codec_options.type_registry
        codecs = registry.codecs
        if not any(getattr(codec, "python_type", None) is Decimal for codec in codecs):
            codecs = [*codecs, DecimalEncoder()]
        self._codec_options = codec_options.with_options(type_registry=TypeRegistry(codecs, registry.fallback_encoder))
        self._exclude_none = exclude_none
        self._is_stopped = False
        self._documents = self._encoded(table)

    def stop(self) -> None:
        """End a `take` that runs in a thread whose caller was cancelled."""
        self._is_stopped = True

    def take(self) -> list[RawBSONDocument]:
        """Return the next documents; none at the end."""
        documents: list[RawBSONDocument] = []
        size = 0
        while size < BYTES and len(documents) < DOCUMENTS and not self._is_stopped:
            encoded = next(self._documents, None)
            if encoded is None:
                break
            documents.append(RawBSONDocument(encoded))
            size += len(encoded)
        return documents

    def _encoded(self, table: Any) -> Iterator[bytes]:
        for batch in table.to_batches(max_chunksize=ROWS):
            for row in batch.to_pylist():
                document = {name: value for name, value in row.items() if value is not None}
                yield bson.encode(document if self._exclude_none else row, codec_options=self._codec_options)


async def insert_arrow(
    collection: AsyncCollection[Any],
    tabular: Any,
    *,
    exclude_none: bool = False,
    auto_convert: bool = True,
    session: AsyncClientSession | None = None,
    timeoutMS: float | None = None,
) -> Any:
    """Insert the rows of a table, in order. pymongoarrow calls it `write`.

    Args:
        collection: The collection to insert into.
        tabular: A `pyarrow.Table` or `RecordBatch`, a data frame of pandas or Polars, or a dict of NumPy arrays.
        exclude_none: Whether documents leave out the fields that are null.
        auto_convert: Whether types that BSON lacks (int8, uint32, float32 and so on) become the next larger one.
        session: The session to use.
        timeoutMS: Time limit of the whole call; 0 for no limit.

    Returns:
        A `pymongoarrow.result.ArrowWriteResult`.

    Raises:
        TypeError, ValueError: The table, or a type in it, cannot be stored.
        ArrowWriteError: An insert failed; `details` says which rows, and the driver's error is its cause.

    Retries: as a retryable write, each command (docs/retries.md).
    """
    instance("collection", collection, AsyncCollection)
    core: Core = collection._core
    core.enter()
    whole = deadline(core, collection._settings.timeout, timeoutMS)
    table = await in_thread(
        core, lambda: storable(table_of(tabular, exclude_none=exclude_none), converts=auto_convert), whole
    )
    rows = Rows(table, collection.codec_options, exclude_none=exclude_none)
    inserted = 0
    try:
        with timeout(whole.expires_at - core.now()) if whole.expires_at != inf else nullcontext():
            while documents := await in_thread(core, rows.take, whole):
                await _insert(collection, documents, session, inserted)
                inserted += len(documents)
    finally:
        rows.stop()
    return ArrowWriteResult({"insertedCount": inserted})


async def _insert(
    collection: AsyncCollection[Any], documents: list[Any], session: AsyncClientSession | None, before: int
) -> None:
    try:
        await collection.insert_many(documents, session=session)
    except BulkWriteError as error:
        found = dict(error.details or {})
        failed = [{**entry, "index": entry["index"] + before} for entry in found.get("writeErrors", ())]
        details = {
            "writeErrors": failed,
            "writeConcernErrors": found.get("writeConcernErrors", []),
            "nInserted": found.get("nInserted", 0) + before,
        }
        raise ArrowWriteError(details) from error
    except PyMongoError as error:
        if error.partial_result is not None:  # of the commands before the one that failed
            before += error.partial_result.bulk_api_result.get("nInserted", 0)
        failed = [{"errmsg": str(error), "index": before}]
        raise ArrowWriteError({"writeErrors": failed, "writeConcernErrors": [], "nInserted": before}) from error


insert_arrow.__module__ = "motorlite.arrow"
