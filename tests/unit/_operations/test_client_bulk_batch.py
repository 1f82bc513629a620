from __future__ import annotations

from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._operations.client_bulk import MESSAGE_OVERHEAD, ClientBulkBatch, Statement, statement_of
from motorlite._operations.slices import STATEMENT_ALLOWANCE, all_at_once
from motorlite.errors import DocumentTooLarge, InvalidOperation, ProtocolError
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateOne
from motorlite.write_concern import WriteConcern
from tests.support.servers import V7_0, V8_0, sent, server

REPLY = {"ok": 1, "cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}}


def insert(identifier: int, size: int = 0, namespace: str = "d.c") -> Statement:
    return statement_of(InsertOne({"_id": identifier, "s": "x" * size}, namespace))


UPDATE = statement_of(UpdateOne({}, {"$set": {"x": 1}}, namespace="d.c"))
DELETE = statement_of(DeleteOne({}, namespace="d.c"))
DELETE_MANY = statement_of(DeleteMany({}, namespace="d.c"))


def payload(batch: ClientBulkBatch, facts: Any = V8_0) -> tuple[list[dict[str, Any]], list[str]]:
    operations, namespaces = batch.command(facts).sequences
    assert (operations.identifier, namespaces.identifier) == ("ops", "nsInfo")
    decoded = [bson.decode(each)["ns"] for each in namespaces.documents]
    return [bson.decode(each) for each in operations.documents], decoded


def test_the_command() -> None:
    batch = ClientBulkBatch([insert(1)])
    assert sent(batch, V8_0) == {"bulkWrite": 1, "errorsOnly": True, "ordered": True}
    assert batch.database == "admin"
    options: dict[str, Any] = {"bypass_document_validation": False, "let": {"a": 1}, "comment": "c"}
    batch = ClientBulkBatch([insert(1)], ordered=False, verbose=True, write_concern=WriteConcern(2), **options)
    assert sent(batch, V8_0) == {
        "bulkWrite": 1,
        "errorsOnly": False,
        "ordered": False,
        "bypassDocumentValidation": False,
        "comment": "c",
        "let": {"a": 1},
        "writeConcern": {"w": 2},
    }


def test_older_servers() -> None:
    with pytest.raises(InvalidOperation, match=r"needs MongoDB 8\.0, but db1\.test:27017 is MongoDB 7\.0"):
        ClientBulkBatch([insert(1)]).command(V7_0)


def test_namespaces_have_positions() -> None:
    batch = ClientBulkBatch([insert(1), insert(2, namespace="d.e"), insert(3), DELETE])
    operations, namespaces = payload(batch)
    assert namespaces == ["d.c", "d.e"]
    assert [next(iter(operation.items())) for operation in operations] == [
        ("insert", 0),
        ("insert", 1),
        ("insert", 0),
        ("delete", 0),
    ]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["d.c", "d.e", "a." + "x" * 50])), min_size=1),
    most=st.integers(1, 12),
    room=st.integers(500, 2000),
    is_prepared=st.booleans(),
)
def test_batches_are_as_large_as_the_server_permits(
    sizes: list[tuple[int, str]], most: int, room: int, is_prepared: bool
) -> None:
    statements = [insert(number, size, namespace) for number, (size, namespace) in enumerate(sizes)]
    body = len(bson.encode({"bulkWrite": 1, "errorsOnly": True, "ordered": True}))
    facts = server(25, max_write_batch_size=most, max_message_size=room + MESSAGE_OVERHEAD + body)
    seen: list[Any] = []
    fits_another = False
    while len(seen) < len(statements):
        batch = ClientBulkBatch(statements, len(seen))
        if is_prepared:
            all_at_once(batch.prepare())
        operations, namespaces = payload(batch, facts)
        assert len(operations) == batch.count <= most
        used = sum(len(bson.encode(each)) for each in operations)
        used += sum(len(bson.encode({"ns": each})) for each in namespaces)
        assert used <= room
        assert not (seen and fits_another), "the batch before has room for an operation"
        # Each namespace is there once, in the order of its first use.
        assert namespaces == list(dict.fromkeys(namespaces[each["insert"]] for each in operations))
        found = [(each["document"]["_id"], namespaces[each["insert"]]) for each in operations]
        seen += found
        if len(seen) < len(statements):
            following = statements[len(seen)]
            cost = len(bson.encode({"insert": 0, **following.fields}))
            cost += 0 if following.namespace in namespaces else len(bson.encode({"ns": following.namespace}))
            fits_another = batch.count < most and used + cost <= room
    assert seen == [(number, namespace) for number, (_, namespace) in enumerate(sizes)]


