"""Every operation with the fewest arguments, and what it declares about itself."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from motorlite._operations.bulk import BulkRun, DeleteBatch, InsertBatch, UpdateBatch, insert_run
from motorlite._operations.change_stream import Watch, WatchMore
from motorlite._operations.client_bulk import ClientBulkBatch, MoreResults, Statement
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
from motorlite._operations.contract import Kind, Operation
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.find import ExhaustFind, Find, FindFirstFacts, FindOne
from motorlite._operations.indexes import (
    CreateIndexes,
    CreateSearchIndexes,
    DropIndexes,
    DropSearchIndex,
    ListIndexes,
    ListSearchIndexes,
    UpdateSearchIndex,
)
from motorlite._operations.reads import Aggregate, AggregateWrite, Count, CountDocuments, Distinct, Explain
from motorlite._operations.sessions import AbortTransaction, CommitTransaction, EndSessions
from motorlite._operations.single_writes import MANY_FIELDS, Delete, FindAndModify, Insert, TemplateWrites, Update
from motorlite._operations.statements import delete_statement, update_statement
from motorlite.read_preferences import ReadPreference

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


UPSERTED: Final = {"upserted": {"_id": 1}}
RESULTS: Final = {"cursor": {"firstBatch": UPSERTED}}
MORE_RESULTS: Final = {"cursor": {"nextBatch": UPSERTED}}


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
    Row(MoreResults("db", "coll", 5, address=ADDRESS), "getMore", READ, {NO_LIMIT, ADDRESSED, CONTINUES}, MORE_RESULTS),
    Row(GetMore("db", "coll", 5, address=ADDRESS), "getMore", READ, {NO_LIMIT, ADDRESSED, CONTINUES}, NEXT_BATCH),
    Row(KillCursors("db", "coll", [5], address=ADDRESS), "killCursors", READ, {NO_LIMIT, ADDRESSED, FREES}, ALL_OF_IT),
    Row(ListCollections("db"), "listCollections", READ, {RETRYABLE, IDEMPOTENT, CURSOR}),
    Row(ListDatabases(), "listDatabases", READ, {RETRYABLE, IDEMPOTENT}),
    Row(ListIndexes("db", "coll"), "listIndexes", READ, {RETRYABLE, IDEMPOTENT, CURSOR}),
    Row(ListSearchIndexes("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CURSOR}, FIRST_BATCH),
    Row(Watch("db", "coll", []), "aggregate", READ, {RETRYABLE, IDEMPOTENT, CURSOR, CAUSAL}, FIRST_BATCH),
    Row(WatchMore("db", "coll", 5, address=ADDRESS), "getMore", READ, {NO_LIMIT, ADDRESSED, CONTINUES}, NEXT_BATCH),
    Row(AggregateWrite("db", "coll", [{"$out": "x"}]), "aggregate", WRITE, {CURSOR, CAUSAL}, FIRST_BATCH),
    Row(ClientBulkBatch([ONE_INSERT]), "bulkWrite", WRITE, {IF_SINGLE, CURSOR, CAUSAL}, RESULTS),
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
    Row(Update("db", "coll", update_statement({}, SET)), "update", WRITE, {IF_SINGLE, CAUSAL}, UPSERTED),
    Row(UpdateBatch("db", "coll", ONE_UPDATE), "update", WRITE, {IF_SINGLE, CAUSAL}, UPSERTED),
    Row(USUAL.insert({}), "insert", WRITE, {RETRYABLE, CAUSAL}),
    Row(USUAL.insert(OF_MANY_FIELDS), "insert", WRITE, {RETRYABLE, CAUSAL}),
    Row(USUAL.update(update_statement({}, SET)), "update", WRITE, {IF_SINGLE, CAUSAL}, UPSERTED),
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
