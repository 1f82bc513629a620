"""What each operation sends, with the fewest arguments and with all of them, and what it makes of the reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from motorlite._base.wire_versions import release
from motorlite._operations.aggregate import (
    Aggregate,
    AggregateWrite,
    CountDocuments,
    count_pipeline,
    has_write_stage,
    waits_for_data,
)
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
from motorlite._operations.common import ALL_INDEXES, check_needs
from motorlite._operations.contract import TimeLimit
from motorlite._operations.counts import Count, Distinct
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.find import Find, FindOne
from motorlite._operations.find_and_modify import FindAndModify
from motorlite._operations.indexes import (
    CreateIndexes,
    CreateSearchIndexes,
    DropIndexes,
    DropSearchIndex,
    ListIndexes,
    ListSearchIndexes,
    UpdateSearchIndex,
    search_index_stages,
)
from motorlite._operations.sessions import (
    MAX_SESSIONS,
    AbortTransaction,
    CommitTransaction,
    EndSessions,
    session_batches,
)
from motorlite._operations.single_writes import Delete, Insert, Update
from motorlite._operations.statements import delete_statement, replace_statement, update_statement
from motorlite._topology.selection import WRITABLE, WritesByPreference
from motorlite.errors import (
    ConfigurationError,
    DuplicateKeyError,
    ProtocolError,
    WriteConcernError,
    WriteError,
    WTimeoutError,
)
from motorlite.operations import IndexModel, SearchIndexModel
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, V5_0, V7_0, V8_0, sent, server

if TYPE_CHECKING:
    from motorlite._base.values import ServerFacts
    from motorlite._operations.contract import Operation

ADDRESS: Final = ("db2.test", 27018)
SET: Final = {"$set": {"x": 1}}
LOCALE: Final = {"locale": "de"}
UNACKNOWLEDGED: Final = WriteConcern(0)
RAW: Final = RawBSONDocument(b"\x05\x00\x00\x00\x00")
INDEXES: Final = [IndexModel("a").document, IndexModel([("b", -1)], name="by_b", unique=True).document]
SEARCH_INDEXES: Final = [SearchIndexModel({"mappings": {}}).document, SearchIndexModel({}, "mine", "search").document]
SESSIONS: Final = [{"id": number} for number in range(MAX_SESSIONS + 1)]
# Arguments that most operations have, and what they become.
OWN: Final[dict[str, Any]] = {"comment": "c", "max_time_ms": 9}
SENT_OWN: Final = {"comment": "c", "maxTimeMS": 9}
SERVER: Final[dict[str, Any]] = {**OWN, "options": {"serverOption": 1}}
SENT_SERVER: Final = {**SENT_OWN, "serverOption": 1}
MAJORITY: Final[dict[str, Any]] = {"write_concern": WriteConcern("majority")}
SENT_MAJORITY: Final = {"writeConcern": {"w": "majority"}}
READ_MAJORITY: Final[dict[str, Any]] = {"read_concern": ReadConcern("majority")}
SENT_READ_MAJORITY: Final = {"readConcern": {"level": "majority"}}

COMMANDS: Final[list[tuple[Operation[Any], dict[str, Any]]]] = [
    (AbortTransaction(), {"abortTransaction": 1}),
    (CommitTransaction(), {"commitTransaction": 1}),
    (CommitTransaction(0), {"commitTransaction": 1, "maxTimeMS": 0}),
    (Aggregate("db", "coll", [{"$match": {}}]), {"aggregate": "coll", "pipeline": [{"$match": {}}], "cursor": {}}),
    (Aggregate("db", None, []), {"aggregate": 1, "pipeline": [], "cursor": {}}),
    (
        Aggregate(
            "db",
            "coll",
            [],
            batch_size=0,
            allow_disk_use=False,
            bypass_document_validation=False,
            collation=LOCALE,
            hint={"x": 1},
            let={"a": 1},
            **SERVER,
            **READ_MAJORITY,
        ),
        {
            "aggregate": "coll",
            "pipeline": [],
            "allowDiskUse": False,
            "bypassDocumentValidation": False,
            "collation": LOCALE,
            "hint": {"x": 1},
            "let": {"a": 1},
            "cursor": {"batchSize": 0},
            **SENT_SERVER,
            **SENT_READ_MAJORITY,
        },
    ),
    # An explanation has no cursor.
    (
        Aggregate("db", "coll", [], options={"explain": True}),
        {"aggregate": "coll", "pipeline": [], "explain": True},
    ),
    # A batch size of 0 would keep the pipeline from being executed.
    *(
        (
            AggregateWrite("db", "coll", [{stage: "other"}], batch_size=0, **MAJORITY, **READ_MAJORITY),
            {
                "aggregate": "coll",
                "pipeline": [{stage: "other"}],
                "cursor": {},
                **SENT_READ_MAJORITY,
                **SENT_MAJORITY,
            },
        )
        for stage in ("$out", "$merge")
    ),
    (BuildInfo(), {"buildInfo": 1}),
    (Count("db", "coll"), {"count": "coll"}),
    (Count("db", "coll", **SERVER, **READ_MAJORITY), {"count": "coll", **SENT_SERVER, **SENT_READ_MAJORITY}),
    (Create("db", "coll"), {"create": "coll"}),
    (
        Create("db", "coll", options={"capped": True, "size": 4096}, comment="c", **MAJORITY),
        {"create": "coll", "capped": True, "size": 4096, "comment": "c", **SENT_MAJORITY},
    ),
    (
        CreateIndexes("db", "coll", INDEXES),
        {
            "createIndexes": "coll",
            "indexes": [{"name": "a_1", "key": {"a": 1}}, {"name": "by_b", "unique": True, "key": {"b": -1}}],
        },
    ),
    (
        CreateIndexes("db", "coll", INDEXES, commit_quorum="votingMembers", **SERVER, **MAJORITY),
        {
            "createIndexes": "coll",
            "indexes": INDEXES,
            "commitQuorum": "votingMembers",
            **SENT_SERVER,
            **SENT_MAJORITY,
        },
    ),
    (
        CreateSearchIndexes("db", "coll", SEARCH_INDEXES),
        {
            "createSearchIndexes": "coll",
            "indexes": [{"definition": {"mappings": {}}}, {"name": "mine", "definition": {}, "type": "search"}],
        },
    ),
    (CreateSearchIndexes("db", "coll", [], **OWN), {"createSearchIndexes": "coll", "indexes": [], **SENT_OWN}),
    (
        Delete("db", "coll", delete_statement({"x": 1}), write_concern=WriteConcern()),
        {"delete": "coll", "ordered": True, "deletes": [{"q": {"x": 1}, "limit": 1}]},
    ),
    (
        Delete("db", "coll", delete_statement({}), let={"a": 1}, comment="c", write_concern=WriteConcern(j=True)),
        {
            "delete": "coll",
            "ordered": True,
            "deletes": [{"q": {}, "limit": 1}],
            "let": {"a": 1},
            "comment": "c",
            "writeConcern": {"j": True},
        },
    ),
    (Distinct("db", "coll", "x"), {"distinct": "coll", "key": "x", "query": {}}),
    (
        Distinct("db", "coll", "x", {"y": 1}, collation=LOCALE, hint="x_1", **SERVER, **READ_MAJORITY),
        {
            "distinct": "coll",
            "key": "x",
            "query": {"y": 1},
            "collation": LOCALE,
            "hint": "x_1",
            **SENT_SERVER,
            **SENT_READ_MAJORITY,
        },
    ),
    (Drop("db", "coll"), {"drop": "coll"}),
    (Drop("db", "coll", comment="c", **MAJORITY), {"drop": "coll", "comment": "c", **SENT_MAJORITY}),
    (DropDatabase("db"), {"dropDatabase": 1}),
    (DropDatabase("db", comment="c", **MAJORITY), {"dropDatabase": 1, "comment": "c", **SENT_MAJORITY}),
    (DropIndexes("db", "coll", "a_1"), {"dropIndexes": "coll", "index": "a_1"}),
    (DropIndexes("db", "coll", ALL_INDEXES), {"dropIndexes": "coll", "index": "*"}),
    (
        DropIndexes("db", "coll", {"a": 1}, **SERVER, **MAJORITY),
        {"dropIndexes": "coll", "index": {"a": 1}, **SENT_SERVER, **SENT_MAJORITY},
    ),
    (DropSearchIndex("db", "coll", "mine"), {"dropSearchIndex": "coll", "name": "mine"}),
    (DropSearchIndex("db", "coll", "mine", **OWN), {"dropSearchIndex": "coll", "name": "mine", **SENT_OWN}),
    (EndSessions(SESSIONS[:2]), {"endSessions": [{"id": 0}, {"id": 1}]}),
    (Find("db", "coll", read_concern=ReadConcern()), {"find": "coll", "filter": {}}),
    # Flags are sent only when they are set.
    (
        Find(
            "db",
            "coll",
            no_cursor_timeout=False,
            allow_partial_results=False,
            oplog_replay=None,
            tailable=False,
            await_data=False,
            min=None,
        ),
        {"find": "coll", "filter": {}},
    ),
    (
        Find(
            "db",
            "coll",
            {"x": 1},
            projection={"_id": 0},
            sort={"x": -1},
            skip=3,
            limit=20,
            batch_size=10,
            hint="x_1",
            collation=LOCALE,
            let={"a": 1},
            min={"x": 0},
            max={"x": 9},
            max_scan=5,
            return_key=False,
            show_record_id=True,
            no_cursor_timeout=True,
            allow_disk_use=False,
            allow_partial_results=True,
            oplog_replay=True,
            tailable=True,
            await_data=True,
            **OWN,
            **READ_MAJORITY,
        ),
        {
            "find": "coll",
            "filter": {"x": 1},
            "sort": {"x": -1},
            "projection": {"_id": 0},
            "hint": "x_1",
            "skip": 3,
            "limit": 20,
            "batchSize": 10,
            "collation": LOCALE,
            "let": {"a": 1},
            "min": {"x": 0},
            "max": {"x": 9},
            "maxScan": 5,
            "returnKey": False,
            "showRecordId": True,
            "allowDiskUse": False,
            "noCursorTimeout": True,
            "allowPartialResults": True,
            "oplogReplay": True,
            "tailable": True,
            "awaitData": True,
            **SENT_OWN,
            **SENT_READ_MAJORITY,
        },
    ),
    (
        FindOne("db", "coll", {"_id": 1}, sort={"x": 1}, skip=2, limit=9, batch_size=4),
        {"find": "coll", "filter": {"_id": 1}, "sort": {"x": 1}, "skip": 2, "limit": 1, "singleBatch": True},
    ),
    (FindAndModify("db", "coll", {"a": 1}), {"findAndModify": "coll", "query": {"a": 1}, "remove": True}),
    (FindAndModify("db", "coll", {}, replacement={}), {"findAndModify": "coll", "query": {}, "update": {}}),
    (
        FindAndModify(
            "db",
            "coll",
            {"a": 1},
            update=SET,
            upsert=True,
            return_new=True,
            projection={"_id": 0},
            sort={"a": 1},
            array_filters=[{"e": 1}],
            hint="a_1",
            collation=LOCALE,
            let={"v": 1},
            bypass_document_validation=False,
            **SERVER,
            **MAJORITY,
        ),
        {
            "findAndModify": "coll",
            "query": {"a": 1},
            "update": SET,
            "arrayFilters": [{"e": 1}],
            "new": True,
            "upsert": True,
            "fields": {"_id": 0},
            "sort": {"a": 1},
            "hint": "a_1",
            "collation": LOCALE,
            "let": {"v": 1},
            "bypassDocumentValidation": False,
            **SENT_SERVER,
            **SENT_MAJORITY,
        },
    ),
    (
        FindCollection("db", "coll", name_only=True, comment="c"),
        {"listCollections": 1, "cursor": {}, "filter": {"name": "coll"}, "nameOnly": True, "comment": "c"},
    ),
    (GetMore("db", "coll", 5, address=ADDRESS), {"getMore": 5, "collection": "coll"}),
    (
        GetMore(
            "db",
            "coll",
            2**40,
            address=ADDRESS,
            batch_size=10,
            comment={"a": 1},
            is_await_data=True,
            max_await_time_ms=0,
        ),
        {"getMore": 2**40, "collection": "coll", "batchSize": 10, "maxTimeMS": 0, "comment": {"a": 1}},
    ),
    (
        Insert("db", "coll", {"_id": 1}, write_concern=WriteConcern()),
        {"insert": "coll", "ordered": True, "documents": [{"_id": 1}]},
    ),
    (
        Insert(
            "db",
            "coll",
            RAW,
            write_concern=WriteConcern("majority", wtimeout=5),
            bypass_document_validation=False,
            comment="why",
        ),
        {
            "insert": "coll",
            "ordered": True,
            "documents": [RAW],
            "bypassDocumentValidation": False,
            "comment": "why",
            "writeConcern": {"w": "majority", "wtimeout": 5},
        },
    ),
    (KillCursors("db", "coll", [1, 2**40], address=ADDRESS), {"killCursors": "coll", "cursors": [1, 2**40]}),
    (ListCollections("db"), {"listCollections": 1, "cursor": {}}),
    (
        ListCollections(
            "db", filter={"name": "x"}, name_only=True, authorized_collections=False, batch_size=5, **SERVER
        ),
        {
            "listCollections": 1,
            "cursor": {"batchSize": 5},
            "filter": {"name": "x"},
            "nameOnly": True,
            "authorizedCollections": False,
            **SENT_SERVER,
        },
    ),
    (ListDatabases(), {"listDatabases": 1}),
    (
        ListDatabases(filter={"name": "x"}, name_only=True, authorized_databases=False, **SERVER),
        {"listDatabases": 1, "filter": {"name": "x"}, "nameOnly": True, "authorizedDatabases": False, **SENT_SERVER},
    ),
    (ListIndexes("db", "coll"), {"listIndexes": "coll", "cursor": {}}),
    (
        ListIndexes("db", "coll", batch_size=5, **SERVER),
        {"listIndexes": "coll", "cursor": {"batchSize": 5}, **SENT_SERVER},
    ),
    # The command takes no read concern.
    (
        ListSearchIndexes("db", "coll", search_index_stages(), **READ_MAJORITY),
        {"aggregate": "coll", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}},
    ),
    (
        ListSearchIndexes("db", "coll", search_index_stages("mine"), batch_size=5, **OWN),
        {
            "aggregate": "coll",
            "pipeline": [{"$listSearchIndexes": {"name": "mine"}}],
            "cursor": {"batchSize": 5},
            **SENT_OWN,
        },
    ),
    (Rename("db", "a", "b"), {"renameCollection": "db.a", "to": "db.b"}),
    (
        Rename("db", "a", "b", comment="c", options={"dropTarget": True}, **MAJORITY),
        {"renameCollection": "db.a", "to": "db.b", "dropTarget": True, "comment": "c", **SENT_MAJORITY},
    ),
    # Always acknowledged, whatever the collection's writes are.
    (Rename("db", "a", "b", write_concern=UNACKNOWLEDGED), {"renameCollection": "db.a", "to": "db.b"}),
    (
        Update("db", "coll", update_statement({"_id": 1}, SET)),
        {"update": "coll", "ordered": True, "updates": [{"q": {"_id": 1}, "u": SET}]},
    ),
    (
        Update(
            "db",
            "coll",
            replace_statement({"_id": 1}, {"x": 1}),
            bypass_document_validation=True,
            let={"a": 1},
            comment="c",
            **MAJORITY,
        ),
        {
            "update": "coll",
            "ordered": True,
            "updates": [{"q": {"_id": 1}, "u": {"x": 1}}],
            "let": {"a": 1},
            "comment": "c",
            "bypassDocumentValidation": True,
            **SENT_MAJORITY,
        },
    ),
    (
        UpdateSearchIndex("db", "coll", "mine", {"mappings": {}}, **OWN),
        {"updateSearchIndex": "coll", "name": "mine", "definition": {"mappings": {}}, **SENT_OWN},
    ),
    (Validate("db", "coll"), {"validate": "coll", "scandata": False, "full": False}),
    (
        Validate("db", "coll", scandata=True, full=True, background=False, comment="c"),
        {"validate": "coll", "scandata": True, "full": True, "background": False, "comment": "c"},
    ),
]


@pytest.mark.parametrize(("operation", "document"), COMMANDS, ids=[type(row[0]).__name__ for row in COMMANDS])
def test_command(operation: Operation[Any], document: dict[str, Any]) -> None:
    assert sent(operation) == document
    assert operation.command(V7_0).sequences == ()


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        (
            Find(
                "db",
                "coll",
                selector=ReadPreference.SECONDARY,
                read_preference=ReadPreference.SECONDARY,
                codec_options=CodecOptions(tz_aware=True),
                time_limit=TimeLimit.OMIT,
            ),
            {
                "database": "db",
                "selector": ReadPreference.SECONDARY,
                "read_preference": ReadPreference.SECONDARY,
                "codec_options": CodecOptions(tz_aware=True),
                "time_limit": TimeLimit.OMIT,
            },
        ),
        (
            Aggregate(
                "db",
                "coll",
                [],
                selector=ReadPreference.NEAREST,
                read_preference=ReadPreference.NEAREST,
                time_limit=TimeLimit.OMIT,
            ),
            {
                "selector": ReadPreference.NEAREST,
                "read_preference": ReadPreference.NEAREST,
                "time_limit": TimeLimit.OMIT,
            },
        ),
        (
            AggregateWrite("db", "coll", [], selector=ReadPreference.NEAREST),
            {"selector": ReadPreference.NEAREST, "is_retryable": False, "is_idempotent": False},
        ),
        (
            ListCollections("db", selector=ReadPreference.PRIMARY, time_limit=TimeLimit.OMIT),
            {"selector": ReadPreference.PRIMARY, "time_limit": TimeLimit.OMIT},
        ),
        (ListIndexes("db", "coll", time_limit=TimeLimit.OMIT), {"time_limit": TimeLimit.OMIT}),
        (
            GetMore("db", "coll", 5, address=ADDRESS, read_preference=ReadPreference.NEAREST, is_await_data=True),
            {"selector": ADDRESS, "read_preference": ReadPreference.NEAREST, "is_await_data": True},
        ),
        (
            RunCommand("db", {"ping": 1}, selector=ReadPreference.NEAREST),
            {"selector": ReadPreference.NEAREST, "read_preference": None},
        ),
        (
            EndSessions([], selector=ReadPreference.PRIMARY_PREFERRED),
            {"database": "admin", "selector": ReadPreference.PRIMARY_PREFERRED},
        ),
        (Find("db", "coll"), {"selector": WRITABLE, "read_preference": None}),
        *((made, {"database": "admin"}) for made in (ListDatabases(), Rename("db", "a", "b"), AbortTransaction())),
        (DropDatabase("db"), {"database": "db"}),
        (Rename("db", "a", "b", write_concern=UNACKNOWLEDGED), {"is_acknowledged": True}),
        (Create("db", "coll", write_concern=UNACKNOWLEDGED), {"is_acknowledged": False}),
        (Update("db", "coll", update_statement({}, SET, multi=True)), {"is_retryable": False, "is_acknowledged": True}),
        (Delete("db", "coll", delete_statement({}, multi=True)), {"is_retryable": False, "is_acknowledged": True}),
        *(
            (made, {"is_retryable": False, "is_acknowledged": False})
            for made in (
                Insert("db", "coll", {}, write_concern=UNACKNOWLEDGED),
                Update("db", "coll", update_statement({}, SET), write_concern=UNACKNOWLEDGED),
                FindAndModify[Any]("db", "coll", {}, update=SET, write_concern=UNACKNOWLEDGED),
            )
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_operation_is_given(operation: Operation[Any], facts: dict[str, Any]) -> None:
    assert {name: getattr(operation, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("operation", "message", "older", "newer"),
    [
        (
            Find("db", "coll", allow_disk_use=False),
            "allow_disk_use needs MongoDB 4.4 (wire version 9), but db1.test:27017 is MongoDB 4.2 (wire version 8)",
            V4_2,
            V4_4,
        ),
        (Find("db", "coll", allow_disk_use=True), "allow_disk_use needs MongoDB 4.4", V4_2, V4_4),
        (CreateIndexes("db", "coll", INDEXES, commit_quorum=1), "commitQuorum needs MongoDB 4.4", V4_2, V4_4),
        (
            CreateIndexes("db", "coll", INDEXES, options={"commitQuorum": 1}),
            "commitQuorum needs MongoDB 4.4",
            V4_2,
            V4_4,
        ),
        *(
            row
            for concern in (None, UNACKNOWLEDGED)
            for row in (
                (
                    Delete("db", "coll", delete_statement({}, hint="x_1"), write_concern=concern),
                    "hint of a delete needs MongoDB 4.4",
                    V4_2,
                    V4_4,
                ),
                (
                    FindAndModify[Any]("db", "coll", {}, hint="a_1", write_concern=concern),
                    "hint of findAndModify needs MongoDB 4.4",
                    V4_2,
                    V4_4,
                ),
            )
        ),
    ],
)
def test_what_older_servers_lack(
    operation: Operation[Any], message: str, older: ServerFacts, newer: ServerFacts
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        operation.command(older)
    assert str(caught.value).startswith(message)
    operation.command(newer)


COMMENT: Final = "comment of an unacknowledged write needs MongoDB 4.4"
LET: Final = "let of an unacknowledged write needs MongoDB 5.0"


@pytest.mark.parametrize(
    ("make", "arguments", "options", "message", "older", "newer"),
    [
        (Insert, ({},), {"comment": 1}, COMMENT, V4_2, V4_4),
        (Update, (update_statement({}, [{"$set": {}}]),), {"comment": 1}, COMMENT, V4_2, V4_4),
        (Delete, (delete_statement({}),), {"comment": 1}, COMMENT, V4_2, V4_4),
        (Update, (update_statement({}, SET),), {"let": {"a": 1}}, LET, V4_4, V5_0),
        (FindAndModify, ({},), {"let": {"a": 1}}, LET, V4_4, V5_0),
        (
            Update,
            (update_statement({}, SET, sort={"x": 1}),),
            {},
            "sort of an unacknowledged update needs MongoDB 8.0",
            V7_0,
            V8_0,
        ),
    ],
)
def test_what_only_a_server_that_answers_refuses_itself(
    make: Any, arguments: Any, options: Any, message: str, older: ServerFacts, newer: ServerFacts
) -> None:
    """CRUD specification tests, "unsupported (server-side error)"."""
    sent(make("db", "coll", *arguments, **options), older)
    operation = make("db", "coll", *arguments, write_concern=UNACKNOWLEDGED, **options)
    with pytest.raises(ConfigurationError) as caught:
        operation.command(older)
    assert message in str(caught.value)
    assert "but db1.test:27017 is MongoDB" in str(caught.value)
    sent(operation, newer)


def test_what_is_left_out_for_older_servers() -> None:
    assert "comment" not in sent(GetMore("db", "coll", 5, address=ADDRESS, comment="why"), V4_2)
    assert sent(Insert("db", "coll", {}, write_concern=UNACKNOWLEDGED), V4_2)["writeConcern"] == {"w": 0}


def test_cursor_ids_have_64_bits() -> None:
    assert type(sent(GetMore("db", "coll", 5, address=ADDRESS))["getMore"]) is Int64
    killed = sent(KillCursors("db", "coll", [1, 2**40], address=ADDRESS))["cursors"]
    assert {type(cursor_id) for cursor_id in killed} == {Int64}


@pytest.mark.parametrize(
    ("wire_version", "expected"),
    [(-1, "older than 2.4"), (7, "4.0"), (8, "4.2"), (9, "4.4"), (12, "4.4"), (13, "5.0"), (17, "6.0"), (99, "8.0")],
)
def test_release(wire_version: int, expected: str) -> None:
    assert release(wire_version) == expected


def test_the_first_need_that_is_not_met_is_named() -> None:
    check_needs((("a", 9), ("b", 13)), V5_0)
    with pytest.raises(ConfigurationError, match=r"^b needs MongoDB 5\.0 \(wire version 13\)"):
        check_needs((("a", 9), ("b", 13)), V4_4)
    check_needs((), server(0))


def test_concerns_of_the_caller_are_not_changed() -> None:
    concern = ReadConcern("local")
    sent(Find("db", "coll", read_concern=concern))
    assert concern.document == {"level": "local"}
    written = WriteConcern("majority", wtimeout=5)
    command = Insert("db", "coll", {}, write_concern=written).command(V7_0)
    del command.document["writeConcern"]["wtimeout"]
    assert written.document == {"w": "majority", "wtimeout": 5}


def test_an_unknown_option() -> None:
    with pytest.raises(TypeError, match="Find has no option 'typo'"):
        Find("db", "coll", typo=1)  # type: ignore[call-arg]  # the point of the test


@pytest.mark.parametrize(
    ("limit", "batch_size", "expected"),
    [
        (0, 0, {}),
        (5, 0, {"limit": 5}),
        (0, 7, {"batchSize": 7}),
        (4, 2, {"limit": 4, "batchSize": 2}),
        # CRUD specification: equal values would leave an open cursor behind.
        (4, 4, {"limit": 4, "batchSize": 5}),
        (2, 4, {"limit": 2, "batchSize": 4}),
        # find, getMore and killCursors specification: negative values ask for a single batch.
        (-5, 0, {"limit": 5, "batchSize": 5, "singleBatch": True}),
        (-5, 3, {"limit": 5, "batchSize": 5, "singleBatch": True}),
        (0, -3, {"batchSize": 3, "singleBatch": True}),
        (5, -3, {"limit": 5, "batchSize": 5, "singleBatch": True}),
    ],
)
def test_limit_and_batch_size(limit: int, batch_size: int, expected: dict[str, object]) -> None:
    document = sent(Find("db", "coll", limit=limit, batch_size=batch_size))
    assert document == {"find": "coll", "filter": {}, **expected}


@pytest.mark.parametrize(("wire_version", "is_sent"), [(12, False), (13, True)])
def test_the_preference_of_a_write_stage(wire_version: int, is_sent: bool) -> None:
    operation = AggregateWrite("db", "coll", [{"$out": "x"}], read_preference=ReadPreference.NEAREST)
    assert operation.selector == WritesByPreference(ReadPreference.NEAREST)
    operation.command(server(wire_version))
    assert (operation.read_preference is ReadPreference.NEAREST) is is_sent


@pytest.mark.parametrize(
    ("pipeline", "writes", "waits"),
    [
        ([], False, False),
        ([{"$match": {}}], False, False),
        ([{"$out": "x"}], True, False),
        ([{"$match": {}}, {"$merge": {"into": "x"}}], True, False),
        ([{"$out": "x"}, {"$match": {}}], False, False),
        ([{"$changeStream": {}}], False, True),
        ([{"$changeStream": {}}, {"$match": {}}], False, True),
    ],
    ids=repr,
)
def test_what_the_stages_of_a_pipeline_do(pipeline: list[dict[str, Any]], writes: bool, waits: bool) -> None:
    assert (has_write_stage(pipeline), waits_for_data(pipeline)) == (writes, waits)


@pytest.mark.parametrize("pipeline", [None, ["$changeStream"], "$changeStream"], ids=repr)
def test_what_is_no_pipeline_does_not_wait(pipeline: Any) -> None:
    assert not waits_for_data(pipeline)


def test_the_pipeline_of_a_count() -> None:
    group = {"$group": {"_id": 1, "n": {"$sum": 1}}}
    assert count_pipeline({"x": 1}, 2, 3) == [{"$match": {"x": 1}}, {"$skip": 2}, {"$limit": 3}, group]
    assert count_pipeline({}) == [{"$match": {}}, group]
    assert sent(CountDocuments("db", "coll", count_pipeline({})))["pipeline"] == count_pipeline({})


def test_no_more_than_ten_thousand_sessions_in_one_command() -> None:
    assert [len(batch) for batch in session_batches(SESSIONS)] == [MAX_SESSIONS, 1]
    assert [len(batch) for batch in session_batches(SESSIONS[:MAX_SESSIONS])] == [MAX_SESSIONS]
    assert list(session_batches([])) == []
    assert [one for batch in session_batches(SESSIONS) for one in batch] == SESSIONS


def test_no_indexes() -> None:
    with pytest.raises(ValueError, match="the list of indexes must not be empty"):
        CreateIndexes("db", "coll", [])


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [
        ({}, {"update": {"x": 1}}, ValueError),
        ({}, {"update": {}}, ValueError),
        ({}, {"update": "x"}, TypeError),
        ({}, {"replacement": SET}, ValueError),
        ({}, {"replacement": []}, TypeError),
        ({}, {"update": SET, "array_filters": {}}, TypeError),
        (5, {}, TypeError),
    ],
)
def test_wrong_arguments_of_find_and_modify(query: Any, options: dict[str, Any], expected: type[Exception]) -> None:
    with pytest.raises(expected):
        FindAndModify("db", "coll", query, **options)


# --- replies ---


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (Find("db", "coll"), "firstBatch"),
        (Aggregate("db", "coll", []), "firstBatch"),
        (AggregateWrite("db", "coll", [{"$out": "x"}]), "firstBatch"),
        (ListCollections("db"), "firstBatch"),
        (ListIndexes("db", "coll"), "firstBatch"),
        (ListSearchIndexes("db", "coll", []), "firstBatch"),
        (RunCursorCommand("db", {"ping": 1}), "firstBatch"),
        (GetMore("db", "coll", 5, address=ADDRESS), "nextBatch"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_batch(operation: Operation[Any], field: str) -> None:
    whole = {"cursor": {"id": 7, "ns": "db.coll", field: [{"_id": 1}]}, "ok": 1}
    reply = operation.parse(whole)
    assert (reply.cursor_id, reply.namespace, reply.documents) == (7, "db.coll", [{"_id": 1}])
    assert reply.reply is whole


def first_batch(*documents: Any) -> dict[str, Any]:
    return {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": list(documents)}, "ok": 1}


UPDATE: Final = Update("db", "coll", update_statement({}, SET))
DELETE: Final = Delete("db", "coll", delete_statement({}))
INSERT: Final = Insert("db", "coll", {})
MODIFY: Final = FindAndModify[Any]("db", "coll", {}, update=SET)
VALIDATE: Final = Validate("db", "coll")
VALID, INVALID = {"ok": 1, "valid": True}, {"ok": 1, "valid": False}
SHARDS: Final = {"ok": 1, "raw": {"a": VALID, "b": INVALID}}
OPTIONS: Final = {"name": "coll", "options": {"capped": True}}


@pytest.mark.parametrize(
    ("operation", "reply", "expected"),
    [
        (FindOne("db", "coll"), first_batch({"_id": 1}), {"_id": 1}),
        (FindOne("db", "coll"), first_batch(), None),
        (CountDocuments("db", "coll", []), first_batch({"_id": 1, "n": 4}), 4),
        (CountDocuments("db", "coll", []), first_batch(), 0),
        (Count("db", "coll"), {"n": 3.0, "ok": 1}, 3),
        (Distinct("db", "coll", "x"), {"values": [1, "a"], "ok": 1}, [1, "a"]),
        (FindCollection("db", "coll"), first_batch(OPTIONS), OPTIONS),
        (FindCollection("db", "coll"), first_batch(), None),
        (BuildInfo(), {"version": "8.0.0"}, {"version": "8.0.0"}),
        (RunCommand("db", {"ping": 1}), {"ok": 1, "x": 2}, {"ok": 1, "x": 2}),
        (KillCursors("db", "c", [1], address=ADDRESS), {"cursorsKilled": [1]}, {"cursorsKilled": [1]}),
        (CreateIndexes("db", "coll", INDEXES), {"numIndexesAfter": 3, "ok": 1}, ["a_1", "by_b"]),
        (
            CreateSearchIndexes("db", "coll", SEARCH_INDEXES),
            {"indexesCreated": [{"id": "1", "name": "default"}, {"id": "2", "name": "mine"}]},
            ["default", "mine"],
        ),
        (Create("db", "coll"), {"ok": 1}, {"ok": 1}),
        (Rename("db", "a", "b"), {"ok": 1}, {"ok": 1}),
        (CommitTransaction(), {"ok": 1}, None),
        (AbortTransaction(), {"ok": 1}, None),
        (VALIDATE, VALID, (VALID, None)),
        (VALIDATE, INVALID, (INVALID, INVALID)),
        (VALIDATE, SHARDS, (SHARDS, INVALID)),
        (INSERT, {"n": 1, "ok": 1}, {"n": 1, "ok": 1}),
        (DELETE, {"n": 1, "ok": 1}, {"n": 1, "ok": 1}),
        (UPDATE, {"n": 1, "nModified": 1}, {"n": 1, "nModified": 1, "updatedExisting": True}),
        (
            UPDATE,
            {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": None}]},
            {"n": 1, "nModified": 0, "upserted": None, "updatedExisting": False},
        ),
        (UPDATE, {"n": 0, "nModified": 0}, {"n": 0, "nModified": 0, "updatedExisting": False}),
        (MODIFY, {"value": {"_id": 1}, "lastErrorObject": {}, "ok": 1}, {"_id": 1}),
        (MODIFY, {"value": None, "ok": 1}, None),
        (MODIFY, {"ok": 1}, None),
    ],
)
def test_result(operation: Operation[Any], reply: dict[str, Any], expected: Any) -> None:
    before = repr(reply)
    assert operation.parse(reply) == expected
    assert repr(reply) == before, "listeners are shown the reply as it was"


def test_results_without_a_cursor() -> None:
    databases = ListDatabases().parse({"databases": [{"name": "a"}], "totalSize": 5, "ok": 1})
    assert (databases.cursor_id, databases.documents, databases.reply["totalSize"]) == (0, [{"name": "a"}], 5)
    plan = {"queryPlanner": {}, "ok": 1}
    explained = Aggregate("db", "coll", [], options={"explain": True}).parse(plan)
    assert (explained.cursor_id, explained.documents) == (0, [plan])
    assert CreateIndexes("db", "coll", INDEXES).unacknowledged() == ["a_1", "by_b"]


@pytest.mark.parametrize(
    ("operation", "reply"),
    [
        (FindCollection("db", "coll"), first_batch({"name": "coll", "options": 5})),
        (VALIDATE, {"ok": 1, "raw": 5}),
        (VALIDATE, {"ok": 1, "raw": {"a": 5}}),
        (CreateSearchIndexes("db", "coll", SEARCH_INDEXES), {"ok": 1}),
        (CreateSearchIndexes("db", "coll", SEARCH_INDEXES), {"indexesCreated": [{"name": "default"}]}),
        (CreateSearchIndexes("db", "coll", SEARCH_INDEXES), {"indexesCreated": [{"name": "default"}, {"id": "2"}]}),
    ],
)
def test_malformed_replies(operation: Operation[Any], reply: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        operation.parse(reply)


LABEL: Final = "RetryableWriteError"
DOWN: Final = {"code": 91, "errmsg": "down"}
SLOW: Final = {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}


@pytest.mark.parametrize(
    "operation",
    [
        INSERT,
        UPDATE,
        DELETE,
        MODIFY,
        AggregateWrite("db", "coll", [{"$out": "other"}]),
        Create("db", "coll"),
        CreateIndexes("db", "coll", INDEXES),
        Drop("db", "coll"),
        Rename("db", "a", "b"),
        AbortTransaction(),
        CommitTransaction(),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_write_concern_errors(operation: Operation[Any]) -> None:
    reply = {**first_batch(), "n": 1, "errorLabels": [LABEL]}
    for concern, kind in ((DOWN, WriteConcernError), (SLOW, WTimeoutError)):
        with pytest.raises(WriteConcernError) as caught:
            operation.parse({**reply, "writeConcernError": concern})
        error = caught.value
        assert (type(error), error.code, error.reached_server) == (kind, concern["code"], True)
        unknown = {"UnknownTransactionCommitResult"} if isinstance(operation, CommitTransaction) else set()
        # The labels are the reply's, not those of one of its errors.
        assert error.error_labels == {LABEL} | unknown


def test_a_commit_that_can_never_have_the_write_concern_is_known() -> None:
    with pytest.raises(WriteConcernError) as caught:
        CommitTransaction().parse({"ok": 1, "writeConcernError": {"code": 79, "errmsg": "x"}})
    assert caught.value.error_labels == frozenset()


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE], ids=lambda operation: operation.name)
@pytest.mark.parametrize(("code", "kind"), [(11000, DuplicateKeyError), (121, WriteError)])
@pytest.mark.parametrize("others", [{}, {"writeConcernError": DOWN}], ids=["alone", "before a write concern error"])
def test_write_errors(operation: Operation[Any], code: int, kind: type[WriteError], others: dict[str, Any]) -> None:
    reply = {"n": 0, "writeErrors": [{"index": 0, "code": code, "errmsg": "x"}], "errorLabels": [LABEL], "ok": 1}
    with pytest.raises(WriteError) as caught:
        operation.parse({**reply, **others})
    error = caught.value
    assert (type(error), error.code, error.error_labels, error.reached_server) == (kind, code, {LABEL}, True)
