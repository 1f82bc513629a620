from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st

from motorlite._operations.bulk import (
    BATCHES,
    DECORATION_ALLOWANCE,
    BulkBatch,
    BulkRun,
    DeleteBatch,
    InsertBatch,
    UpdateBatch,
    insert_run,
)
from motorlite._operations.slices import STATEMENT_ALLOWANCE, all_at_once
from motorlite._operations.statements import delete_statement, update_statement
from motorlite.errors import ConfigurationError, DocumentTooLarge
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, V5_0, V7_0, V8_0, sent, server

if TYPE_CHECKING:
    from collections.abc import Sequence

SET = {"$set": {"x": 1}}
UNACKNOWLEDGED = WriteConcern(0)


def insert(documents: Sequence[Any], start: int = 0, **options: Any) -> InsertBatch:
    return InsertBatch("db", "coll", insert_run(list(documents)), start, **options)


def updates(*statements: Any, start: int = 0, **options: Any) -> UpdateBatch:
    return UpdateBatch("db", "coll", BulkRun("update", list(statements), range(len(statements))), start, **options)


def deletes(*statements: Any, start: int = 0, **options: Any) -> DeleteBatch:
    return DeleteBatch("db", "coll", BulkRun("delete", list(statements), range(len(statements))), start, **options)


def payload(batch: BulkBatch, facts: Any = V7_0) -> list[dict[str, Any]]:
    (sequence,) = batch.command(facts).sequences
    return [bson.decode(document) for document in sequence.documents]


def document_of(size: int, identifier: int = 0) -> dict[str, Any]:
    """A document whose encoding has `size` bytes."""
    document = {"_id": identifier, "s": ""}
    document["s"] = "x" * (size - len(bson.encode(document)))
    assert len(bson.encode(document)) == size
    return document


def test_an_insert() -> None:
    documents = [{"_id": 1}, {"_id": 2}]
    batch = insert(documents, bypass_document_validation=False, let={"a": 1}, comment="c")
    # let is not for inserts (CRUD specification).
    assert sent(batch) == {
        "insert": "coll",
        "ordered": True,
        "comment": "c",
        "bypassDocumentValidation": False,
    }
    (sequence,) = batch.command(V7_0).sequences
    assert sequence.identifier == "documents"
    assert payload(batch) == documents
    assert batch.count == 2


def test_an_update() -> None:
    batch = updates(
        update_statement({}, SET),
        ordered=False,
        bypass_document_validation=True,
        let={"a": 1},
        write_concern=WriteConcern("majority"),
    )
    assert sent(batch) == {
        "update": "coll",
        "ordered": False,
        "let": {"a": 1},
        "bypassDocumentValidation": True,
        "writeConcern": {"w": "majority"},
    }
    assert batch.command(V7_0).sequences[0].identifier == "updates"
    assert payload(batch) == [{"q": {}, "u": SET}]
    assert batch.document_fields == {"upserted": {"_id": 1}}


def test_a_delete() -> None:
    batch = deletes(delete_statement({}), let={"a": 1}, bypass_document_validation=True)
    # The delete command has no bypassDocumentValidation.
    assert sent(batch) == {"delete": "coll", "ordered": True, "let": {"a": 1}}
    assert batch.command(V7_0).sequences[0].identifier == "deletes"
    assert payload(batch) == [{"q": {}, "limit": 1}]


ONE, MANY = update_statement({}, SET), update_statement({}, SET, multi=True)


@pytest.mark.parametrize(
    ("batch", "size", "before", "after"),
    [
        # Until the statements are chosen, the first one decides.
        (updates(ONE, ONE, MANY), 100, True, False),
        # updateMany is in the next batch.
        (updates(ONE, ONE, MANY), 2, True, True),
        (updates(ONE, ONE, MANY, start=2), 100, False, False),
        (updates(ONE, MANY, ONE, ONE, MANY, start=1), 1, False, False),
        (updates(ONE, MANY, ONE, ONE, MANY, start=2), 2, True, True),
        (deletes(delete_statement({}), delete_statement({}, multi=True)), 100, True, False),
        # Fields of documents are not taken for statements.
        (insert([{"_id": 1, "multi": True, "limit": 0, "hint": 1}]), 100, True, True),
        (insert([{"_id": 1}], write_concern=UNACKNOWLEDGED), 100, False, False),
    ],
)
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_batch_is_retryable_unless_one_of_its_own_statements_is_multi(
    batch: BulkBatch, size: int, before: bool, after: bool, is_prepared: bool
) -> None:
    batch = copy.deepcopy(batch)
    if is_prepared:
        all_at_once(batch.prepare())
    assert batch.is_retryable is before
    batch.command(server(max_write_batch_size=size))
    assert batch.is_retryable is after


