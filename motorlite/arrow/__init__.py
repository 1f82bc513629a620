"""Shell: query results as Arrow tables, and tables as documents (extra ``arrow``).

    table = await find_arrow(db.orders, {"year": 2024}, schema=Schema({"_id": ObjectId, "total": float}))

The decoder is pymongoarrow's, and so are types and schemas. It runs in a thread, in slices; docs/arrow.md explains.
Each function also has the name that it has in pymongoarrow (`find_arrow_all`, `write`), so that programs change little.
"""

from __future__ import annotations

from motorlite.arrow._extra import Schema
from motorlite.arrow._frames import (
    aggregate_numpy,
    aggregate_pandas,
    aggregate_polars,
    find_numpy,
    find_pandas,
    find_polars,
)
from motorlite.arrow._frames import aggregate_numpy as aggregate_numpy_all
from motorlite.arrow._frames import aggregate_pandas as aggregate_pandas_all
from motorlite.arrow._frames import aggregate_polars as aggregate_polars_all
from motorlite.arrow._frames import find_numpy as find_numpy_all
from motorlite.arrow._frames import find_pandas as find_pandas_all
from motorlite.arrow._frames import find_polars as find_polars_all
from motorlite.arrow._reading import aggregate_arrow, aggregate_arrow_batches, find_arrow, find_arrow_batches
from motorlite.arrow._reading import aggregate_arrow as aggregate_arrow_all
from motorlite.arrow._reading import find_arrow as find_arrow_all
from motorlite.arrow._writing import insert_arrow
from motorlite.arrow._writing import insert_arrow as write

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
