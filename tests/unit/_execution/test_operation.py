"""The contract between operations and the executor."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.son import SON

import motorlite._operations
from motorlite._execution.operation import (
    WRITABLE,
    Command,
    CursorReply,
    DocumentSequence,
    Kind,
    Operation,
    ServerFacts,
    TimeLimit,
)
from motorlite.read_preferences import ReadPreference
from tests.unit._execution.operations import Read


def all_operations() -> list[type[Operation[Any]]]:
    """Every concrete operation of the package, by name."""
    modules = pkgutil.walk_packages(motorlite._operations.__path__, "motorlite._operations.")
    classes: dict[str, type[Operation[Any]]] = {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(kind, Operation) and hasattr(kind, "name") and kind.parse is not Operation.parse
    }
    return [classes[name] for name in sorted(classes)]


OPERATIONS = all_operations()
# By the retryable reads specification.
RETRYABLE = {
    "Aggregate",
    "Count",
    "CountDocuments",
    "Distinct",
    "Find",
    "FindCollection",
    "FindOne",
    "ListCollections",
    "ListDatabases",
    "ListIndexes",
    "ListSearchIndexes",
}
# Each instance decides: several documents or no acknowledgement, and it is not retryable.
DECIDE_THEMSELVES = {"Delete", "DeleteBatch", "FindAndModify", "Insert", "InsertBatch", "Update", "UpdateBatch"}


ALL = RETRYABLE | DECIDE_THEMSELVES


def test_what_the_ordinary_specifications_retry() -> None:
    found = {kind.__name__: kind for kind in OPERATIONS}
    assert {name for name, kind in found.items() if kind.is_retryable is True} == RETRYABLE
    slots = {name for name, kind in found.items() if inspect.isdatadescriptor(getattr(kind, "is_retryable"))}  # noqa: B009  # a slot hides the default
    assert slots == DECIDE_THEMSELVES
    assert {found[name].kind for name in RETRYABLE} == {Kind.READ}
    assert {found[name].kind for name in DECIDE_THEMSELVES} == {Kind.WRITE}


def test_what_opens_cursors() -> None:
    assert {kind.__name__ for kind in OPERATIONS if kind.creates_cursor} == {
        "Aggregate",
        "AggregateWrite",
        "Find",
        "ListCollections",
        "ListIndexes",
        "ListSearchIndexes",
        "RunCursorCommand",
    }


@pytest.mark.parametrize("kind", OPERATIONS)
def test_the_docstring_tells_about_retries(kind: type[Operation[Any]]) -> None:
    assert "Retry:" in (inspect.getdoc(kind) or "")


def test_what_counts_as_a_read_and_what_as_a_write() -> None:
    kinds = {
        kind: {
            operation.__name__ for operation in OPERATIONS if operation.kind is kind and operation.__name__ not in ALL
        }
        for kind in Kind
    }
    assert kinds == {
        Kind.READ: {"Explain", "GetMore", "KillCursors"},
        Kind.WRITE: {
            "AggregateWrite",
            "Create",
            "CreateIndexes",
            "CreateSearchIndexes",
            "Drop",
            "DropDatabase",
            "DropIndexes",
            "DropSearchIndex",
            "Rename",
            "UpdateSearchIndex",
        },
        Kind.COMMAND: {"BuildInfo", "EndSessions", "RunCommand", "RunCursorCommand", "Validate"},
    }


def test_defaults() -> None:
    operation = Read("db")
    assert operation.selector is WRITABLE
    assert operation.read_preference is None
    assert operation.codec_options is DEFAULT_CODEC_OPTIONS
    assert operation.is_idempotent is False
    assert operation.is_acknowledged is True
    assert operation.is_await_data is False
    assert operation.time_limit is TimeLimit.SEND
    assert operation.document_fields is None


def test_what_an_instance_is_given() -> None:
    preference = ReadPreference.SECONDARY
    codec_options: CodecOptions[SON[str, Any]] = CodecOptions(document_class=SON)
    operation = Read("db", selector=preference, read_preference=preference, codec_options=codec_options)
    assert operation.database == "db"
    assert operation.selector is preference
    assert operation.read_preference is preference
    assert operation.codec_options is codec_options


def test_an_operation_must_build_a_command() -> None:
    class Unfinished(Operation[None]):
        name = "unfinished"
        kind = Kind.READ

    operation = Unfinished("db")
    with pytest.raises(TypeError, match="Unfinished does not build a command"):
        operation.command(ServerFacts(("a", 1)))
    with pytest.raises(TypeError, match="Unfinished does not parse a reply"):
        operation.parse({"ok": 1})
    with pytest.raises(TypeError, match="Unfinished is always acknowledged"):
        operation.unacknowledged()


def test_a_command_and_its_sequences() -> None:
    sequence = DocumentSequence("documents", [b"x"])
    command = Command("insert", {"insert": "coll"}, (sequence,))
    assert (command.name, command.document, command.sequences) == ("insert", {"insert": "coll"}, (sequence,))
    assert Command("ping", {"ping": 1}).sequences == ()
    identifier, documents = sequence
    assert (identifier, documents) == ("documents", [b"x"])


@pytest.mark.parametrize("field", ["firstBatch", "nextBatch"])
def test_a_cursor_reply(field: str) -> None:
    raw = {"ok": 1, "cursor": {"id": 7, "ns": "db.coll", field: [{"_id": 1}]}}
    reply = CursorReply(raw, field)
    assert (reply.cursor_id, reply.namespace, reply.documents) == (7, "db.coll", [{"_id": 1}])
    assert reply.reply is raw


def test_a_cursor_that_is_closed_already_may_have_a_namespace() -> None:
    assert CursorReply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, "firstBatch").namespace == "db.coll"


def test_a_cursor_reply_without_a_namespace() -> None:
    assert CursorReply({"cursor": {"id": 0, "firstBatch": []}}, "firstBatch").namespace == ""
