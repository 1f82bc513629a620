"""Shell: query results as data frames of pandas and Polars, and as NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyarrow import types

from motorlite.arrow._reading import aggregated, found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite import AsyncCollection


def to_pandas(table: Any) -> Any:
    """Return a table as a `pandas.DataFrame`. Columns are converted one after the other, and given up meanwhile."""
    return table.to_pandas(split_blocks=True, self_destruct=True)


def to_polars(table: Any) -> Any:
    """Return a table as a `polars.DataFrame`."""
    import polars

    return polars.from_arrow(table)


def to_numpy(table: Any) -> dict[str, Any]:
    """Return the columns of a table as NumPy arrays."""
    return {name: _array(table[name]) for name in table.column_names}


def _array(column: Any) -> Any:
    # Chunk by chunk: Python's global lock is free in between.
    kind = np.str_ if types.is_string(column.type) else None
    arrays = [_converted(chunk.to_numpy(zero_copy_only=False), kind) for chunk in column.chunks if len(chunk)]
    if not arrays:
        return _converted(column.to_numpy(), kind)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _converted(array: Any, kind: Any) -> Any:
    return array if kind is None else array.astype(kind)


async def find_pandas(
    collection: AsyncCollection[Any],
    query: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the matching documents as a `pandas.DataFrame`. See `find_arrow`.

    Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await found(collection, query, schema, allow_invalid, options).table(to_pandas)


async def aggregate_pandas(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the result of a pipeline as a `pandas.DataFrame`. See `aggregate_arrow`.

    Retries: as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await aggregated(collection, pipeline, schema, allow_invalid, options).table(to_pandas)


async def find_polars(
    collection: AsyncCollection[Any],
    query: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the matching documents as a `polars.DataFrame`. See `find_arrow`.

    Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await found(collection, query, schema, allow_invalid, options).table(to_polars)


async def aggregate_polars(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> Any:
    """Return the result of a pipeline as a `polars.DataFrame`. See `aggregate_arrow`.

    Retries: as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await aggregated(collection, pipeline, schema, allow_invalid, options).table(to_polars)


async def find_numpy(
    collection: AsyncCollection[Any],
    query: Mapping[str, Any] | None = None,
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Return the matching documents as NumPy arrays, by the name of the field. See `find_arrow`.

    Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await found(collection, query, schema, allow_invalid, options).table(to_numpy)


async def aggregate_numpy(
    collection: AsyncCollection[Any],
    pipeline: Sequence[Mapping[str, Any]],
    *,
    schema: Any = None,
    allow_invalid: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Return the result of a pipeline as NumPy arrays, by the name of the field. See `aggregate_arrow`.

    Retries: as a retryable read; getMore for overload errors only (docs/retries.md).
    """
    return await aggregated(collection, pipeline, schema, allow_invalid, options).table(to_numpy)


for _public in (find_pandas, aggregate_pandas, find_polars, aggregate_polars, find_numpy, aggregate_numpy):
    _public.__module__ = "motorlite.arrow"