def test_the_number_of_writes() -> None:
    documents = [{"_id": number} for number in range(5)]
    batch = insert(documents, 1)
    assert payload(batch, server(max_write_batch_size=3)) == documents[1:4]
    assert batch.count == 3
    batch = insert(documents, 2)
    assert payload(batch, server(max_write_batch_size=3)) == documents[2:5]
    assert payload(insert(documents, 4), server(max_write_batch_size=3)) == documents[4:]


def test_a_retry_sends_the_same_statements_whatever_the_next_server_takes() -> None:
    documents = [{"_id": number} for number in range(5)]
    batch = insert(documents)
    first = batch.command(server(max_write_batch_size=3))
    second = batch.command(server(max_write_batch_size=1))
    third = batch.command(server(max_write_batch_size=100))
    assert first.sequences[0].documents is second.sequences[0].documents is third.sequences[0].documents
    assert batch.count == 3


def test_the_size_of_a_document_without_acknowledgement() -> None:
    facts = server(max_bson_object_size=1000)
    assert payload(insert([document_of(1000)], write_concern=UNACKNOWLEDGED), facts) == [document_of(1000)]
    with pytest.raises(DocumentTooLarge) as caught:
        insert([document_of(1001)], write_concern=UNACKNOWLEDGED).command(facts)
    assert str(caught.value) == ("insert 0 of the bulk write has 1001 bytes; the server takes at most 1000")


@pytest.mark.parametrize("ordered", [True, False])
def test_what_precedes_a_document_that_is_too_large_is_sent(ordered: bool) -> None:
    facts = server(max_bson_object_size=1000)
    size = 1001 + STATEMENT_ALLOWANCE
    run = BulkRun("insert", [{"_id": 0}, {"_id": 1}, document_of(size, 2), {"_id": 3}], [10, 11, 14, 15])
    batch = InsertBatch("db", "coll", run, ordered=ordered)
    assert [document["_id"] for document in payload(batch, facts)] == [0, 1]
    with pytest.raises(DocumentTooLarge, match=f"insert 14 of the bulk write has {size} bytes"):
        InsertBatch("db", "coll", run, batch.count, ordered=ordered).command(facts)


@pytest.mark.parametrize("ordered", [True, False])
def test_the_server_reports_a_document_that_is_somewhat_too_large(ordered: bool) -> None:
    facts = server(max_bson_object_size=1000)
    found = [{"_id": 0}, document_of(1001, 1), document_of(1000 + STATEMENT_ALLOWANCE, 2), {"_id": 3}]
    assert payload(insert(found, ordered=ordered), facts) == found


def test_the_size_of_a_statement_may_exceed_that_of_a_document() -> None:
    facts = server(max_bson_object_size=1000)
    overhead = len(bson.encode(update_statement({}, {"$set": {"s": ""}})))
    largest = 1000 + STATEMENT_ALLOWANCE - overhead
    fits = update_statement({}, {"$set": {"s": "x" * largest}})
    assert payload(updates(fits), facts) == [fits]
    with pytest.raises(
        DocumentTooLarge, match="update 0 of the bulk write has 17384 bytes; the server takes at most 1000"
    ):
        updates(fits, write_concern=UNACKNOWLEDGED).command(facts)
    with pytest.raises(DocumentTooLarge, match=f"at most {1000 + STATEMENT_ALLOWANCE}"):
        updates(update_statement({}, {"$set": {"s": "x" * (largest + 1)}})).command(facts)
    with pytest.raises(DocumentTooLarge, match="delete 0 of the bulk write"):
        deletes(delete_statement({"s": "x" * (largest + 100)})).command(facts)


@pytest.mark.parametrize(
    ("ordered", "has_successor", "start", "is_acknowledged"),
    [
        (True, False, 1, False),
        (True, False, 0, True),
        (True, True, 1, True),
        (False, True, 0, False),
        (False, False, 1, False),
    ],
)
def test_an_ordered_bulk_write_waits_for_every_reply_but_the_last(
    ordered: bool, has_successor: bool, start: int, is_acknowledged: bool
) -> None:
    facts = server(max_write_batch_size=1)
    run = insert_run([{"_id": 0}, {"_id": 1}])
    batch = InsertBatch(
        "db", "coll", run, start, ordered=ordered, has_successor=has_successor, write_concern=UNACKNOWLEDGED
    )
    for _ in range(2):
        command = batch.command(facts)
        assert command.document.get("writeConcern") == (None if is_acknowledged else {"w": 0})
        assert (batch.is_acknowledged, batch.is_retryable) == (is_acknowledged, is_acknowledged)


