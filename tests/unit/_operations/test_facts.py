"""What operations declare about themselves, in one table; an operation that it lacks fails the test."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

import motorlite._operations
from motorlite._operations.aggregate import Aggregate, AggregateWrite, CountDocuments
from motorlite._operations.bulk_batch import DeleteBatch, InsertBatch, UpdateBatch
from motorlite._operations.bulk_runs import BulkRun, insert_run
from motorlite._operations.change_stream import Watch, WatchMore
from motorlite._operations.client_bulk import ClientBulkBatch, Statement
from motorlite._operations.collections import (
    Create,
    Drop,
    DropDatabase,
    FindCollection,
    ListCollections,
    ListDatabases,
    Rename,
    Validate,
)
from motorlite._operations.commands import BuildInfo, RunCommand, RunCursorCommand
from motorlite._operations.common import AdministrativeWrite
from motorlite._operations.contract import Kind, Operation, TimeLimit, TransactionEnd
from motorlite._operations.counts import Count, Distinct, Explain
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.find import ExhaustFind, Find, FindFirstFacts, FindOne
from motorlite._operations.find_and_modify import FindAndModify
from motorlite._operations.indexes import (
    CreateIndexes,
    CreateSearchIndexes,
    DropIndexes,
    DropSearchIndex,
    ListIndexes,
    ListSearchIndexes,
    UpdateSearchIndex,
)
from motorlite._operations.sessions import AbortTransaction, CommitTransaction, EndSessions
from motorlite._operations.single_writes import Delete, Insert, SingleWrite, Update
from motorlite._operations.statements import delete_statement, update_statement
from motorlite._operations.template_writes import MANY_FIELDS, TemplateWrites
from motorlite._topology.selection import WRITABLE
from motorlite.read_preferences import ReadPreference
from tests.support.fake_core import Sent, fake_client
from tests.support.operation_cases import CASES, Case

if TYPE_CHECKING:
    from collections.abc import Iterable

READ, WRITE, COMMAND = Kind
ADDRESS: Final = ("a", 1)
SET: Final = {"$set": {"x": 1}}
ALL_OF_IT: Final[dict[str, Any]] = {}
FIRST_BATCH: Final = {"cursor": {"firstBatch": 1}}
NEXT_BATCH: Final = {"cursor": {"nextBatch": 1}}
ONE_DELETE: Final = BulkRun("delete", [delete_statement({})], range(1))
ONE_INSERT: Final = Statement("insert", "db.coll", {"document": {"_id": 1}})
ONE_UPDATE: Final = BulkRun("update", [update_statement({}, SET)], range(1))

# Permitted by the retryable reads specification.
RETRYABLE: Final = "retryable"
# Permitted by the retryable writes specification, except for several documents and without acknowledgement.
IF_SINGLE: Final = "retryable if single and acknowledged"
IDEMPOTENT: Final = "idempotent"
CURSOR: Final = "creates a cursor"
KEEPS: Final = "keeps its connection"
CAUSAL: Final = "takes afterClusterTime"
NO_SESSION: Final = "takes no session"
NO_LIMIT: Final = "takes no maxTimeMS"
# The server, unless it is one that is writable.
ADDRESSED: Final = "goes to an address"
PRIMARY: Final = "goes to the primary"
CONTINUES: Final = "continues admitted work"
FREES: Final = "frees resources of the server"
COMMITS: Final = "commits the transaction"
ABORTS: Final = "aborts the transaction"
# Only a caller's own time limit.
OWN_LIMIT: Final = "takes the maxTimeMS of a deadline only"


class Row(NamedTuple):
    """An operation with the fewest arguments, and what it declares. `fields`: `document_fields`."""

    operation: Operation[Any]
    name: str
    kind: Kind
    facts: set[str]
    fields: dict[str, Any] | None = None


FIRST = FindFirstFacts("db", "coll", read_preference=ReadPreference.PRIMARY)
USUAL = TemplateWrites("db", "coll")
OF_MANY_FIELDS = {**{str(number): 1 for number in range(MANY_FIELDS)}, "_id": 1}

TABLE: Final = [
    Row(Aggregate("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CURSOR, CAUSAL}, FIRST_BATCH),
    Row(Count("db", "coll"), "count", READ, {RETRYABLE, IDEMPOTENT, CAUSAL}),
    Row(CountDocuments("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CAUSAL}),
    Row(Distinct("db", "coll", "x"), "distinct", READ, {RETRYABLE, IDEMPOTENT, CAUSAL}, {"values": 1}),
    Row(Explain(Find("db", "coll")), "explain", READ, {IDEMPOTENT}, ALL_OF_IT),
    Row(ExhaustFind("db", "coll"), "find", READ, {RETRYABLE, IDEMPOTENT, CURSOR, CAUSAL, KEEPS}, FIRST_BATCH),
    Row(Find("db", "coll"), "find", READ, {RETRYABLE, IDEMPOTENT, CURSOR, CAUSAL}, FIRST_BATCH),
    Row(FindCollection("db", "coll"), "listCollections", READ, {RETRYABLE, IDEMPOTENT, PRIMARY}),
    Row(FIRST.where({}), "find", READ, {RETRYABLE, IDEMPOTENT, CAUSAL, PRIMARY}, FIRST_BATCH),
    Row(FindOne("db", "coll"), "find", READ, {RETRYABLE, IDEMPOTENT, CAUSAL}, FIRST_BATCH),
    Row(GetMore("db", "coll", 5, address=ADDRESS), "getMore", READ, {NO_LIMIT, ADDRESSED, CONTINUES}, NEXT_BATCH),
    Row(KillCursors("db", "coll", [5], address=ADDRESS), "killCursors", READ, {NO_LIMIT, ADDRESSED, FREES}, ALL_OF_IT),
    Row(ListCollections("db"), "listCollections", READ, {RETRYABLE, IDEMPOTENT, CURSOR}),
    Row(ListDatabases(), "listDatabases", READ, {RETRYABLE, IDEMPOTENT}),
    Row(ListIndexes("db", "coll"), "listIndexes", READ, {RETRYABLE, IDEMPOTENT, CURSOR}),
    Row(ListSearchIndexes("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CURSOR}, FIRST_BATCH),
    Row(Watch("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CURSOR, CAUSAL}, FIRST_BATCH),
    Row(WatchMore("db", "coll", 5, address=ADDRESS), "getMore", READ, {NO_LIMIT, ADDRESSED, CONTINUES}, NEXT_BATCH),
    Row(AggregateWrite("db", "coll", [{"$out": "x"}]), "aggregate", WRITE, {CURSOR, CAUSAL}, FIRST_BATCH),
    Row(ClientBulkBatch([ONE_INSERT]), "bulkWrite", WRITE, {IF_SINGLE, CURSOR, CAUSAL}, FIRST_BATCH),
    Row(Create("db", "coll"), "create", WRITE, {CAUSAL}),
    Row(CreateIndexes("db", "coll", [{"name": "a_1"}]), "createIndexes", WRITE, {CAUSAL}),
    Row(CreateSearchIndexes("db", "coll", [{}]), "createSearchIndexes", WRITE, set()),
    Row(Delete("db", "coll", delete_statement({})), "delete", WRITE, {IF_SINGLE, CAUSAL}),
    Row(DeleteBatch("db", "coll", ONE_DELETE), "delete", WRITE, {IF_SINGLE, CAUSAL}),
    Row(Drop("db", "coll"), "drop", WRITE, {CAUSAL}),
    Row(DropDatabase("db"), "dropDatabase", WRITE, {CAUSAL}),
    Row(DropIndexes("db", "coll", "a_1"), "dropIndexes", WRITE, {CAUSAL}),
    Row(DropSearchIndex("db", "coll", "mine"), "dropSearchIndex", WRITE, set()),
    Row(FindAndModify("db", "coll", {}), "findAndModify", WRITE, {IF_SINGLE, CAUSAL}, {"value": 1}),
    Row(Insert("db", "coll", {}), "insert", WRITE, {IF_SINGLE, CAUSAL}),
    Row(InsertBatch("db", "coll", insert_run([{}])), "insert", WRITE, {IF_SINGLE, CAUSAL}),
    Row(Rename("db", "a", "b"), "renameCollection", WRITE, {CAUSAL}),
    Row(Update("db", "coll", update_statement({}, SET)), "update", WRITE, {IF_SINGLE, CAUSAL}, {"upserted": 1}),
    Row(UpdateBatch("db", "coll", ONE_UPDATE), "update", WRITE, {IF_SINGLE, CAUSAL}, {"upserted": 1}),
    Row(USUAL.insert({}), "insert", WRITE, {RETRYABLE, CAUSAL}),
    Row(USUAL.insert(OF_MANY_FIELDS), "insert", WRITE, {RETRYABLE, CAUSAL}),
    Row(USUAL.update(update_statement({}, SET)), "update", WRITE, {IF_SINGLE, CAUSAL}, {"upserted": 1}),
    Row(USUAL.delete(delete_statement({})), "delete", WRITE, {IF_SINGLE, CAUSAL}),
    Row(UpdateSearchIndex("db", "coll", "mine", {}), "updateSearchIndex", WRITE, set()),
    Row(
        AbortTransaction(),
        "abortTransaction",
        WRITE,
        {RETRYABLE, IDEMPOTENT, CONTINUES, OWN_LIMIT, ABORTS, FREES},
    ),
    Row(CommitTransaction(), "commitTransaction", WRITE, {RETRYABLE, IDEMPOTENT, CONTINUES, OWN_LIMIT, COMMITS}),
    Row(BuildInfo(), "buildInfo", COMMAND, {IDEMPOTENT, PRIMARY}, ALL_OF_IT),
    Row(EndSessions([]), "endSessions", COMMAND, {NO_SESSION, NO_LIMIT, FREES}, ALL_OF_IT),
    Row(RunCommand("db", {"ping": 1}), "ping", COMMAND, set(), ALL_OF_IT),
    Row(RunCursorCommand("db", {"ping": 1}), "ping", COMMAND, {CURSOR}, FIRST_BATCH),
    Row(Validate("db", "coll"), "validate", COMMAND, set(), ALL_OF_IT),
]


def operation_classes() -> list[type[Operation[Any]]]:
    """All of the package, base classes too."""
    classes = set()
    for module in pkgutil.walk_packages(motorlite._operations.__path__, "motorlite._operations."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(member, Operation) and member is not Operation:
                classes.add(member)
    return sorted(classes, key=lambda member: member.__name__)


CLASSES: Final = operation_classes()


def test_the_table_has_every_operation() -> None:
    concrete = {kind for kind in CLASSES if hasattr(kind, "name") and kind.parse is not Operation.parse}
    assert {type(row.operation) for row in TABLE} == concrete
    assert {AdministrativeWrite, SingleWrite} <= set(CLASSES) - concrete


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row.operation).__name__)
def test_facts(row: Row) -> None:
    operation = row.operation
    # What instances decide is in a slot, which hides the default.
    decides = inspect.isdatadescriptor(inspect.getattr_static(type(operation), "is_retryable"))
    facts = {
        RETRYABLE: operation.is_retryable and not decides,
        IF_SINGLE: operation.is_retryable and decides,
        IDEMPOTENT: operation.is_idempotent,
        CURSOR: operation.creates_cursor,
        CAUSAL: operation.supports_after_cluster_time,
        KEEPS: operation.keeps_connection,
        NO_SESSION: not operation.supports_sessions,
        NO_LIMIT: operation.time_limit is TimeLimit.OMIT,
        ADDRESSED: operation.selector == ADDRESS,
        CONTINUES: operation.is_continuation,
        FREES: operation.is_housekeeping,
        COMMITS: operation.ends is TransactionEnd.COMMIT,
        ABORTS: operation.ends is TransactionEnd.ABORT,
        OWN_LIMIT: operation.time_limit is TimeLimit.DEADLINE,
        PRIMARY: operation.selector is operation.read_preference is ReadPreference.PRIMARY,
    }
    assert (operation.name, operation.kind) == (row.name, row.kind)
    assert {fact for fact, holds in facts.items() if holds} == row.facts
    assert operation.document_fields == row.fields
    assert operation.is_acknowledged
    assert not operation.is_await_data
    assert not operation.is_exhaust
    assert operation.time_limit is not TimeLimit.AWAIT
    assert not operation.has_own_preference
    assert operation.selector is WRITABLE or row.facts & {ADDRESSED, PRIMARY}
    assert operation.read_preference is None or PRIMARY in row.facts


def test_what_is_idempotent() -> None:
    """All operations, so that one that is added is False unless it says otherwise. Few besides reads say so."""
    idempotent = {type(row.operation) for row in TABLE if row.operation.is_idempotent}
    reads = {type(row.operation) for row in TABLE if row.kind is READ}
    assert idempotent == (reads | {BuildInfo, CommitTransaction, AbortTransaction}) - {GetMore, KillCursors, WatchMore}
    assert Operation.is_idempotent is False


WITHOUT_COLLECTION: Final = {
    **dict.fromkeys((FindCollection, ListCollections, DropDatabase, RunCommand, RunCursorCommand), "db"),
    **dict.fromkeys((BuildInfo, ClientBulkBatch, EndSessions, ListDatabases), "admin"),
    **dict.fromkeys((CommitTransaction, AbortTransaction), "admin"),
    Rename: "db.a",
}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row.operation).__name__)
def test_namespace(row: Row) -> None:
    assert row.operation.namespace == WITHOUT_COLLECTION.get(type(row.operation), "db.coll")


@pytest.mark.parametrize("operation", CLASSES, ids=lambda operation: operation.__name__)
def test_every_class_says_how_it_is_retried(operation: type[Operation[Any]]) -> None:
    _, found, text = (operation.__doc__ or "").partition("Retry: ")
    assert found, "the docstring has no line that begins with 'Retry: '"
    text = " ".join(text.split())
    # What is retryable per instance has a slot in its own class.
    can_retry = operation.is_retryable is not False
    if not can_retry:
        assert text.startswith("never by the retryable")
        role = {Kind.READ: "as a read", Kind.WRITE: "as a write", Kind.COMMAND: "needs retryReads"}[operation.kind]
        assert role in text
    else:
        assert text.startswith(f"retryable {operation.kind.value}")


@pytest.mark.parametrize("operation", CLASSES, ids=lambda operation: operation.__name__)
def test_no_instance_has_a_dictionary(operation: type[Operation[Any]]) -> None:
    assert "__slots__" in vars(operation)


# Operations without a case of malformed replies, and why.
UNREAD: Final = {EndSessions: "sent with every case, when its client closes"}


async def sent_by(case: Case) -> set[type[Operation[Any]]]:
    """The operations of one case, with replies that it succeeds with."""

    def answer(sent: Sent) -> dict[str, Any]:
        reply = case.replies[0] if sent.name == case.command else case.others.get(sent.name, {})
        return {"ok": 1, **deepcopy(reply)}  # calls change their replies

    client, core = fake_client()
    core.reply(*[answer] * 10)
    await case.call(client)
    await core.run_spawned()
    return {type(sent.operation) for sent in core.executor.sent}


async def without_a_case(cases: Iterable[Case]) -> set[type[Operation[Any]]]:
    sent = {operation for case in cases for operation in await sent_by(case)}
    return {type(row.operation) for row in TABLE} - sent


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_every_operation_has_a_case_of_malformed_replies() -> None:
    assert await without_a_case(CASES.values()) == UNREAD.keys()
    others = [case for name, case in CASES.items() if name != "validate_collection"]
    assert await without_a_case(others) == {*UNREAD, Validate}
