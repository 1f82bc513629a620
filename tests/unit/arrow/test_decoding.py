"""Batches become tables, slice by slice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson import Binary, Code, Decimal128, Int64, ObjectId
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from pymongoarrow.context import PyMongoArrowContext

from motorlite.arrow import Schema, _decoding
from motorlite.arrow._decoding import PIECE, SLICE, Decoder, Stopped, pieces, schema_of


def encoded(*documents: dict[str, Any]) -> bytes:
    return b"".join(map(bson.encode, documents))


def decoder(schema: Any = None, *, allow_invalid: bool = False) -> Decoder:
    return Decoder(schema_of(schema), DEFAULT_CODEC_OPTIONS, allow_invalid=allow_invalid)


def test_pieces_end_between_documents() -> None:
    documents = [{"a": "x" * size} for size in (10, 200, 10, 10, 90)]
    batch = encoded(*documents)
    found = [bson.decode_all(batch[start:end]) for start, end in pieces(batch, 0, len(batch), 100)]
    # A document may be larger than a piece.
    assert found == [documents[:1], documents[1:2], documents[2:4], documents[4:]]
    assert list(pieces(b"", 0, 0, 100)) == []


@pytest.mark.parametrize("schema", [Schema({"a": int}), pa.schema([("a", pa.int64())]), {"a": int}])
def test_schemas(schema: Any) -> None:
    found = schema_of(schema)
    assert found is not None
    assert found.to_arrow() == pa.schema([("a", pa.int64())])
    # One of pymongoarrow's stays as it is.
    assert schema_of(found) is found


def test_what_is_no_schema() -> None:
    assert schema_of(None) is None
    with pytest.raises(TypeError, match="schema"):
        schema_of(["a"])


def test_many_slices_and_pieces_are_one_table() -> None:
    documents = [{"_id": n, "text": f"text {n}" * 10} for n in range(2 * PIECE // 80)]
    batch = encoded(*documents)
    assert len(batch) > 2 * PIECE > 2 * SLICE
    table = decoder().decode(batch)
    assert table.to_pylist() == documents
    assert all(column.num_chunks == 1 for column in table.columns)


def test_a_batch_has_the_fields_of_the_ones_before() -> None:
    decodes = decoder()
    first = decodes.decode(encoded({"a": 1}))
    second = decodes.decode(encoded({"b": "x"}, {"a": 2**40}, {"a": "no number"}))
    assert second.to_pylist() == [{"a": None, "b": "x"}, {"a": 2**40, "b": None}, {"a": None, "b": None}]
    assert decodes.joined([first, second]).schema == pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert decodes.listed([]).schema == second.schema


NOW = datetime(2024, 2, 29)
ID = ObjectId("0123456789abcdef01234567")
BIG = Int64(2**40)
NESTED = {"id": ID, "list": [Decimal128("1.25"), None], "structs": [{"code": Code("f()"), "bytes": Binary(b"x", 5)}]}


def test_extension_types_inside_documents_and_lists() -> None:
    decodes = decoder()
    tables = [decodes.decode(encoded({"a": NESTED}, {"b": [ID]})), decodes.decode(encoded({"c": 1}))]
    none = dict.fromkeys(NESTED)
    assert decodes.listed(tables).to_pylist() == [
        {"a": NESTED, "b": None, "c": None},
        {"a": none, "b": [ID], "c": None},
        {"a": none, "b": None, "c": 1},
    ]
    schema = Schema({"a": {"id": ObjectId}, "b": [ObjectId]})
    assert decoder(schema).decode(encoded({"a": {"id": ID}, "b": [ID]})).to_pylist() == [{"a": {"id": ID}, "b": [ID]}]
    assert decoder(schema).listed([]).schema == schema.to_arrow()


def test_documents_without_fields_are_rows() -> None:
    decodes = decoder()
    tables = [decodes.decode(encoded({}, {}))]
    assert (tables[0].num_rows, tables[0].num_columns) == (2, 0)
    assert [batch.num_rows for batch in tables[0].to_batches()] == [2]
    assert decodes.listed([tables[0], tables[0]]).num_rows == 4
    tables += [decodes.decode(encoded({"a": 1})), decodes.decode(encoded({}))]
    assert decodes.listed(tables).to_pylist() == [{"a": None}, {"a": None}, {"a": 1}, {"a": None}]


def whole(documents: list[dict[str, Any]]) -> Any:
    context = PyMongoArrowContext(None, codec_options=DEFAULT_CODEC_OPTIONS)
    context.process_bson_stream(encoded(*documents))
    return context.finish()


@pytest.mark.parametrize(
    "values",
    [
        [ID, "text"],
        ["text", ID, Code("f()")],
        [Binary(b"a", 5), Binary(b"b", 6), Binary(b"c", 5)],
        [1, "text", BIG, 3],
        [1, 1.5, BIG, 3],
        [1, BIG, None, True],
        [{"a": 1}, "text", {"a": BIG, "b": 2}],
        [{"a": 1}, {}, {"b": {"c": ID}}, {"b": 1}],
        [{}, {"a": 1}],
        [[], "text", [1, 2]],
        [[1], [None], [None, None]],
        [[None], [{"a": ID}], [], [{"b": [1]}, {"a": 1}], [{"b": [BIG]}]],
        [1.5, NOW, 2.5],
        [None, [[1]], [[], ["text"], [BIG]]],
    ],
)
def test_types_are_inferred_as_if_all_documents_were_in_one_piece(
    values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents: list[dict[str, Any]] = [{"before": 1}, *({"a": value} for value in values), {"after": "text"}]
    expected = whole(documents)
    found = []
    for cut in range(1, len(documents)):
        decodes = decoder()
        batches = [decodes.decode(encoded(*part)) for part in (documents[:cut], documents[cut:])]
        found.append(decodes.listed(batches))
    monkeypatch.setattr(_decoding, "PIECE", 1)
    found.append(decoder().decode(encoded(*documents)))
    for table in found:
        table.validate(full=True)
        assert table.schema == expected.schema
        # Not the tables: extension types with other parameters are equal.
        assert repr(table.to_pylist()) == repr(expected.to_pylist())


def test_a_date_is_followed_by_values_of_other_types() -> None:
    """pymongoarrow raises; and where the batch ends does not matter."""
    documents: list[dict[str, Any]] = [{"a": NOW, "b": {"c": [NOW]}}, {"a": "x", "b": {"c": [1, NOW]}}, {"a": NOW}]
    expected = [
        {"a": NOW, "b": {"c": [NOW]}},
        {"a": None, "b": {"c": [None, NOW]}},
        {"a": NOW, "b": {"c": None}},
    ]
    assert decoder().decode(encoded(*documents)).to_pylist() == expected
    decodes = decoder()
    assert decodes.listed([decodes.decode(encoded(each)) for each in documents]).to_pylist() == expected


def test_a_field_with_only_empty_documents() -> None:
    assert decoder().decode(encoded({"a": {}, "b": [{}, {}]}, {})).to_pylist() == [
        {"a": {}, "b": [{}, {}]},
        {"a": {}, "b": None},
    ]


def test_a_dot_in_the_name_of_a_field() -> None:
    """As in pymongoarrow, it makes a column of its own; types that have none in common are an error."""
    decodes = decoder()
    values: list[Any] = [{"b.c": [1]}, {"b.c": []}, {"x": 1}, {"b.c": [BIG]}]
    tables = [decodes.decode(encoded({"a": value})) for value in values]
    assert decodes.listed(tables).to_pylist() == [
        {"a": {"x": x}, "a.b.c": c} for x, c in [(None, [1]), (None, []), (1, None), (None, [BIG])]
    ]
    with pytest.raises(ValueError, match=r"'a\.b\.c'"):
        decodes.decode(encoded({"a": {"b.c": "text"}}))
    with pytest.raises(ValueError, match="a dot in the name"):
        decodes.decode(encoded({"x.y": 1}))


def test_a_date_whose_name_has_a_dot_takes_no_other_value() -> None:
    with pytest.raises(TypeError, match="datetime"):
        decoder().decode(encoded({"a": {"b.c": NOW}}, {"a": {"b.c": "x"}}))


def test_a_value_that_does_not_fit_its_schema() -> None:
    batch = encoded({"a": 1}, {"a": "x"})
    with pytest.raises(TypeError):
        decoder({"a": int}).decode(batch)
    assert decoder({"a": int}, allow_invalid=True).decode(batch).to_pylist() == [{"a": 1}, {"a": None}]


def test_a_stopped_decoder_begins_no_further_slice() -> None:
    decodes = decoder()
    decodes.stop()
    with pytest.raises(Stopped):
        decodes.decode(encoded({"a": 1}))
