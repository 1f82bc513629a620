"""What a wait queue wants to know of operations: how large they are, and whether a fallback can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
import pytest

from motorlite._base.values import ServerFacts
from motorlite._operations.bulk import InsertBatch, insert_run
from motorlite._operations.commands import RunCommand
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import ExhaustFind, Find, FindFirst, FindOne
from motorlite._operations.reads import Aggregate, AggregateWrite, Count, CountDocuments, Distinct
from motorlite._operations.single_writes import Insert, Update
from motorlite._operations.slices import all_at_once
from motorlite._operations.statements import update_statement
from motorlite.read_preferences import ReadPreference
from tests.unit._operations.facts_table import TABLE

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

FACTS = ServerFacts(("db.example", 27017), max_wire_version=21, session_timeout_minutes=30)
DOCUMENT = {"_id": 1, "text": "x" * 5000, "numbers": list(range(100))}


def test_a_fallback_answers_what_reads_documents() -> None:
    found = {type(row.operation) for row in TABLE if row.operation.is_degradable}
    assert found == {Aggregate, Count, CountDocuments, Distinct, ExhaustFind, Find, FindFirst, FindOne}
    assert not AggregateWrite.is_degradable


@pytest.mark.parametrize(
    "operation",
    [
        Insert("db", "coll", DOCUMENT),
        Find("db", "coll", DOCUMENT),
        Aggregate("db", "coll", [{"$match": DOCUMENT}]),
        Update("db", "coll", update_statement({}, {"$set": DOCUMENT})),
        RunCommand("db", {"command": 1, "document": DOCUMENT}),
    ],
)
def test_the_hint_is_about_the_size_of_the_command(operation: Operation[Any]) -> None:
    real = len(bson.encode(operation.command(FACTS).document))
    assert 0.8 * real < operation.size_hint() < 1.2 * real


def test_the_hint_of_a_batch_is_that_of_its_documents() -> None:
    documents = [{"_id": number, "text": "x" * 1000} for number in range(100)]
    real = sum(len(bson.encode(document)) for document in documents)
    batch = InsertBatch("db", "coll", insert_run(documents))
    assert batch.size_hint() == pytest.approx(real, rel=0.05)
    all_at_once(batch.prepare())
    assert batch.size_hint() == real
    batch.command(FACTS)
    assert batch.size_hint() == real


def test_the_hint_of_a_batch_ends_at_the_largest_one() -> None:
    document = {"text": "x" * 1_000_000}
    batch = InsertBatch("db", "coll", insert_run([dict(document) for _ in range(30)]))
    assert 8 * 2**20 < batch.size_hint() < 10 * 2**20


def test_commands_of_fixed_size_count_nothing() -> None:
    assert GetMore("db", "coll", 7, address=("a", 1)).size_hint() == 0


def test_the_same_read_for_other_servers() -> None:
    operation = Find("db", "coll", {"x": 1}, selector=ReadPreference.PRIMARY)
    other = operation.reading_from(ReadPreference.SECONDARY)
    assert (other.selector, other.read_preference) == (ReadPreference.SECONDARY, ReadPreference.SECONDARY)
    assert (operation.selector, operation.read_preference) == (ReadPreference.PRIMARY, None)
    assert other.command(FACTS).document == operation.command(FACTS).document
