"""Shell: query results as Arrow tables, and tables as documents (extra ``arrow``).

    table = await find_arrow(db.orders, {"year": 2024}, schema=Schema({"_id": ObjectId, "total": float}))

The decoder is pymongoarrow's, and so are types and schemas. It runs in a thread, in slices; docs/arrow.md explains.
Each function also has the name that it has in pymongoarrow (`find_arrow_all`, `write`), so that programs change little.
"""

from __future__ import annotations

try:
    from motorlite.arrow._decoding import Schema
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("pymongoarrow", "pyarrow", "numpy", "pymongo"):
        raise
    raise ModuleNotFoundError(
        f"motorlite.arrow needs the package pymongoarrow (there is no {error.name}): pip install 'motorlite[arrow]'",
        name=error.name,
    ) from error

from motorlite.arrow._frames import (
    aggregate_numpy,
    aggregate_pandas,
    aggregate_polars,
    find_numpy,
    find_pandas,
    find_polars,
)
from motorlite.arrow._reading import aggregate_arrow, aggregate_arrow_batches, find_arrow, find_arrow_batches
from motorlite.arrow._writing import insert_arrow

__all__ = [
    "Schema",
    "aggregate_arrow",
    "aggregate_arrow_all",
    "aggregate_arrow_batches",
    "aggregate_numpy",
    "aggregate_numpy_all",
    "aggregate_pandas",
    "aggregate_pandas_all",
    "aggregate_polars",
    "aggregate_polars_all",
    "find_arrow",
    "find_arrow_all",
    "find_arrow_batches",
    "find_numpy",
    "find_numpy_all",
    "find_pandas",
    "find_pandas_all",
    "find_polars",
    "find_polars_all",
    "insert_arrow",
    "write",
]

# pymongoarrow's names.
find_arrow_all, aggregate_arrow_all = find_arrow, aggregate_arrow
find_pandas_all, aggregate_pandas_all = find_pandas, aggregate_pandas
find_polars_all, aggregate_polars_all = find_polars, aggregate_polars
find_numpy_all, aggregate_numpy_all = find_numpy, aggregate_numpy
write = insert_arrow
