"""A reply decoded in slices is the same as one decoded whole, whatever it holds, and fails with the same error."""

from __future__ import annotations

import datetime
import gc
from collections import OrderedDict
from struct import pack, pack_into, unpack_from
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import bson
import pytest
from bson.binary import Binary
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeDecoder, TypeRegistry
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.errors import InvalidBSON
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.son import SON
from bson.timestamp import Timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from motorlite._base.values import DocumentView, RawBatch
from motorlite._wire import slices
from motorlite._wire.documents import decode_reply
from motorlite._wire.slices import decode_in_slices, decode_unread
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST = {"cursor": {"firstBatch": 1}}
SMALL = 48
"""Bytes of a slice in these tests."""


class IntDecoder(TypeDecoder):
    bson_type = int

    def transform_bson(self, value: Any) -> Any:
        return ("int", value)


class TextDecoder(TypeDecoder):
    """Counts its calls, and refuses the text "bad"."""

    bson_type = str

    def __init__(self) -> None:
        self.calls = 0

    def transform_bson(self, value: Any) -> Any:
        self.calls += 1
        if value == "bad":
            raise LookupError(value)
        return value


class ListDecoder(TypeDecoder):
    bson_type = list

    def transform_bson(self, value: Any) -> Any:
        return [len(value), *value]


def body(documents: list[Any], **more: Any) -> bytes:
    around = {"partialResultsReturned": False, "id": Int64(7), "ns": "a.b", "postBatchResumeToken": {"_data": "x"}}
    reply = {"cursor": {"firstBatch": documents, **around}, "ok": 1.0, "operationTime": Timestamp(1, 2), **more}
    return bson.encode(reply)


def in_slices(
    data: bytes,
    options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    size: int = SMALL,
    fields: Mapping[str, Any] | None = FIRST,
) -> tuple[Any, int]:
    """The decoded reply, and the number of slices: 0 if it was decoded whole from the start."""
    with patch.object(slices, "SLICE", size):
        steps = decode_in_slices(memoryview(bytearray(data)), options, fields)
        count = 0
        try:
            while True:
                next(steps)
                count += 1
        except StopIteration as end:
            return end.value, count


def outcome(function: Any, *args: Any) -> tuple[Any, ...]:
    """What a function returns or raises, in a form that can be compared: NaN equals itself."""
    try:
        return ("returned", repr(function(*args)))
    except Exception as error:
        return type(error), str(error), type(error.__cause__)


def same(data: bytes, options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS, size: int = SMALL) -> None:
    whole = outcome(decode_reply, memoryview(data), options, FIRST)
    assert outcome(lambda: in_slices(data, options, size)[0]) == whole


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=12),
    st.binary(max_size=12),
    st.builds(ObjectId, st.binary(min_size=12, max_size=12)),
    st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)),
    st.just(Regex("a", "i")),
    st.just(DBRef("c", 1)),
)
KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=3)
BATCHES = st.lists(DOCUMENTS, max_size=14)
OPTIONS = st.sampled_from(
    [
        DEFAULT_CODEC_OPTIONS,
        CodecOptions(tz_aware=True),
        CodecOptions(document_class=OrderedDict),
        CodecOptions(document_class=SON, unicode_decode_error_handler="replace"),
        CodecOptions(document_class=RawBSONDocument),
        CodecOptions(document_class=RawBatch),
        CodecOptions(document_class=RawBatch, type_registry=TypeRegistry([ListDecoder()])),
        CodecOptions(type_registry=TypeRegistry([IntDecoder()])),
        CodecOptions(document_class=RawBSONDocument, type_registry=TypeRegistry([IntDecoder()])),
        CodecOptions(type_registry=TypeRegistry([ListDecoder()])),
    ]
)


@pytest.mark.slow
@settings(max_examples=60)
@given(BATCHES, OPTIONS, st.integers(1, 400))
def test_every_reply_decodes_to_the_same_as_whole(documents: list[Any], options: CodecOptions[Any], size: int) -> None:
    same(body(documents), options, size)


