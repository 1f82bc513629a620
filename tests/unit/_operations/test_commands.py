"""What each operation sends, with the fewest arguments and with all of them, and what it makes of the reply."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson.codec_options import CodecOptions
from bson.dbref import DBRef
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from motorlite._base.wire_versions import release
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
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.find import Find, FindOne
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
from motorlite._operations.reads import (
    Aggregate,
    AggregateWrite,
    Count,
    CountDocuments,
    Distinct,
    count_pipeline,
    has_write_stage,
    waits_for_data,
)
from motorlite._operations.sessions import (
    MAX_SESSIONS,
    AbortTransaction,
    CommitTransaction,
    EndSessions,
    session_batches,
)
from motorlite._operations.single_writes import Delete, FindAndModify, Insert, Update
from motorlite._operations.statements import delete_statement, update_statement
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
    from collections.abc import Callable

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
# Each argument, a value, and what that adds to the command.
OPTIONS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "allow_disk_use": (False, {"allowDiskUse": False}),
    "allow_partial_results": (True, {"allowPartialResults": True}),
    "array_filters": ([{"e": 1}], {"arrayFilters": [{"e": 1}]}),
    "authorized_collections": (False, {"authorizedCollections": False}),
    "authorized_databases": (False, {"authorizedDatabases": False}),
    "await_data": (True, {"awaitData": True}),
    "background": (False, {"background": False}),
    "batch_size": (5, {"batchSize": 5}),
    "batch_size_of_a_cursor": (5, {"cursor": {"batchSize": 5}}),
    "bypass_document_validation": (False, {"bypassDocumentValidation": False}),
    "collation": (LOCALE, {"collation": LOCALE}),
    "comment": ({"c": 1}, {"comment": {"c": 1}}),
    "commit_quorum": ("votingMembers", {"commitQuorum": "votingMembers"}),
    "filter": ({"name": "x"}, {"filter": {"name": "x"}}),
    "full": (True, {"full": True}),
    "hint": ({"x": 1}, {"hint": {"x": 1}}),
    "let": ({"a": 1}, {"let": {"a": 1}}),
    "limit": (20, {"limit": 20}),
    "max": ({"x": 9}, {"max": {"x": 9}}),
    "max_scan": (5, {"maxScan": 5}),
    "max_time_ms": (9, {"maxTimeMS": 9}),
    "min": ({"x": 0}, {"min": {"x": 0}}),
    "name_only": (True, {"nameOnly": True}),
    "no_cursor_timeout": (True, {"noCursorTimeout": True}),
    "oplog_replay": (True, {"oplogReplay": True}),
    "options": ({"serverOption": 1}, {"serverOption": 1}),
    "projection": ({"_id": 0}, {"projection": {"_id": 0}}),
    "projection_as_fields": ({"_id": 0}, {"fields": {"_id": 0}}),
    "read_concern": (ReadConcern("majority"), {"readConcern": {"level": "majority"}}),
    "return_key": (False, {"returnKey": False}),
    "return_new": (True, {"new": True}),
    "scandata": (True, {"scandata": True}),
    "show_record_id": (True, {"showRecordId": True}),
    "skip": (3, {"skip": 3}),
    "sort": ({"x": -1}, {"sort": {"x": -1}}),
    "tailable": (True, {"tailable": True}),
    "upsert": (True, {"upsert": True}),
    "write_concern": (WriteConcern("majority", wtimeout=5), {"writeConcern": {"w": "majority", "wtimeout": 5}}),
}
# Arguments that are not sent, and others that have no effect: on a batch size of 0, a pipeline would not be executed.
UNSENT: Final[dict[str, Any]] = {
    "find": {
        "read_concern": ReadConcern(),
        "no_cursor_timeout": False,
        "allow_partial_results": False,
        "oplog_replay": None,
        "tailable": False,
        "await_data": False,
        "min": None,
    },
    "a pipeline that writes": {"batch_size": 0},
    "a write": {"write_concern": WriteConcern()},
}

# Operations, what the shortest of their commands is, and the arguments that add something to it.
COMMANDS: Final[list[tuple[Callable[..., Operation[Any]], dict[str, Any], str]]] = [
    (partial(AbortTransaction), {"abortTransaction": 1}, ""),
    (partial(CommitTransaction), {"commitTransaction": 1}, ""),
    (partial(CommitTransaction, 0), {"commitTransaction": 1, "maxTimeMS": 0}, ""),
    (
        partial(Aggregate, "db", "coll", [{"$match": {}}]),
        {"aggregate": "coll", "pipeline": [{"$match": {}}], "cursor": {}},
        "batch_size_of_a_cursor allow_disk_use bypass_document_validation collation hint let comment max_time_ms"
        " read_concern options",
    ),
    (partial(Aggregate, "db", None, []), {"aggregate": 1, "pipeline": [], "cursor": {}}, ""),
    (
        partial(Aggregate, "db", "coll", [], batch_size=0),
        {"aggregate": "coll", "pipeline": [], "cursor": {"batchSize": 0}},
        "",
    ),
    # An explanation has no cursor.
    (
        partial(Aggregate, "db", "coll", [], options={"explain": True}),
        {"aggregate": "coll", "pipeline": [], "explain": True},
        "",
    ),
    *(
        (
            partial(AggregateWrite, "db", "coll", [{stage: "other"}], **UNSENT["a pipeline that writes"]),
            {"aggregate": "coll", "pipeline": [{stage: "other"}], "cursor": {}},
            "read_concern write_concern",
        )
        for stage in ("$out", "$merge")
    ),
    (partial(BuildInfo), {"buildInfo": 1}, ""),
    (partial(Count, "db", "coll"), {"count": "coll"}, "comment max_time_ms read_concern options"),
    (partial(Create, "db", "coll"), {"create": "coll"}, "options comment write_concern"),
    (
        partial(CreateIndexes, "db", "coll", INDEXES),
        {
            "createIndexes": "coll",
            "indexes": [{"name": "a_1", "key": {"a": 1}}, {"name": "by_b", "unique": True, "key": {"b": -1}}],
        },
        "commit_quorum comment max_time_ms options write_concern",
    ),
    (
        partial(CreateSearchIndexes, "db", "coll", SEARCH_INDEXES),
        {
            "createSearchIndexes": "coll",
            "indexes": [{"definition": {"mappings": {}}}, {"name": "mine", "definition": {}, "type": "search"}],
        },
        "comment max_time_ms",
    ),
    (
        partial(Delete, "db", "coll", delete_statement({"x": 1}), **UNSENT["a write"]),
        {"delete": "coll", "ordered": True, "deletes": [{"q": {"x": 1}, "limit": 1}]},
        "let comment write_concern",
    ),
    (
        partial(Distinct, "db", "coll", "x"),
        {"distinct": "coll", "key": "x", "query": {}},
        "collation hint comment max_time_ms read_concern options",
    ),
    (partial(Distinct, "db", "coll", "x", {"y": 1}), {"distinct": "coll", "key": "x", "query": {"y": 1}}, ""),
    (partial(Drop, "db", "coll"), {"drop": "coll"}, "comment write_concern"),
    (partial(DropDatabase, "db"), {"dropDatabase": 1}, "comment write_concern"),
    (
        partial(DropIndexes, "db", "coll", "a_1"),
        {"dropIndexes": "coll", "index": "a_1"},
        "comment max_time_ms options write_concern",
    ),
    (partial(DropIndexes, "db", "coll", ALL_INDEXES), {"dropIndexes": "coll", "index": "*"}, ""),
    (partial(DropIndexes, "db", "coll", {"a": 1}), {"dropIndexes": "coll", "index": {"a": 1}}, ""),
    (
        partial(DropSearchIndex, "db", "coll", "mine"),
        {"dropSearchIndex": "coll", "name": "mine"},
        "comment max_time_ms",
    ),
    (partial(EndSessions, SESSIONS[:2]), {"endSessions": [{"id": 0}, {"id": 1}]}, ""),
    (
        partial(Find, "db", "coll", **UNSENT["find"]),
        {"find": "coll", "filter": {}},
        "filter projection sort skip limit batch_size hint collation let min max max_scan return_key show_record_id"
        " no_cursor_timeout allow_disk_use allow_partial_results oplog_replay tailable await_data comment max_time_ms"
        " read_concern",
    ),
    (
        partial(FindOne, "db", "coll", {"_id": 1}, limit=9, batch_size=4),
        {"find": "coll", "filter": {"_id": 1}, "limit": 1, "singleBatch": True},
        "sort skip",
    ),
    (
        partial(FindAndModify, "db", "coll", {"a": 1}),
        {"findAndModify": "coll", "query": {"a": 1}, "remove": True},
        "sort hint collation let comment max_time_ms options write_concern projection_as_fields",
    ),
    (
        partial(FindAndModify, "db", "coll", {}, replacement={}),
        {"findAndModify": "coll", "query": {}, "update": {}},
        "upsert return_new",
    ),
    (
        partial(FindAndModify, "db", "coll", {}, update=SET),
        {"findAndModify": "coll", "query": {}, "update": SET},
        "upsert return_new array_filters bypass_document_validation",
    ),
    (
        partial(FindCollection, "db", "coll"),
        {"listCollections": 1, "cursor": {}, "filter": {"name": "coll"}},
        "name_only comment",
    ),
    (
        partial(GetMore, "db", "coll", 2**40, address=ADDRESS),
        {"getMore": 2**40, "collection": "coll"},
        "batch_size comment",
    ),
    (
        partial(GetMore, "db", "coll", 5, address=ADDRESS, is_await_data=True, max_await_time_ms=0),
        {"getMore": 5, "collection": "coll", "maxTimeMS": 0},
        "",
    ),
    *(
        (
            partial(Insert, "db", "coll", document, **UNSENT["a write"]),
            {"insert": "coll", "ordered": True, "documents": [document]},
            "bypass_document_validation comment write_concern",
        )
        for document in ({"_id": 1}, RAW)
    ),
    (partial(KillCursors, "db", "coll", [1, 2], address=ADDRESS), {"killCursors": "coll", "cursors": [1, 2]}, ""),
    (
        partial(ListCollections, "db"),
        {"listCollections": 1, "cursor": {}},
        "filter name_only authorized_collections batch_size_of_a_cursor comment max_time_ms options",
    ),
    (
        partial(ListDatabases),
        {"listDatabases": 1},
        "filter name_only authorized_databases comment max_time_ms options",
    ),
    (
        partial(ListIndexes, "db", "coll"),
        {"listIndexes": "coll", "cursor": {}},
        "batch_size_of_a_cursor comment max_time_ms options",
    ),
    # The command takes no read concern.
    (
        partial(ListSearchIndexes, "db", "coll", search_index_stages(), read_concern=ReadConcern("majority")),
        {"aggregate": "coll", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}},
        "batch_size_of_a_cursor comment max_time_ms",
    ),
    (
        partial(ListSearchIndexes, "db", "coll", search_index_stages("mine")),
        {"aggregate": "coll", "pipeline": [{"$listSearchIndexes": {"name": "mine"}}], "cursor": {}},
        "",
    ),
    (
        partial(Rename, "db", "a", "b"),
        {"renameCollection": "db.a", "to": "db.b"},
        "comment options write_concern",
    ),
    # Always acknowledged, whatever the collection's writes are.
    (partial(Rename, "db", "a", "b", write_concern=UNACKNOWLEDGED), {"renameCollection": "db.a", "to": "db.b"}, ""),
    (
        partial(Update, "db", "coll", update_statement({"_id": 1}, SET), **UNSENT["a write"]),
        {"update": "coll", "ordered": True, "updates": [{"q": {"_id": 1}, "u": SET}]},
        "bypass_document_validation let comment write_concern",
    ),
    (
        partial(UpdateSearchIndex, "db", "coll", "mine", {"mappings": {}}),
        {"updateSearchIndex": "coll", "name": "mine", "definition": {"mappings": {}}},
        "comment max_time_ms",
    ),
    (
        partial(Validate, "db", "coll"),
        {"validate": "coll", "scandata": False, "full": False},
        "scandata full background comment",
    ),
]


@pytest.mark.parametrize(("make", "document", "options"), COMMANDS, ids=[next(iter(row[1])) for row in COMMANDS])
def test_command(make: Callable[..., Operation[Any]], document: dict[str, Any], options: str) -> None:
    assert sent(make()) == document
    assert make().command(V7_0).sequences == ()
    arguments, expected = {}, document
    for option in options.split():
        value, added = OPTIONS[option]
        name = option.removesuffix("_of_a_cursor").removesuffix("_as_fields")
        assert sent(make(**{name: value})) == {**document, **added}
        arguments[name] = value
        expected = {**expected, **added}
    assert sent(make(**arguments)) == expected


GIVEN: Final[dict[str, Any]] = {
    "selector": ReadPreference.NEAREST,
    "read_preference": ReadPreference.SECONDARY,
    "codec_options": CodecOptions(tz_aware=True),
    "time_limit": TimeLimit.OMIT,
}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (partial(Find, "db", "coll"), "selector read_preference codec_options time_limit"),
        (partial(Aggregate, "db", "coll", []), "selector read_preference time_limit"),
        (partial(AggregateWrite, "db", "coll", []), "selector"),
        (partial(ListCollections, "db"), "selector time_limit"),
        (partial(ListIndexes, "db", "coll"), "time_limit"),
        (partial(GetMore, "db", "coll", 5, address=ADDRESS), "read_preference"),
        (partial(RunCommand, "db", {"ping": 1}), "selector"),
        (partial(EndSessions, []), "selector"),
    ],
)
def test_what_an_operation_is_given(make: Callable[..., Operation[Any]], names: str) -> None:
    given = {name: GIVEN[name] for name in names.split()}
    operation = make(**given)
    assert {name: getattr(operation, name) for name in given} == given


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        (Find("db", "coll"), {"database": "db", "selector": WRITABLE, "read_preference": None}),
        (GetMore("db", "coll", 5, address=ADDRESS, is_await_data=True), {"selector": ADDRESS, "is_await_data": True}),
        *((made, {"database": "admin"}) for made in (ListDatabases(), Rename("db", "a", "b"), EndSessions([]))),
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
)
def test_what_follows_from_it(operation: Operation[Any], facts: dict[str, Any]) -> None:
    assert {name: getattr(operation, name) for name in facts} == facts


NEED: Final = " needs MongoDB 4.4 (wire version 9), but db1.test:27017 is MongoDB 4.2 (wire version 8)"


@pytest.mark.parametrize(
    ("operation", "option"),
    [
        (Find("db", "coll", allow_disk_use=False), "allow_disk_use"),
        (Find("db", "coll", allow_disk_use=True), "allow_disk_use"),
        (CreateIndexes("db", "coll", INDEXES, commit_quorum=1), "commitQuorum"),
        (CreateIndexes("db", "coll", INDEXES, options={"commitQuorum": 1}), "commitQuorum"),
        *(
            row
            for concern in (None, UNACKNOWLEDGED)
            for row in (
                (Delete("db", "coll", delete_statement({}, hint="x"), write_concern=concern), "hint of a delete"),
                (FindAndModify[Any]("db", "coll", {}, hint="x", write_concern=concern), "hint of findAndModify"),
            )
        ),
    ],
)
def test_what_older_servers_lack(operation: Operation[Any], option: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(option + NEED)):
        operation.command(V4_2)
    sent(operation, V4_4)


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


def test_find_and_modify_returns_a_reference() -> None:
    found = DBRef("c", 1)  # a stored document with $ref and $id
    operation: FindAndModify[Any] = FindAndModify("db", "coll", {})
    assert operation.parse({"value": found}) is found


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
DESCRIBED: Final = {"name": "coll", "options": {"capped": True}}


@pytest.mark.parametrize(
    ("operation", "reply", "expected"),
    [
        (FindOne("db", "coll"), first_batch({"_id": 1}), {"_id": 1}),
        (FindOne("db", "coll"), first_batch(), None),
        (CountDocuments("db", "coll", []), first_batch({"_id": 1, "n": 4}), 4),
        (CountDocuments("db", "coll", []), first_batch(), 0),
        (Count("db", "coll"), {"n": 3.0, "ok": 1}, 3),
        (Distinct("db", "coll", "x"), {"values": [1, "a"], "ok": 1}, [1, "a"]),
        (FindCollection("db", "coll"), first_batch(DESCRIBED), DESCRIBED),
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
    assert (type(error), error.code, error.error_labels, error.reached_server) == (kind, code, frozenset({LABEL}), True)