def message_size(batch: BulkBatch, facts: Any, decoration: int = 0) -> int:
    """The size of the OP_MSG when the executor adds `decoration` bytes to the command."""
    command = batch.command(facts)
    (sequence,) = command.sequences
    body = len(bson.encode(command.document)) + decoration
    payload = 4 + len(sequence.identifier) + 1 + sum(map(len, sequence.documents))
    header, flags, kinds, checksum = 16, 4, 2, 4
    return header + flags + kinds + body + payload + checksum


@pytest.mark.parametrize(
    ("more_room", "options", "count"),
    [(0, {}, 3), (-1, {}, 2), (500, {}, 4), (0, {"comment": "x" * 490}, 1)],
    ids=["exact", "a byte less", "a document more", "a long comment"],
)
def test_the_size_of_a_message(more_room: int, options: dict[str, Any], count: int) -> None:
    documents = [document_of(500, number) for number in range(4)]
    exact = message_size(insert(documents[:3]), V7_0, DECORATION_ALLOWANCE)
    batch = insert(documents, **options)
    size = message_size(batch, server(max_message_size=exact + more_room), DECORATION_ALLOWANCE)
    assert batch.count == count
    assert size <= exact + more_room
    assert size == exact or more_room or options


def test_a_document_that_no_message_has_room_for() -> None:
    exact = message_size(insert([document_of(500)]), V7_0, DECORATION_ALLOWANCE)
    with pytest.raises(DocumentTooLarge, match="insert 0 of the bulk write has 501 bytes"):
        insert([document_of(501)]).command(server(max_message_size=exact))


def test_documents_are_encoded_with_the_options_of_the_user() -> None:
    options: CodecOptions[dict[str, Any]] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
    identifier = bson.Binary(b"0123456789abcdef", 4).as_uuid()
    (sequence,) = insert([{"_id": identifier}], codec_options=options).command(V7_0).sequences
    assert bson.decode(sequence.documents[0])["_id"] == bson.Binary(b"0123456789abcdef", 4)


def test_raw_documents() -> None:
    raw = RawBSONDocument(bson.encode({"_id": 1}))
    (sequence,) = insert([raw]).command(V7_0).sequences
    assert sequence.documents == [raw.raw]


def test_a_document_that_cannot_be_encoded_is_named() -> None:
    with pytest.raises(InvalidDocument) as caught:
        insert([{"_id": 1}, {"_id": object()}]).command(V7_0)
    assert caught.value.__notes__ == ["in insert 1 of the bulk write"]


def test_hint_of_a_delete_needs_4_4() -> None:
    batch = deletes(delete_statement({}), delete_statement({}, hint="h"))
    with pytest.raises(ConfigurationError, match=r"hint of a delete needs MongoDB 4\.4"):
        batch.command(V4_2)
    assert len(payload(batch, V4_4)) == 2


def test_options_that_only_a_server_that_answers_refuses_itself() -> None:
    statement = update_statement({}, SET, sort={"x": 1})
    updates(statement, let={"a": 1}, comment="c").command(V4_2)
    with pytest.raises(ConfigurationError, match=r"sort of an unacknowledged update needs MongoDB 8\.0"):
        updates(statement, write_concern=UNACKNOWLEDGED).command(V7_0)
    updates(statement, write_concern=UNACKNOWLEDGED).command(V8_0)
    with pytest.raises(ConfigurationError, match=r"let of an unacknowledged write needs MongoDB 5\.0"):
        updates(update_statement({}, SET), let={"a": 1}, write_concern=UNACKNOWLEDGED).command(V4_4)
    updates(update_statement({}, SET), let={"a": 1}, write_concern=UNACKNOWLEDGED).command(V5_0)
    with pytest.raises(ConfigurationError, match=r"comment of an unacknowledged write needs MongoDB 4\.4"):
        insert([{"_id": 1}], comment="c", write_concern=UNACKNOWLEDGED).command(V4_2)


def test_write_errors_stay_in_the_reply() -> None:
    batch = insert([{"_id": 1}])
    batch.command(V7_0)
    reply = {"n": 0, "writeErrors": [{"index": 0, "code": 11000}], "ok": 1}
    assert batch.parse(reply) is reply


