"""Batches become tables, slice by slice."""

from __future__ import annotations

from typing import Any

import bson
import pyarrow as pa
import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite.arrow import Schema
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