@pytest.mark.slow
@settings(max_examples=100)
@given(BATCHES, OPTIONS, st.integers(1, 300), st.data())
def test_every_corrupt_reply_has_the_outcome_that_it_has_whole(
    documents: list[Any], options: CodecOptions[Any], size: int, data: st.DataObject
) -> None:
    reply = bytearray(body(documents))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(reply) - 1))
        match data.draw(st.sampled_from(["change", "cut", "add", "length"])):
            case "change":
                reply[place] = data.draw(st.integers(0, 255))
            case "cut" if len(reply) > 10:
                del reply[place : place + data.draw(st.integers(1, 10))]
            case "add":
                reply[place:place] = data.draw(st.binary(min_size=1, max_size=10))
            case _ if place + 4 <= len(reply):
                pack_into("<i", reply, place, data.draw(st.integers(-(2**31), 2**31 - 1)))
    same(bytes(reply), options, size)


@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 600))
def test_arrays_of_documents_are_not_mistaken_for_the_batch(lengths: list[int], size: int) -> None:
    same(body([{"items": [{"a": "text"}] * length} for length in lengths]), DEFAULT_CODEC_OPTIONS, size)


def test_a_batch_is_decoded_in_slices() -> None:
    documents = [{"_id": number, "text": "x" * 20} for number in range(1200)]
    reply, count = in_slices(body(documents), size=1000)
    assert reply["cursor"]["firstBatch"] == documents
    assert list(reply) == ["cursor", "ok", "operationTime"]
    assert next(iter(reply["cursor"])) == "firstBatch"
    assert len(body(documents)) / 1200 < count < len(body(documents)) / 900


def test_a_reply_in_progress_says_which_cursor_it_opened() -> None:
    with patch.object(slices, "SLICE", SMALL):
        steps = decode_in_slices(
            memoryview(body([{"_id": number} for number in range(20)])), DEFAULT_CODEC_OPTIONS, FIRST
        )
        reply = next(steps)
        assert (reply["cursor"]["id"], reply["cursor"]["ns"], reply["cursor"]["firstBatch"]) == (7, "a.b", [])
        next(steps)
        assert 0 < len(reply["cursor"]["firstBatch"]) < 20


@pytest.mark.parametrize(
    "fields", [None, {}, {"value": 1}, {"cursor": {"nextBatch": 1}}], ids=["none", "all", "other", "no such batch"]
)
def test_a_reply_without_a_batch_is_decoded_whole(fields: Mapping[str, Any] | None) -> None:
    data = body([{"_id": number} for number in range(20)])
    assert in_slices(data, fields=fields) == (bson.decode(data), 0)


def test_a_decoder_of_arrays_sees_no_slice() -> None:
    options = CodecOptions[Any](type_registry=TypeRegistry([ListDecoder()]))
    documents = [{"_id": number} for number in range(20)]
    reply, count = in_slices(body(documents), options)
    assert count == 0
    assert reply["cursor"]["firstBatch"] == documents


