"""Pure: the types of columns: which fields a schema asks for, how inferred types combine, what can be stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

from motorlite._base.arguments import wrong

_STORED = (
    types.is_null,
    types.is_boolean,
    types.is_int32,
    types.is_int64,
    types.is_float64,
    types.is_string,
    types.is_large_string,
    types.is_timestamp,
    types.is_decimal128,
    types.is_binary,
    types.is_large_binary,
)
_BSON = frozenset(f"pymongoarrow.{name}" for name in ("objectid", "decimal128", "binary", "code"))


def projection(schema: Any) -> dict[str, bool]:
    """Return the projection that returns what a schema has, and nothing else."""
    # Beside a field of `_id`, the server refuses to leave `_id` out.
    fields = {} if "_id" in schema.names else {"_id": False}
    for field in schema:
        _project(field.name, field.type, fields)
    return fields


def _project(name: str, kind: Any, fields: dict[str, bool]) -> None:
    if _is_list(kind):
        _project(name, kind.value_type, fields)
    elif types.is_struct(kind) and kind.num_fields:
        for child in kind:
            _project(f"{name}.{child.name}", child.type, fields)
    else:
        fields[name] = True


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def widened(known: Any, found: Any, name: str) -> Any:
    """Return the type for earlier values of a field and for further ones.

    Raises:
        ValueError: There is none. The decoder sees to it that there is one, except where a name has a dot.
    """
    if types.is_null(found):
        return known
    if types.is_null(known):
        return found
    if types.is_struct(known) and types.is_struct(found):
        kinds = {field.name: field.type for field in known}
        for field in found:
            kinds[field.name] = widened(kinds.get(field.name, pa.null()), field.type, name)
        return pa.struct(list(kinds.items()))
    if types.is_list(known) and types.is_list(found):
        return pa.list_(widened(known.value_type, found.value_type, name))
    # Types of other subtypes of binary data are equal.
    if known == found and getattr(known, "subtype", None) == getattr(found, "subtype", None):
        return known
    if types.is_integer(known) and types.is_integer(found):
        return pa.int64()
    raise ValueError(f"the field {name!r} has values of the types {known} and {found}; leave it out with a projection")


def fitted(table: Any, schema: Any) -> Any:
    """Return a table with all fields of a schema, whose types are those of the table, or `widened`."""
    if table.schema == schema:
        return table
    if not len(schema):
        return table
    names = set(table.column_names)
    columns = [
        pa.chunked_array([_fitted(chunk, kind) for chunk in table[name].chunks], kind)
        if name in names
        else _nulls(table.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(array: Any, kind: Any) -> Any:
    if array.type == kind:
        return array
    if types.is_null(array.type):
        return _nulls(len(array), kind)
    if types.is_struct(kind):
        own = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        children = [
            _fitted(own[field.name], field.type) if field.name in own else _nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind))
    if types.is_list(kind):
        missing = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, _fitted(array.values, kind.value_type), type=kind, mask=missing)
    return array.cast(kind)


def _nulls(count: int, kind: Any) -> Any:
    # A missing document is one of nulls, as in pymongoarrow.
    if not types.is_struct(kind):
        return pa.nulls(count, kind)
    if not kind.num_fields:
        return empty_documents(count)
    return pa.StructArray.from_arrays([_nulls(count, field.type) for field in kind], fields=list(kind))


def empty_documents(count: int) -> Any:
    """Return documents without any field."""
    return pa.StructArray.from_buffers(pa.struct([]), count, [None])


def fieldless(count: int) -> Any:
    """Return a table without columns that has rows."""
    return pa.table({"": pa.nulls(count)}).select([])


def stored(kind: Any, name: str, *, converts: bool) -> Any:
    """Return the type with which a column is stored.

    Args:
        kind: The column's own type.
        name: The column.
        converts: Whether a type that BSON lacks becomes the next larger one.

    Raises:
        ValueError: BSON has no such type.
    """
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, stored(child.type, name, converts=converts)) for child in kind])
    if _is_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(stored(kind.value_type, name, converts=converts))
    if types.is_dictionary(kind):
        return stored(kind.value_type, name, converts=converts)
    if types.is_date(kind) or types.is_timestamp(kind):
        return pa.timestamp("ms", tz=getattr(kind, "tz", None))
    if converts:
        if types.is_int8(kind) or types.is_int16(kind) or types.is_uint8(kind) or types.is_uint16(kind):
            return pa.int32()
        if types.is_uint32(kind) or types.is_uint64(kind) or types.is_duration(kind):
            return pa.int64()
        if types.is_float16(kind) or types.is_float32(kind):
            return pa.float64()
    if getattr(kind, "extension_name", None) in _BSON or any(is_type(kind) for is_type in _STORED):
        return kind
    raise ValueError(wrong(f"the type of column {name!r}", str(kind), "a type that BSON has (docs/arrow.md)"))
