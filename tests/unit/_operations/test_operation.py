"""The contract between operations and the executor."""

from __future__ import annotations

from typing import Any

import pytest
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.son import SON

from motorlite._base.values import ServerFacts
from motorlite._operations.contract import Command, CursorReply, DocumentSequence, Kind, Operation, TimeLimit
from motorlite._topology.selection import WRITABLE
from motorlite.read_preferences import ReadPreference
from tests.support.operations import Read


class Unfinished(Operation[None]):
    """Declares only what has no default."""

    name = "unfinished"
    kind = Kind.READ


def test_defaults() -> None:
    operation = Unfinished("db")
    assert operation.selector is WRITABLE
    assert operation.read_preference is None
    assert operation.codec_options is DEFAULT_CODEC_OPTIONS
    assert operation.is_retryable is False
    assert operation.is_idempotent is False
    assert operation.supports_sessions is True
    assert operation.is_acknowledged is True
    assert operation.creates_cursor is False
    assert operation.pin is None
    assert operation.is_await_data is False
    assert operation.supports_after_cluster_time is False
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
