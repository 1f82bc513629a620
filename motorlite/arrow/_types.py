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
    fields = {"_id": False}
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


def merged(known: Any, found: Any) -> tuple[Any, bool]:
    """Combine the types of earlier documents with those that were inferred from further ones.

    The first type of a field decides, as in pymongoarrow: only null becomes any other type, and int32 becomes int64.

    Returns:
        The type for both, and whether what was decoded as `found` has the values that this type would give.
    """
    if known == found or types.is_null(found):
        return known, True
    if types.is_null(known):
        return found, True
    if types.is_struct(known) and types.is_struct(found):
        fields, agrees = merged_fields(known, found)
        return pa.struct(fields), agrees
    if types.is_list(known) and types.is_list(found):
        item, agrees = merged(known.value_type, found.value_type)
        return pa.list_(item), agrees
    if {known, found} == {pa.int32(), pa.int64()}:
        return pa.int64(), True
    return known, False


def merged_fields(known: Any, found: Any) -> tuple[list[Any], bool]:
    """Combine the fields of two schemas or two structs; see `merged`. New fields follow the known ones."""
    fields = {field.name: field.type for field in known}
    all_agree = True
    for field in found:
        if field.name in fields:
            fields[field.name], agrees = merged(fields[field.name], field.type)
            all_agree = all_agree and agrees
        else:
            fields[field.name] = field.type
    return [pa.field(name, kind) for name, kind in fields.items()], all_agree


def with_whole_structs(table: Any) -> Any:
    """Return a table where a missing struct is one of nulls, as in pymongoarrow, also before the field is known."""
    columns = [
        pa.chunked_array([_whole(chunk) for chunk in column.chunks], column.type)
        if types.is_struct(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _whole(array: Any) -> Any:
    if not types.is_struct(array.type) or not array.type.num_fields:
        return array
    children = [_whole(array.field(index)) for index in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(array.type))


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