@pytest.mark.parametrize(
    ("code", "labels"),
    [(64, None), (91, ["RetryableWriteError"]), (462, ["SystemOverloadedError", "RetryableError"]), (91, None)],
)
def test_a_write_concern_error_stays_in_the_reply(code: int, labels: list[str] | None) -> None:
    """The executor has retried what it permits."""
    reply: dict[str, Any] = {"n": 1, "writeConcernError": {"code": code, "errmsg": "down"}, "ok": 1}
    if labels:
        reply["errorLabels"] = labels
    assert insert([{"_id": 1}]).parse(reply) is reply


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(22, 400), min_size=1, max_size=40),
    max_writes=st.integers(1, 12),
    room=st.integers(0, 2000),
    kind=st.sampled_from(["insert", "update", "delete"]),
)
def test_every_statement_is_sent_once_in_order_within_the_limits(
    sizes: list[int], max_writes: int, room: int, kind: str
) -> None:
    documents = [document_of(size, number) for number, size in enumerate(sizes)]
    statements: list[dict[str, Any]] = documents
    if kind == "update":
        statements = [update_statement(document, SET) for document in documents]
    elif kind == "delete":
        statements = [delete_statement(document) for document in documents]
    run = BulkRun(kind, statements, [index * 3 for index in range(len(statements))])
    # Enough for the largest statement and the command around it.
    smallest = DECORATION_ALLOWANCE + 600
    facts = server(max_bson_object_size=400, max_write_batch_size=max_writes, max_message_size=smallest + room)
    sent_documents: list[dict[str, Any]] = []
    start = 0
    while start < len(statements):
        batch = BATCHES[kind]("db", "coll", run, start)
        encoded = payload(batch, facts)
        assert 1 <= len(encoded) == batch.count <= max_writes
        size = message_size(batch, facts, DECORATION_ALLOWANCE)
        assert size <= facts.max_message_size
        start += batch.count
        if start < len(statements) and batch.count < max_writes:
            # The batch ended because the next statement does not fit.
            assert size + len(bson.encode(statements[start])) > facts.max_message_size
        sent_documents += encoded
    assert sent_documents == statements


# --- encoding ahead ---


class Thing:
    """A value with a codec of its own."""


def counting_options(counts: list[int], wrong: int | None = None) -> CodecOptions[Any]:
    """Codec options that count how many things are encoded, and refuse one of them."""

    class Encoder(TypeEncoder):
        python_type = Thing

        def transform_python(self, value: Any) -> Any:
            counts.append(1)
            if wrong is not None and len(counts) > wrong:
                raise ValueError("not that one")
            return 1

    return CodecOptions(type_registry=TypeRegistry([Encoder()]))


def test_what_one_batch_does_not_take_is_encoded_for_the_next() -> None:
    counts: list[int] = []
    run = insert_run([{"_id": n, "x": Thing()} for n in range(10)])
    facts = server(max_write_batch_size=4)
    start, sent = 0, list[int]()
    while start < 10:
        batch = InsertBatch("db", "coll", run, start, codec_options=counting_options(counts))
        all_at_once(batch.prepare())
        (sequence,) = batch.command(facts).sequences
        sent += [bson.decode(document)["_id"] for document in sequence.documents]
        start += batch.count
    assert sent == list(range(10))
    assert len(counts) == 10
    assert run.encoded == []


def test_it_is_encoded_in_slices() -> None:
    batch = insert([{"_id": n} for n in range(1000)])
    assert sum(1 for _ in batch.prepare()) > 10
    batch = insert([{"_id": n, "x": b"x" * 100_000} for n in range(10)])
    assert sum(1 for _ in batch.prepare()) == 10


def test_a_statement_that_cannot_be_encoded_stops_only_the_batches_that_reach_it() -> None:
    counts: list[int] = []
    options = counting_options(counts, wrong=5)
    run = insert_run([{"_id": n, "x": Thing()} for n in range(10)])
    first = InsertBatch("db", "coll", run, 0, codec_options=options)
    all_at_once(first.prepare())
    first.command(server(max_write_batch_size=4))
    assert first.count == 4
    second = InsertBatch("db", "coll", run, 4, codec_options=options)
    all_at_once(second.prepare())
    with pytest.raises(ValueError, match="not that one") as caught:
        second.command(server(max_write_batch_size=4))
    assert caught.value.__notes__ == ["in insert 5 of the bulk write"]
    third = InsertBatch("db", "coll", run, 5, codec_options=options)
    with pytest.raises(ValueError, match="not that one"):
        all_at_once(third.prepare())


def test_a_batch_has_8_mib_at_most() -> None:
    megabyte = b"x" * 2**20
    batch = insert([{"_id": n, "x": megabyte} for n in range(20)])
    batch.command(server())
    assert batch.count == 7
    # One document may have as much by itself.
    largest = insert([{"_id": 1, "x": b"x" * (16 * 2**20 - 32)}, {"_id": 2}])
    largest.command(server())
    assert largest.count >= 1
