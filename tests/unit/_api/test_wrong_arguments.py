"""Wrong arguments of clients, databases and collections are explained, and nothing is sent."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncCollection, AsyncDatabase, CursorType, DeleteOne, IndexModel, SearchIndexModel
from motorlite.errors import ConfigurationError, InvalidName

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fake_core import Collection, FakeCore

pytestmark = pytest.mark.anyio

CHANGE = {"$set": {"a": 1}}
TAILABLE = {"find": "things", "tailable": True, "awaitData": True}
NO_MODELS: list[Any] = ["a", {}, {"name": "mine"}, [SearchIndexModel({})], None]
NO_LISTS: list[Any] = ["a", ["a"], SearchIndexModel({}), [{"definition": {}}], {}]

# Methods of collections, with what they are called with.
OF_COLLECTIONS: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("find", [3], {}, TypeError, "filter must be .*, not 3"),
    ("find", [], {"limitt": 5}, TypeError, r"limitt=5; did you mean limit\?$"),
    ("find", [], {"batch_size": -1}, ValueError, "batch_size must be an integer of at least 0, not -1"),
    ("find", [], {"skip": "1"}, TypeError, "skip must be an integer, not '1'"),
    ("find", [], {"skip": ""}, TypeError, "skip must be an integer, not ''"),
    ("find", [], {"limit": {}}, TypeError, "limit must be an integer, not {}"),
    ("find", [], {"sort": 5}, TypeError, "sort must be .*, not 5"),
    ("find", [], {"cursor_type": 65}, ValueError, "cursor_type must be CursorType.*, not 65"),
    ("find", [], {"max_time_ms": "x"}, TypeError, r"max_time_ms must be .*, not 'x'"),
    ("find", [], {"allow_disk_use": 1}, TypeError, "allow_disk_use must be True or False, not 1"),
    ("find", [], {"timeoutMS": -1}, ValueError, r"timeoutMS must be .*, not -1"),
    ("find", [], {"timeoutMS": 5, "timeoutMode": "x"}, ValueError, r"timeoutMode must be .*, not 'x'"),
    (
        *("find", [], {"cursor_type": CursorType.TAILABLE, "timeoutMS": 5, "timeoutMode": "cursorLifetime"}),
        *(ConfigurationError, "tailable"),
    ),
    ("find_one", [{}], {"sorted": 1}, TypeError, r"find_one\(\) has no option sorted=1; did you mean sort\?"),
    ("count_documents", [3], {}, TypeError, "filter must be .*, not 3"),
    ("count_documents", [{}], {"limit": -1}, ValueError, "limit must be .*, not -1"),
    ("count_documents", [{}], {"limits": 1}, TypeError, "did you mean limit"),
    ("estimated_document_count", [], {"max_time_ms": 5}, TypeError, r"max_time_ms=5; did you mean maxTimeMS\?"),
    ("distinct", [3], {}, TypeError, "key must be .*, not 3"),
    ("distinct", ["a", 3], {}, TypeError, "filter must be .*, not 3"),
    ("distinct", ["a"], {"maxTimeMS": "x"}, TypeError, "maxTimeMS must be .*, not 'x'"),
    ("aggregate", [{}], {}, TypeError, "pipeline must be .*, not {}"),
    ("aggregate", [[3]], {}, TypeError, r"pipeline must be .*, not \[3\]"),
    ("aggregate", [[]], {"allowDisk": True}, TypeError, r"did you mean allowDiskUse\?"),
    ("aggregate", [[]], {"let": 3}, TypeError, "let must be .*, not 3"),
    ("aggregate", [[]], {"batchSize": -1}, ValueError, "batchSize must be .*, not -1"),
    (
        *("aggregate", [[{"$out": "x"}]], {"timeoutMS": 5, "timeoutMode": "iteration"}),
        *(ConfigurationError, r"\$out or \$merge"),
    ),
    ("insert_one", [3], {}, TypeError, "document must be"),
    ("insert_many", [{"a": 1}], {}, TypeError, r"documents must be .*, not "),
    ("insert_many", [[3]], {}, TypeError, r"documents\[0\] must be .*, not 3"),
    ("insert_many", [[]], {}, TypeError, "at least one document"),
    ("insert_many", [[{}]], {"ordered": 1}, TypeError, "ordered must be .*, not 1"),
    ("update_one", [3, CHANGE], {}, TypeError, "filter must be"),
    ("update_one", [{}, {"a": 1}], {}, ValueError, "update must begin"),
    ("update_one", [{}, {}], {}, ValueError, "update must not be empty"),
    ("update_one", [{}, CHANGE], {"upsert": 1}, TypeError, "upsert must be .*, not 1"),
    ("update_one", [{}, CHANGE], {"let": []}, TypeError, r"let must be .*, not \[\]"),
    ("update_many", [{}, {"a": 1}], {}, ValueError, "update must begin"),
    ("update_many", [{}, CHANGE], {"let": 1}, TypeError, "let must be .*, not 1"),
    ("replace_one", [{}, CHANGE], {}, ValueError, "replacement must not begin"),
    ("replace_one", [{}, {}], {"let": 0}, TypeError, "let must be .*, not 0"),
    ("delete_one", [3], {}, TypeError, "filter must be"),
    ("delete_one", [{}], {"let": "x"}, TypeError, "let must be .*, not 'x'"),
    ("delete_many", [{}], {"collation": 3}, TypeError, "collation must be"),
    ("delete_many", [{}], {"let": 1}, TypeError, "let must be .*, not 1"),
    ("find_one_and_update", [{}, {"a": 1}], {}, ValueError, "update must begin"),
    ("find_one_and_update", [{}, CHANGE], {"return_document": 1}, TypeError, "return_document must be .*, not 1"),
    ("find_one_and_update", [{}, CHANGE], {"let": 1}, TypeError, "let must be .*, not 1"),
    ("find_one_and_replace", [{}, CHANGE], {}, ValueError, "replacement must not begin"),
    ("find_one_and_replace", [{}, {}], {"let": 1}, TypeError, "let must be .*, not 1"),
    ("find_one_and_delete", [{}], {"colation": 1}, TypeError, r"did you mean collation\?"),
    ("find_one_and_delete", [{}], {"sort": 3}, TypeError, "sort must be .*, not 3"),
    ("find_one_and_delete", [{}], {"let": 1}, TypeError, "let must be .*, not 1"),
    ("bulk_write", [[3]], {}, TypeError, r"requests\[0\]: a write request must be .*, not 3"),
    ("bulk_write", [[DeleteOne({})]], {"let": 1}, TypeError, "let must be a mapping, not 1"),
    ("bulk_write", [[]], {"ordered": 1}, TypeError, "ordered must be .*, not 1"),
    ("watch", [{}], {}, TypeError, "^pipeline must be "),
    ("watch", [0], {}, TypeError, "^pipeline must be "),
    ("watch", [["$match"]], {}, TypeError, "^pipeline must be "),
    ("watch", [], {"full_document": 1}, TypeError, "^full_document must be "),
    ("watch", [], {"full_document_before_change": b"off"}, TypeError, "^full_document_before_change must be "),
    ("watch", [], {"resume_after": "token"}, TypeError, "^resume_after must be "),
    ("watch", [], {"start_after": 5}, TypeError, "^start_after must be "),
    ("watch", [], {"start_at_operation_time": 5.0}, TypeError, "^start_at_operation_time must be "),
    ("watch", [], {"max_await_time_ms": -1}, ValueError, "^max_await_time_ms must be "),
    ("watch", [], {"max_await_time_ms": float("nan")}, ValueError, "^max_await_time_ms must be "),
    ("watch", [], {"max_await_time_ms": 2**63}, ValueError, "^max_await_time_ms must be "),
    ("watch", [], {"max_await_time_ms": "1"}, TypeError, "^max_await_time_ms must be "),
    ("watch", [], {"batch_size": -1}, ValueError, "^batch_size must be "),
    ("watch", [], {"batch_size": 1.5}, TypeError, "^batch_size must be "),
    ("watch", [], {"collation": 5}, TypeError, "^collation must be "),
    ("watch", [], {"show_expanded_events": 1}, TypeError, "^show_expanded_events must be "),
    ("watch", [], {"timeoutMS": -1}, ValueError, "^timeoutMS must be "),
    ("watch", [], {"timeoutMS": "5"}, TypeError, "^timeoutMS must be "),
    ("create_indexes", ["a"], {}, TypeError, "a list of IndexModel"),
    ("create_indexes", [["a"]], {}, TypeError, "a list of IndexModel"),
    ("create_indexes", [IndexModel("a")], {}, TypeError, "a list of IndexModel"),
    ("drop_index", ["*"], {}, ValueError, r"drop_indexes\(\)"),
    ("drop_index", ["x"], {"maxTime": 3}, TypeError, "no option maxTime=3"),
    ("rename", ["a..b"], {}, InvalidName, "names? "),
    *(
        ("create_search_index", [model], {}, TypeError, "^model must be a SearchIndexModel, or a mapping with `def")
        for model in NO_MODELS
    ),
    ("create_search_index", [{"definition": 5}], {}, TypeError, "definition must be a mapping"),
    *(
        ("create_search_indexes", [models], {}, TypeError, "^models must be a list of SearchIndexModel")
        for models in NO_LISTS
    ),
    ("update_search_index", [5, {}], {}, TypeError, "^name must be .*, not 5"),
    ("update_search_index", ["a", 5], {}, TypeError, "^definition must be .*, not 5"),
    ("drop_search_index", [5], {}, TypeError, "^name must be .*, not 5"),
    ("list_search_indexes", [5], {}, TypeError, "^name must be .*, not 5"),
    ("list_search_indexes", [], {"timeoutMode": "iteration"}, ConfigurationError, "timeoutMode"),
    ("with_options", [], {"codec_options": 3}, TypeError, "codec_options must be "),
    ("with_options", [], {"read_preference": "nearest"}, TypeError, "read_preference must be "),
    ("with_options", [], {"write_concern": {"w": 1}}, TypeError, "write_concern must be "),
    ("with_options", [], {"read_concern": "local"}, TypeError, "read_concern must be "),
    ("with_options", [], {"timeoutMS": -1}, ValueError, "timeoutMS must be "),
]

# Calls of databases and clients.
OF_OTHERS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda db: db.command(3), TypeError, "command must be .*, not 3"),
    (lambda db: db.command("x", read_preference="nearest"), TypeError, "read_preference must be .*, not 'nearest'"),
    (lambda db: db.command("x", codec_options=3), TypeError, "codec_options must be .*, not 3"),
    (lambda db: db.command({}), ValueError, "must not be empty"),
    (lambda db: db.cursor_command("find", timeoutMode="iteration"), ConfigurationError, "timeoutMS is not set"),
    (lambda db: db.cursor_command("find", codec_options=3), TypeError, "codec_options must be .*, not 3"),
    (lambda db: db.cursor_command("find", read_preference=3), TypeError, "read_preference must be .*, not 3"),
    (lambda db: db.cursor_command("find", max_await_time_ms=-1), ValueError, "max_await_time_ms must be .*, not -1"),
    *(
        (
            lambda db, command=command, options=options: db.cursor_command(
                command, timeoutMS=500, timeoutMode="cursorLifetime", **options
            ),
            *(ConfigurationError, "tailable"),
        )
        for command, options in ((TAILABLE, {}), ("find", {"cursor_type": CursorType.TAILABLE}))
    ),
    (lambda db: db.list_collections(filter=3), TypeError, "filter must be .*, not 3"),
    (lambda db: db.list_collection_names(filter=db.things), TypeError, "filter must be .*, not "),
    (lambda db: db.create_collection("x", caped=True), TypeError, r"did you mean capped\?"),
    (lambda db: db.create_collection("a..b"), InvalidName, "names? "),
    (lambda db: db.drop_collection(3), TypeError, "name_or_collection must be a collection or its name, not 3"),
    # Other objects have a name too.
    (lambda db: db.drop_collection(db), TypeError, "name_or_collection must be a collection or its name, not "),
    (lambda db: db.validate_collection(db), TypeError, "name_or_collection must be a collection or its name, not "),
    (lambda db: db.client.drop_database(db.x), TypeError, "name_or_database must be a database or its name, not "),
    (lambda db: db.client.drop_database(Path("x")), TypeError, "name_or_database must be a database or its name, not "),
    (lambda db: db.dereference(3), TypeError, "dbref must be .*, not 3"),
    (lambda db: db.with_options(codec_options=3), TypeError, "codec_options must be "),
    (lambda db: db.with_options(read_preference="nearest"), TypeError, "read_preference must be "),
    (lambda db: db.with_options(write_concern={"w": 1}), TypeError, "write_concern must be "),
    (lambda db: db.with_options(read_concern="local"), TypeError, "read_concern must be "),
    (lambda db: db.with_options(timeoutMS=-1), ValueError, "timeoutMS must be "),
    (lambda db: db["a..b"], InvalidName, "names? "),
    (lambda db: AsyncCollection(3, "x"), TypeError, "database must be .*, not 3"),  # type: ignore[arg-type]
    (lambda db: db.client["a b"], InvalidName, "names? "),
    (lambda db: AsyncDatabase(3, "x"), TypeError, "client must be .*, not 3"),  # type: ignore[arg-type]
    (lambda db: db.client.append_metadata("odm"), TypeError, "driver_info must be .*, not 'odm'"),
    (lambda db: db.client.list_databases(nameonly=True), TypeError, r"did you mean nameOnly\?"),
    (lambda db: db.client.drop_database(3), TypeError, "name_or_database must be a database or its name, not 3"),
    (lambda db: db.client.start_session(1), TypeError, "causal_consistency must be .*, not 1"),
    (lambda db: db.client.start_session().advance_operation_time(3), TypeError, "must be .*, not "),
    (lambda db: db.client.start_session().advance_cluster_time(3), TypeError, "must be .*, not "),
    (lambda db: db.client.start_session().advance_cluster_time({"clusterTime": 3}), ValueError, "must be .*, not "),
]


async def check(core: FakeCore, call: Callable[[], Any], error: type[Exception], message: str) -> None:
    async def perform() -> None:
        result = call()
        if inspect.isawaitable(result):
            await result

    with pytest.raises(error, match=message):
        await perform()
    assert core.executor.sent == []


@pytest.mark.parametrize(("method", "arguments", "options", "error", "message"), OF_COLLECTIONS)
async def test_of_collections(
    coll: Collection,
    core: FakeCore,
    method: str,
    arguments: list[Any],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    await check(core, lambda: getattr(coll, method)(*arguments, **options), error, message)


@pytest.mark.parametrize(("call", "error", "message"), OF_OTHERS)
async def test_of_databases_and_clients(
    db: AsyncDatabase[Any], core: FakeCore, call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    await check(core, lambda: call(db), error, message)