def test_a_registry_that_does_not_show_its_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in pymongo 4.9: without codecs nothing changes, and with any the reply is decoded whole."""
    monkeypatch.delattr(TypeRegistry, "codecs", raising=False)
    documents = [{"text": "x" * 20} for _ in range(20)]
    reply, count = in_slices(body(documents))
    assert (reply["cursor"]["firstBatch"], count > 0) == (documents, True)
    decoder = TextDecoder()
    reply, count = in_slices(body(documents), CodecOptions[Any](type_registry=TypeRegistry([decoder])))
    assert (reply["cursor"]["firstBatch"], count, decoder.calls) == (documents, 0, 20)


def test_a_decoder_sees_each_value_once() -> None:
    # The arrays look like the batch, so that guessed boundaries would be wrong.
    documents = [{"items": [{"a": "text"}] * 60} for _ in range(20)]
    decoder = TextDecoder()
    options = CodecOptions[Any](type_registry=TypeRegistry([decoder]))
    reply, count = in_slices(body(documents), options)
    assert reply["cursor"]["firstBatch"] == documents
    assert count == (20 if hasattr(TypeRegistry, "codecs") else 0)
    assert decoder.calls == 60 * 20


def test_wrong_guesses_end_after_the_first() -> None:
    documents = [{"n": number, "items": [{"a": "text"}] * 60} for number in range(20)]
    with patch.object(slices, "_likely_boundary", side_effect=slices._likely_boundary) as guess:
        reply, _ = in_slices(body(documents), size=4000)
    assert reply["cursor"]["firstBatch"] == documents
    assert guess.call_count == 1


@pytest.mark.parametrize(
    "rejected", [{"at": 2**62}, {"text": "bad"}, {"text": b"\xff"}], ids=["date", "decoder", "text"]
)
@pytest.mark.parametrize("place", [0, 7, 19])
def test_a_rejected_value_raises_the_same_error(rejected: dict[str, Any], place: int) -> None:
    documents: list[Any] = [{"_id": number, "text": "good"} for number in range(20)]
    documents[place] = rejected
    data = body(documents)
    if "at" in rejected:
        data = data.replace(b"\x12at\0" + pack("<q", 2**62), b"\x09at\0" + pack("<q", 2**62))
    elif rejected["text"] == b"\xff":
        data = data.replace(b"\x05text\0\x01\0\0\0\0\xff", b"\x02text\0\x02\0\0\0\xff\0")
    options = CodecOptions[Any](type_registry=TypeRegistry([TextDecoder()]))
    same(data, options)
    with pytest.raises(InvalidBSON):
        in_slices(data, options)


# --- lying servers ---

BATCH = [{"_id": number, "text": "some text"} for number in range(30)]


def renamed(documents: list[Any], names: list[bytes]) -> bytes:
    """A reply with a batch whose elements have these keys."""
    data = body([])
    elements = b"".join(b"\x03" + name + b"\0" + bson.encode(item) for name, item in zip(names, documents, strict=True))
    array = pack("<i", len(elements) + 5) + elements + b"\0"
    start = data.index(b"\x04firstBatch\0") + len(b"\x04firstBatch\0")
    made = bytearray(data[:start] + array + data[start + 5 :])
    pack_into("<i", made, 0, len(made))
    cursor = data.index(b"\x03cursor\0") + len(b"\x03cursor\0")
    pack_into("<i", made, cursor, unpack_from("<i", data, cursor)[0] + len(array) - 5)
    return bytes(made)


@pytest.mark.parametrize(
    "names",
    [
        [b""] * 30,
        [b"0"] * 30,
        [b"%d" % (number + 5) for number in range(30)],
        [b"%d" % (29 - number) for number in range(30)],
        [b"%03d" % number for number in range(30)],
        [b"x" * 100] * 30,
    ],
    ids=["empty", "equal", "from five", "backwards", "zeros", "long"],
)
def test_the_keys_of_the_batch_do_not_matter(names: list[bytes]) -> None:
    data = renamed(BATCH, names)
    assert in_slices(data)[0]["cursor"]["firstBatch"] == BATCH
    same(data)


@pytest.mark.parametrize(
    "value", [1, "text", [{"_id": 1}], None, {"0": {}}], ids=["int", "text", "array", "null", "document"]
)
@pytest.mark.parametrize("place", [0, 15, 29])
def test_an_element_that_is_no_document_is_decoded_too(value: Any, place: int) -> None:
    data = body([*BATCH[:place], value, *BATCH[place:]])
    assert in_slices(data)[0] == bson.decode(data)


@pytest.mark.parametrize("batch", [{}, {"0": {"a": 1}}, "text", 5, None])
def test_a_batch_that_is_no_array_is_decoded_whole(batch: Any) -> None:
    data = body(batch)
    assert in_slices(data) == (bson.decode(data), 0)


@pytest.mark.parametrize("twice", ["cursor", "firstBatch"])
def test_with_two_fields_of_one_name_the_last_one_counts(twice: str) -> None:
    data = bson.encode(
        SON(cursor=SON(firstBatch=BATCH, firstBatcH=[{"_id": 0}], id=0), cursoR={"firstBatch": [], "id": 5})
    )
    data = data.replace(b"firstBatcH", b"firstBatch") if twice == "firstBatch" else data.replace(b"cursoR", b"cursor")
    assert in_slices(data) == (bson.decode(data), 0)
    assert len(bson.decode(data)["cursor"]["firstBatch"]) < 2


LENGTHS = (-(2**31), -1, 0, 1, 4, 5, 2**31 - 1)


@pytest.mark.parametrize("name", [b"\x03cursor\0", b"\x04firstBatch\0", b"\x030\0", b"\x0315\0", b"\x0329\0", None])
@pytest.mark.parametrize("change", [*(("to", length) for length in LENGTHS), ("by", 1), ("by", -1), ("by", 40)])
def test_wrong_lengths_are_a_protocol_error(name: bytes | None, change: tuple[str, int]) -> None:
    data = bytearray(body(BATCH))
    place = 0 if name is None else data.index(name) + len(name)
    how, length = change
    pack_into("<i", data, place, length if how == "to" else unpack_from("<i", data, place)[0] + length)
    same(bytes(data))
    with pytest.raises(ProtocolError):
        in_slices(bytes(data))


@given(st.integers(0, len(body(BATCH)) - 1))
@example(0)
@example(12)  # in the cursor's length
def test_a_reply_that_is_cut_off_is_a_protocol_error(length: int) -> None:
    with pytest.raises(ProtocolError):
        in_slices(body(BATCH)[:length])


@pytest.mark.parametrize("size", [SMALL, 10**6], ids=["in slices", "in one"])
def test_a_raw_batch_is_cut_and_not_decoded(size: int) -> None:
    found, count = in_slices(body(BATCH), CodecOptions(document_class=RawBatch), size)
    documents = found["cursor"]["firstBatch"]
    assert documents == [bson.encode(document) for document in BATCH]
    assert not any(map(gc.is_tracked, documents))
    assert (count > 1) == (size == SMALL)
    assert found | {"cursor": None} == bson.decode(body([])) | {"cursor": None}


@pytest.mark.parametrize(
    "change", [(b"\x0315\0", b"\x0316\0"), (b"\x0315\0", b"\x04%d\0" % 15)], ids=["another key", "another type"]
)
def test_a_raw_batch_with_other_elements_is_decoded_whole(change: tuple[bytes, bytes]) -> None:
    same(body(BATCH).replace(*change), CodecOptions(document_class=RawBatch))


def test_a_flood_of_elements_is_left_to_bson() -> None:
    flood = b"\x0aa\0" * 100_000
    data = pack("<i", len(flood) + 5) + flood + b"\0"
    with patch.object(slices, "_SIZE", wraps=slices._SIZE):
        assert in_slices(data) == ({"a": None}, 0)


def test_elements_without_length_end_no_slice() -> None:
    # Zeros where lengths should be: each step goes on by a few bytes, and the slice fails.
    data = bytearray(body(BATCH))
    for number in range(30):
        place = data.index(b"\x03%d\0" % number) + 2 + len(str(number))
        data[place : place + 4] = bytes(4)
    same(bytes(data))


# --- replies that no caller receives ---


def test_a_large_reply_that_no_caller_receives_is_read_without_its_batch() -> None:
    documents = [{"text": "x" * 1000} for _ in range(1000)]
    for batch in ("firstBatch", "nextBatch"):
        data = bson.encode({"cursor": {batch: documents, "id": 5, "ns": "a.b"}, "ok": 1, "$clusterTime": {"a": 1}})
        assert decode_unread(memoryview(data)) == {
            "cursor": {batch: [], "id": 5, "ns": "a.b"},
            "ok": 1,
            "$clusterTime": {"a": 1},
        }


@pytest.mark.parametrize("data", [body(BATCH), bson.encode({"values": ["x" * 1000] * 1000})], ids=["small", "no batch"])
def test_other_replies_that_no_caller_receives_are_read_whole(data: bytes) -> None:
    assert decode_unread(memoryview(data)) == bson.decode(data)
    with pytest.raises(ProtocolError):
        decode_unread(memoryview(data[:-1] + b"\1"))


def test_a_reply_whose_length_is_wrong_is_refused_though_no_caller_receives_it() -> None:
    data = bytearray(bson.encode({"cursor": {"firstBatch": [{"text": "x" * 1000}] * 1000, "id": 5, "ns": "a.b"}}))
    pack_into("<i", data, 0, 1000)
    with pytest.raises(ProtocolError):
        decode_unread(memoryview(data))


def test_large_documents_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [{"_id": number, "text": "x" * SMALL} for number in range(12)]
    data = body(documents)
    monkeypatch.setattr(slices, "_decode_elements", lambda *_: pytest.fail("a copy was made"))
    assert in_slices(data)[0] == bson.decode(data)


@pytest.mark.parametrize("before", [{}, {"note": 1}])
def test_a_large_document_that_looks_like_a_reference_is_one(before: dict[str, Any]) -> None:
    data = body([{**before, "$ref": "c", "$id": number, "text": "x" * SMALL} for number in range(3)])
    same(data)
    assert in_slices(data)[0]["cursor"]["firstBatch"][0] == DBRef("c", 0, **before, text="x" * SMALL)


def test_half_a_reference_is_none() -> None:
    data = body([{"_id": number, "$ref": "c", "text": "x" * SMALL} for number in range(3)])
    same(data)


@pytest.mark.parametrize(
    ("document", "slices_"),
    [
        ({"_id": 1, "n": 2, "data": b"x" * 100_000}, 1),
        ({"_id": 1, "text": "x" * 100_000}, 1),
        ({"_id": 1, "lines": ["x" * 100] * 1000}, 10),
        ({str(number): "x" * 100 for number in range(1000)}, 10),
        ({"x" * 100: "x" * 100_000}, 10),
        ({**dict.fromkeys("abcdefgh", 1), "text": "x" * 100_000}, 10),
    ],
    ids=["binary", "string", "array", "fields", "long key", "late"],
)
def test_documents_that_are_copied_share_a_slice(document: dict[str, Any], slices_: int) -> None:
    data = body([document] * 10)
    assert in_slices(data, size=100_000) == (bson.decode(data), slices_)


# --- views ---


VIEWS = CodecOptions(document_class=DocumentView)
# What a batch of views may hold, and the fields that are views then.
VIEWED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a chunk": ({"_id": ObjectId(), "files_id": "f", "n": 1, "data": b"x" * 100}, ["data"]),
    "in front": ({"data": b"x" * 100, "n": 1, "more": {"a": [1]}}, ["data"]),
    "another subtype": ({"_id": 1, "data": Binary(b"x" * 100, 5)}, []),
    "text": ({"_id": 1, "data": "x" * 100}, []),
    "too far behind": ({**dict.fromkeys("abcdefgh", 1), "data": b"x" * 100}, []),
    "behind a document": ({"_id": {"a": 1}, "data": b"x" * 100}, ["data"]),
    "behind a value of an odd type": ({"_id": Decimal128("1"), "data": b"x" * 100}, []),
    "small": ({"_id": 1, "data": b"x"}, []),
}


@pytest.mark.parametrize("before", [{}, {"note": 1}])
def test_a_large_reference_is_no_view(before: dict[str, Any]) -> None:
    data = body([{**before, "$ref": "c", "$id": 1, "data": b"x" * 100}] * 4)
    assert in_slices(data, VIEWS)[0] == bson.decode(data)


@pytest.mark.parametrize("case", VIEWED)
def test_large_binary_data_is_not_copied(case: str) -> None:
    document, names = VIEWED[case]
    data = body([document] * 4)
    found = in_slices(data, VIEWS)[0]["cursor"]["firstBatch"]
    expected = bson.decode(data)["cursor"]["firstBatch"]
    for view, whole in zip(found, expected, strict=True):
        fields = view.fields if isinstance(view, DocumentView) else view
        assert fields == whole
        assert list(fields) == list(whole)
        assert [name for name, value in fields.items() if isinstance(value, memoryview)] == names
        # What listeners read and encode does not depend on the reply's buffer.
        assert not names or (type(view.raw) is bytes and view.raw == bson.encode(whole))
        assert not names or type(view[names[0]]) is bytes


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_a_corrupt_reply_with_views_has_the_outcome_that_it_has_whole(data: st.DataObject) -> None:
    reply = bytearray(
        body([{"_id": number, "files_id": "f", "n": number, "data": b"x" * SMALL} for number in range(5)])
    )
    for _ in range(data.draw(st.integers(1, 3))):
        reply[data.draw(st.integers(0, len(reply) - 1))] = data.draw(st.integers(0, 255))

    def plain() -> Any:
        found = in_slices(bytes(reply), VIEWS)[0]
        cursor = found.get("cursor")
        batch = cursor.get("firstBatch") if isinstance(cursor, dict) else None
        if isinstance(batch, list) and any(isinstance(one, DocumentView) for one in batch):
            cursor["firstBatch"] = [_copied(one) for one in batch]
        return found

    assert outcome(plain) == outcome(decode_reply, memoryview(bytes(reply)), VIEWS, FIRST)


def _copied(document: Any) -> Any:
    if not isinstance(document, DocumentView):
        return document
    return {name: bytes(one) if isinstance(one, memoryview) else one for name, one in document.fields.items()}