def test_a_retry_sends_the_same() -> None:
    batch = ClientBulkBatch([insert(1), insert(2), insert(3)])
    first = payload(batch, server(25, max_write_batch_size=2))
    assert batch.count == 2
    assert payload(batch, server(25, max_write_batch_size=1)) == first
    assert batch.count == 2


def test_what_fits_nowhere() -> None:
    small = server(25, max_message_size=2000)
    batch = ClientBulkBatch([insert(0), insert(1, 1000)], 1)
    with pytest.raises(DocumentTooLarge, match=r"insert 1 of the bulk write has 10.. bytes with its namespace"):
        batch.command(small)


def test_encoding_takes_turns() -> None:
    batch = ClientBulkBatch([insert(number, 1000) for number in range(200)])
    turns = sum(1 for _ in batch.prepare())
    assert turns == 200 * (1000 + 1024) // (64 * 1024)
    assert len(payload(batch)[0]) == 200


def test_an_operation_that_cannot_be_encoded_begins_the_next_batch() -> None:
    bad = statement_of(InsertOne({"_id": 1, "x": object()}, "d.c"))
    batch = ClientBulkBatch([insert(0), bad])
    batch.command(V8_0)
    assert batch.count == 1
    with pytest.raises(bson.errors.InvalidDocument) as caught:
        ClientBulkBatch([insert(0), bad], 1).command(V8_0)
    assert caught.value.__notes__ == ["in insert 1 of the bulk write"]


@pytest.mark.parametrize(
    ("statements", "limit", "before", "after"),
    [
        ([DELETE, DELETE], 10, True, True),
        ([DELETE, DELETE_MANY], 10, True, False),
        ([DELETE, DELETE_MANY], 1, True, True),
        ([DELETE_MANY, DELETE], 10, False, False),
    ],
)
def test_retryable(statements: list[Statement], limit: int, before: bool, after: bool) -> None:
    batch = ClientBulkBatch(statements)
    assert batch.is_retryable is before
    batch.command(server(25, max_write_batch_size=limit))
    assert batch.is_retryable is after


def test_unacknowledged() -> None:
    batch = ClientBulkBatch([DELETE], ordered=False, write_concern=WriteConcern(0))
    batch.command(V8_0)
    assert (batch.is_acknowledged, batch.is_retryable, batch.creates_cursor) == (False, False, False)
    assert batch.unacknowledged().documents == []


def test_size_hint() -> None:
    batch = ClientBulkBatch([insert(0, 10_000), insert(1, 5000)])
    assert 15_000 < batch.size_hint() < 16_000
    all_at_once(batch.prepare())
    assert 15_000 < batch.size_hint() < 16_000


@pytest.mark.parametrize("name", ["nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"])
def test_malformed_counts(name: str) -> None:
    batch = ClientBulkBatch([UPDATE])
    assert batch.parse(REPLY).cursor_id == 0
    with pytest.raises(ProtocolError, match=name):
        batch.parse({**REPLY, name: "many"})


SMALL = server(25, max_bson_object_size=1000)
LARGE: dict[str, Any] = {"_id": 1, "s": "x" * 978}
TOO_LARGE: dict[str, Any] = {"_id": 1, "s": "x" * 979}


@pytest.mark.parametrize(
    ("fits", "fails"),
    [
        (InsertOne(LARGE, "d.c"), InsertOne(TOO_LARGE, "d.c")),
        (ReplaceOne({}, LARGE, namespace="d.c"), ReplaceOne({}, TOO_LARGE, namespace="d.c")),
        (
            UpdateOne({}, {"$set": TOO_LARGE}, namespace="d.c"),
            UpdateOne({}, {"$set": {"s": "x" * (1000 + STATEMENT_ALLOWANCE)}}, namespace="d.c"),
        ),
        (DeleteOne(TOO_LARGE, namespace="d.c"), DeleteOne({"s": "x" * (1000 + STATEMENT_ALLOWANCE)}, namespace="d.c")),
    ],
)
def test_without_acknowledgement_nothing_is_sent_that_is_too_large(fits: Any, fails: Any) -> None:
    """The server has no way to report it."""
    assert len(bson.encode(LARGE)) == 1000
    statements = [statement_of(fits), DELETE, statement_of(fails)]
    assert len(payload(ClientBulkBatch(statements), SMALL)[0]) == 3
    batch = ClientBulkBatch(statements, ordered=False, write_concern=WriteConcern(0))
    assert len(payload(batch, SMALL)[0]) == batch.count == 2
    with pytest.raises(DocumentTooLarge, match=r"(insert|update|delete) 2 of the bulk write has \d+ bytes; the server"):
        ClientBulkBatch(statements, 2, ordered=False, write_concern=WriteConcern(0)).command(SMALL)
