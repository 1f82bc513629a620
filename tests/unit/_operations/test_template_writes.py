"""Writes with a template do what the same writes without one do."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._connection.messages import LARGE, encode_around_large, encode_command
from motorlite._net.runtime import Parts
from motorlite._operations.single_writes import MANY_FIELDS, Delete, Insert, TemplateWrites, Update
from motorlite._operations.statements import delete_statement, replace_statement, update_statement
from motorlite.errors import DocumentTooLarge, DuplicateKeyError, ProtocolError, WTimeoutError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V8_0

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

DOCUMENTS: list[Any] = [
    {"_id": 1, "a": 1},
    {},
    SON(_id=1),
    RawBSONDocument(bson.encode({"_id": 1})),
    {"_id": 1, "documents": [1], "$db": 2},
]
UPDATES = [
    update_statement({"a": 1}, {"$set": {"b": 1}}),
    update_statement({}, [{"$set": {"b": 1}}], multi=True, upsert=True, array_filters=[{"x": 1}]),
    replace_statement(SON(a=1), {"b": 1}, collation={"locale": "de"}, hint="h", sort={"a": 1}),
]
DELETES = [
    delete_statement({"a": 1}),
    delete_statement({}, multi=True, collation={"locale": "de"}),
]
CONCERNS = [WriteConcern(), WriteConcern("majority", wtimeout=5), WriteConcern(1, j=True)]


def pairs(write_concern: WriteConcern, **options: Any) -> list[tuple[Operation[Any], Operation[Any]]]:
    """Operations with and without a template."""
    usual = TemplateWrites("db", "coll", write_concern=write_concern, **options)
    options["write_concern"] = write_concern
    return [
        *((usual.insert(one), Insert("db", "coll", one, **options)) for one in DOCUMENTS),
        *((usual.update(one), Update("db", "coll", one, **options)) for one in UPDATES),
        *((usual.delete(one), Delete("db", "coll", one, **options)) for one in DELETES),
    ]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_document_with_many_fields_is_not_copied(is_first: bool) -> None:
    fields = {str(number): {"date": datetime.datetime(2020, 1, 1)} for number in range(MANY_FIELDS)}
    document: dict[str, Any] = {"_id": 1, **fields} if is_first else {**fields, "_id": 1}
    operation = TemplateWrites("db", "coll").insert(document)
    assert operation.encoded == bson.encode({"_id": 1, **fields})
    sent = encode_around_large("documents", operation.encoded, (b"", b"\0"), 1, V8_0)
    assert sent == encode_command(
        {"documents": [{"_id": 1, **fields}]}, CodecOptions(), (), 1, V8_0, is_acknowledged=True
    )
    # Listeners get the whole document.
    command = operation.command(V8_0)
    assert command.document == Insert("db", "coll", document).command(V8_0).document
    assert next(iter(command.document["documents"][0])) == "_id"
    assert operation.size_hint() > MANY_FIELDS * 10


@pytest.mark.parametrize("size", [LARGE - 100, LARGE, V8_0.max_bson_object_size])
def test_a_large_document_is_a_part_of_its_message(size: int) -> None:
    document = {"_id": bytes(size)}
    encoded = bson.encode(document)
    sent = encode_around_large("documents", encoded, (b"", b"\0"), 1, V8_0)
    if size >= LARGE:
        assert isinstance(sent, Parts)
        assert sent.parts[1] is encoded
        sent = sent.joined()
    assert sent == encode_command({"documents": [document]}, CodecOptions(), (), 1, V8_0, is_acknowledged=True)


@pytest.mark.parametrize("write_concern", CONCERNS, ids=repr)
@pytest.mark.parametrize("facts", [V4_2, V8_0], ids=["4.2", "8.0"])
def test_the_same_command(write_concern: WriteConcern, facts: Any) -> None:
    codec_options: CodecOptions[Any] = CodecOptions(tz_aware=True)
    for usual, other in pairs(write_concern, codec_options=codec_options):
        one, two = usual.command(facts), other.command(facts)
        assert list(one.document.items()) == list(two.document.items())
        assert (one.name, one.sequences) == (two.name, two.sequences)
        for fact in ("database", "codec_options", "selector", "read_preference", "is_retryable", "namespace"):
            assert getattr(usual, fact) == getattr(other, fact), fact
        assert usual.is_acknowledged
        # The rest of the command is always about as large.
        assert 0 <= other.size_hint() - usual.size_hint() < 150


def test_the_whole_command_is_that_of_the_template() -> None:
    for usual, _ in pairs(WriteConcern("majority")):
        template, command = usual.template, usual.command(V8_0)
        assert template is not None
        around = template.before + bson.encode({template.varying: usual.varying})[4:-1] + template.after
        assert bson.decode(bson.encode(command.document)) == bson.decode(
            (len(around) + 5).to_bytes(4, "little") + around + b"\0"
        )


def test_commands_can_be_changed() -> None:
    """Limits take the wtimeout out of the write concern, and the executor adds fields."""
    usual = TemplateWrites("db", "coll", write_concern=WriteConcern("majority", wtimeout=5))
    operation = usual.insert({"_id": 1})
    document = operation.command(V8_0).document
    document["lsid"] = 1
    del document["writeConcern"]["wtimeout"]
    assert operation.command(V8_0).document == {
        "insert": "coll",
        "ordered": True,
        "documents": [{"_id": 1}],
        "writeConcern": {"w": "majority", "wtimeout": 5},
    }


def test_templates_are_shared() -> None:
    one, two = (TemplateWrites(database, "coll", write_concern=WriteConcern(2)) for database in "ab")
    assert one.insert({}).template is two.insert({}).template
    assert one.insert({}).template is not TemplateWrites("a", "coll").insert({}).template
    assert (
        one.insert({}).template is not TemplateWrites("a", "other", write_concern=WriteConcern(2)).insert({}).template
    )


def test_only_acknowledged_ones() -> None:
    assert TemplateWrites("db", "coll", write_concern=WriteConcern("majority")).are_possible
    assert not TemplateWrites("db", "coll", write_concern=WriteConcern(0)).are_possible


def test_replies() -> None:
    usual = TemplateWrites("db", "coll")
    insert, update, delete = usual.insert({}), usual.update(UPDATES[0]), usual.delete(DELETES[0])
    assert insert.parse({"n": 1, "ok": 1}) == {"n": 1, "ok": 1}
    reply = {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 5}], "ok": 1}
    assert update.parse(reply) == {"n": 1, "nModified": 0, "upserted": 5, "updatedExisting": False, "ok": 1}
    assert reply["upserted"] == [{"index": 0, "_id": 5}], "listeners have it too"
    assert update.parse({"n": 1, "nModified": 0, "ok": 1}) == {"n": 1, "nModified": 0, "updatedExisting": True, "ok": 1}
    assert update.parse({"n": 0, "upserted": [], "ok": 1}) == {"n": 0, "updatedExisting": False, "ok": 1}
    assert delete.parse({"n": 3, "ok": 1}) == {"n": 3, "ok": 1}
    for operation in (insert, update, delete):
        with pytest.raises(DuplicateKeyError):
            operation.parse({"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": ""}], "ok": 1})
        with pytest.raises(WTimeoutError):
            operation.parse({"n": 1, "writeConcernError": {"code": 64, "errmsg": "", "errInfo": {"wtimeout": True}}})
    for wrong in ("1", 1.5, -1, None, True):
        for operation in (update, delete):
            with pytest.raises(ProtocolError):
                operation.parse({"n": wrong, "ok": 1})


def test_a_large_document_is_refused_as_any_other() -> None:
    around = b"", b"\0"
    for size, is_refused in ((V8_0.max_bson_object_size + 16_000, False), (V8_0.max_bson_object_size + 20_000, True)):
        document = bson.encode({"_id": bytes(size)})
        if is_refused:
            with pytest.raises(DocumentTooLarge, match="the command has"):
                encode_around_large("documents", document, around, 1, V8_0)
        else:
            assert len(encode_around_large("documents", document, around, 1, V8_0)) > size


def test_a_large_document_fits_into_a_message() -> None:
    facts = replace(V8_0, max_bson_object_size=30_000, max_message_size=30_000)

    def message(size: int) -> bytes | Parts:
        return encode_around_large("documents", bson.encode({"_id": bytes(size)}), (b"", b"\0"), 1, facts)

    most = 30_000 - len(message(0))
    assert len(message(most)) == 30_000
    with pytest.raises(DocumentTooLarge, match="the message has 30001 bytes"):
        message(most + 1)
