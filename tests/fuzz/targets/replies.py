"""What servers reply to operations: errors, cursors, bulk writes, changes."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.dbref import DBRef
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.error_documents import NOT_PRIMARY_CODES, RETRYABLE, RETRYABLE_READ_CODES, SYSTEM_OVERLOADED
from motorlite._base.values import Progress, ServerFacts
from motorlite._operations.bulk import BATCHES, BulkResult, ordered_runs
from motorlite._operations.change_stream import Position, WatchMore, is_resumable, post_batch_token
from motorlite._operations.client_bulk import ClientBulkBatch, ClientBulkResult, MoreResults, statement_of
from motorlite._operations.cursors import GetMore, opened_by
from motorlite._operations.find import Find
from motorlite._operations.slices import all_at_once
from motorlite._retry.classification import is_retryable_concern_error, leaves_unknown
from motorlite._retry.decision import Again, Ask, Retry, RetrySettings
from motorlite._retry.failure import Failure
from motorlite._topology.error_handling import ErrorFacts, on_error
from motorlite._topology.server_description import ServerDescription
from motorlite._wire import slices
from motorlite._wire.documents import decode_reply
from motorlite._wire.replies import check_write, concern_error, error_from_reply, first_document, is_namespace, labels
from motorlite._wire.slices import decode_in_slices, decode_unread
from motorlite.errors import (
    ClientBulkWriteException,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    WriteConcernError,
    WriteError,
    detached,
)
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from motorlite.results import BulkWriteResult, UpdateResult
from motorlite.retry import OverloadRetry, RetryBudget
from tests.fuzz.mutation import documents
from tests.fuzz.target import Form, Limit, Target
from tests.support.operations import other, read, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._base.values import Document

_ADDRESS: Final = ("a", 27017)
_FACTS: Final = ServerFacts(_ADDRESS, max_wire_version=25)
_WIRE_VERSIONS: Final = (8, 9, 21, 25)


def _decoded(body: bytes, fields: Mapping[str, Any] | None = None) -> Document | None:
    """A reply as a connection decodes it; None if that raises one of its errors."""
    try:
        return decode_reply(body, DEFAULT_CODEC_OPTIONS, fields)
    except (ProtocolError, InvalidBSON):
        return None


def _shows(error: PyMongoError) -> None:
    """Check that an error can be shown, copied and stored."""
    assert str(error)
    assert repr(error)
    for twin in (copy.copy(error), detached(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.error_labels == error.error_labels


# --- errors ---

_POLICIES: Final = (OverloadRetry(), OverloadRetry.revision_2026_07())
_OPERATIONS: Final = (read(), write(), other())


def errors(data: bytes) -> None:
    """A reply with an error; the first byte chooses the operation, the server and the client's policy.

    It becomes an error of the driver, never another exception. Labels come from the server alone; a retry needs a rule
    for its labels or its code, waits ten seconds at most, and the retries come to an end.
    """
    if not data:
        return
    choice, reply = data[0], _decoded(data[1:])
    if reply is None:
        return
    version = _WIRE_VERSIONS[choice & 3]
    error = error_from_reply(reply, version, bool(choice & 4))
    _shows(error)
    if choice > 240:
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    sent = _labels_of(reply)
    if isinstance(error, WriteConcernError):  # which may have labels of its own
        sent |= _labels_of(reply["writeConcernError"])
    assert error.error_labels <= sent
    _retries(error, choice, version)
    effect = on_error(_KNOWN, ErrorFacts(error=error))
    if isinstance(error, OperationFailure) and error.code is not None and error.code not in NOT_PRIMARY_CODES:
        assert effect.description is None
    _successes(reply, version)


def _labels_of(document: Mapping[str, Any]) -> set[str]:
    found = document.get("errorLabels")
    return {str.__str__(each) for each in found if isinstance(each, str)} if isinstance(found, list) else set()


_KNOWN: Final = ServerDescription.from_hello(
    _ADDRESS, {"ok": 1, "maxWireVersion": 21}, round_trip_time=0.1, min_round_trip_time=0.1, now=0
)


def _retries(error: PyMongoError, choice: int, version: int) -> None:
    operation, policy = _OPERATIONS[(choice >> 3) % 3], _POLICIES[choice >> 5 & 1]
    error.reached_server = True
    failure = Failure(
        error=error,
        progress=Progress.ANSWERED,
        address=_ADDRESS,
        wire_version=version,
        labels=error.error_labels,
        is_ordinary=operation.is_retryable,
    )
    budget = RetryBudget(10)
    settings = RetrySettings(policy, budget, lambda: 1.0, retry_reads=True, retry_writes=True)
    retry = Retry(settings, operation, NO_DEADLINE)
    decision = retry.after(failure, 1.0)
    for attempt in range(12):
        if not isinstance(decision, Again):
            break
        assert 0 <= decision.delay <= 10
        code = getattr(error, "code", None)
        assert (
            error.has_error_label(RETRYABLE)
            or error.has_error_label("RetryableWriteError")
            or (code in RETRYABLE_READ_CODES)
        )
        if error.has_error_label(SYSTEM_OVERLOADED) and not policy.needs_both_labels:
            assert error.has_error_label(RETRYABLE)
        assert attempt < 6, "retries without end"
        decision = retry.after(failure, 1.0)
    assert not isinstance(decision, Ask)
    assert 0 <= budget.tokens <= 10
    raised = retry.describe(decision.failure.annotate()) if not isinstance(decision, Again) else error
    assert raised.retry_after is None or raised.retry_after > 0
    assert str(raised)


def _successes(reply: Document, version: int) -> None:
    """The errors of a reply with ``ok: 1``, as single writes read it."""
    found: PyMongoError | None = None
    try:
        check_write(reply)
        concern_error(reply)
        labels(reply)
    except (WriteError, WriteConcernError) as error:
        found = error
    except ProtocolError:
        return
    if isinstance(reply.get("writeConcernError"), dict):
        is_retryable_concern_error(reply, version, is_mongos=False)
    if found is not None:
        _shows(found)
        leaves_unknown(found, write())


_ERROR: Final[Document] = {
    "ok": 0.0,
    "code": 462,
    "codeName": "IngressRequestRateLimitExceeded",
    "errmsg": "too many requests",
    "errorLabels": [SYSTEM_OVERLOADED, RETRYABLE],
    "baseBackoffMS": 100,
    "topologyVersion": {"processId": bson.ObjectId(bytes(12)), "counter": 1},
}
_CONCERN_ERROR: Final[Document] = {"code": 64, "errmsg": "waiting", "errInfo": {"wtimeout": True}}
_ERRORS: Final[tuple[Document, ...]] = (
    _ERROR,
    {**_ERROR, "errorLabels": [SYSTEM_OVERLOADED]},
    {**_ERROR, "errorLabels": [RETRYABLE, "NoWritesPerformed"]},
    {"ok": 0, "code": 10107, "errmsg": "not primary", "errorLabels": ["RetryableWriteError"]},
    {"ok": 0, "code": 11600, "errmsg": "node is recovering", "writeConcernError": _CONCERN_ERROR},
    {"ok": 0, "$err": "not master"},
    {"ok": 0, "code": 11000, "errmsg": "E11000", "keyPattern": {"a": 1}, "keyValue": {"a": 1}},
    {"ok": 0, "code": 50, "errmsg": "time"},
    {"ok": 0, "code": 43, "errmsg": "cursor"},
    {"ok": 0, "code": 6, "errmsg": "x", "errorLabels": ["TransientTransactionError"]},
    {"ok": 1, "n": 1, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}], "errorLabels": ["a"]},
    {"ok": 1, "n": 1, "writeConcernError": _CONCERN_ERROR, "errorLabels": ["RetryableWriteError"]},
    {"ok": 1, "n": 1, "writeConcernError": {"code": 91, "errmsg": "shutdown"}},
)
_ERROR_SEEDS: Final = [
    bytes([(number * 29 + more) % 256]) + bson.encode(reply) for number, reply in enumerate(_ERRORS) for more in (0, 40)
]
# A write concern error that is preferred to the other one, and has labels of its own.
_ERROR_SEEDS.append(b"\xad" + bson.encode({"writeConcernError": {"errorLabels": [""]}}))

# --- cursors ---

# Bytes of a slice, instead of 256 KiB.
_SLICE: Final = 48
_OPTIONS: Final = (
    DEFAULT_CODEC_OPTIONS,
    CodecOptions[dict[str, Any]](tz_aware=True),
    CodecOptions[RawBSONDocument](document_class=RawBSONDocument),
)
_BATCHES: Final = ("firstBatch", "nextBatch")


def cursors(data: bytes) -> None:
    """A reply with a cursor; the first byte chooses the batch's name and the codec options.

    In slices it is the same as at once, or fails alike. Raises nothing but ProtocolError and InvalidBSON.
    """
    if not data:
        return
    field, options, body = _BATCHES[data[0] & 1], _OPTIONS[(data[0] >> 1) % 3], data[1:]
    fields = {"cursor": {field: 1}}
    reply, failure = None, None
    try:
        reply = decode_reply(body, options, fields)
    except (ProtocolError, InvalidBSON) as error:
        failure = error
    with patch.object(slices, "SLICE", _SLICE):
        try:
            in_slices = _run(decode_in_slices(memoryview(body), options, fields))
            assert _same(in_slices, reply)
        except (ProtocolError, InvalidBSON) as error:
            # Not the text: what bson complains of depends on what lies behind a document that is cut off.
            assert type(error) is type(failure)
        try:
            unread = decode_unread(body)
        except (ProtocolError, InvalidBSON):  # perhaps because of a document that a caller decodes later
            return
    if reply is None:
        return
    operation = Find("db", "coll") if field == "firstBatch" else GetMore("db", "coll", 1, address=_ADDRESS)
    try:
        found = operation.parse(reply)
    except ProtocolError:
        return
    assert -(2**63) <= found.cursor_id < 2**63
    assert all(hasattr(document, "items") or isinstance(document, DBRef) for document in found.documents)
    if found.cursor_id:
        assert is_namespace(found.namespace)
        lost = opened_by(unread, _ADDRESS)
        assert lost is not None
        assert (lost.cursor_id, f"{lost.database}.{lost.collection}") == (found.cursor_id, found.namespace)
        more = GetMore(lost.database, lost.collection, found.cursor_id, address=_ADDRESS)
        assert bson.encode(more.command(_FACTS).document)
    if field == "firstBatch":
        assert (first_document(reply, is_stored=True) is None) == (not found.documents)


def _run(generator: Any) -> Any:
    try:
        while True:
            next(generator)
    except StopIteration as end:
        return end.value


def _same(one: Any, other: Any) -> bool:
    """Whether two decoded values are equal, NaN included."""
    if isinstance(one, RawBSONDocument) or isinstance(other, RawBSONDocument):
        return type(one) is type(other) and one.raw == other.raw
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    is_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return type(one) is type(other) and (is_nan or bool(one == other) or repr(one) == repr(other))


def _cursor(field: str, batch: Sequence[Document], cursor_id: Any = 7, **more: Any) -> bytes:
    cursor = {field: batch, "id": bson.Int64(cursor_id) if type(cursor_id) is int else cursor_id, "ns": "db.coll"}
    return bytes([field == "nextBatch"]) + bson.encode({"cursor": cursor, "ok": 1.0, **more})


_DOCUMENTS: Final[list[Document]] = [{"_id": number, "text": "x" * (10 * number)} for number in range(12)]
_CURSORS: Final = [
    _cursor("firstBatch", []),
    _cursor("firstBatch", _DOCUMENTS),
    _cursor("nextBatch", _DOCUMENTS, 0),
    _cursor("nextBatch", [{"list": _DOCUMENTS[:6]}] * 3, 1.0, operationTime=Timestamp(1, 1)),
    _cursor("firstBatch", [{"$ref": "a", "$id": 1, "x": "y" * 60}, {"date": bson.DatetimeMS(2**60)}]),
]
_CURSOR_SEEDS: Final = [
    *(bytes([seed[0] | option << 1]) + seed[1:] for seed in _CURSORS for option in range(3)),
    # A length that is too small once made the rest of the reply one of less than nothing.
    _CURSORS[1][:1] + (100).to_bytes(4, "little") + _CURSORS[1][5:],
]

# --- bulk writes ---

_REQUESTS: Final = (
    [InsertOne({"_id": number}) for number in range(5)],
    [UpdateOne({}, {"$set": {"a": 1}}, upsert=True), UpdateMany({}, {"$set": {"a": 1}}), ReplaceOne({}, {})],
    [DeleteOne({}), DeleteMany({})],
)


def bulk(data: bytes) -> None:
    """The replies to two equal batches of a collection's bulk write; the first byte chooses their kind.

    Raises nothing but ProtocolError. Errors and upserts are those of requests that there are, in their order.
    """
    if not data:
        return
    (run,) = all_at_once(ordered_runs(list(_REQUESTS[data[0] % 3])))
    count, is_ordered = len(run.statements), bool(data[0] & 4)
    # Twice the same statements, so that the second reply is that of a later batch.
    run.statements, run.indexes = run.statements * 2, range(10, 10 + 2 * count)
    result = BulkResult(ordered=is_ordered)
    for start, body in zip((0, count), documents(data[1:]), strict=False):
        batch = BATCHES[run.kind]("db", "coll", run, start)
        batch.count = count
        reply = _decoded(body, batch.document_fields)
        if reply is None:
            return
        try:
            parsed = batch.parse(reply)
            assert parsed is not None
            result.merge(run, start, parsed)
        except ProtocolError:
            return
    details = result.details
    assert {each["index"] for name in ("writeErrors", "upserted") for each in details[name]} <= set(run.indexes)
    assert all(type(details[name]) is int for name in details if name.startswith("n"))
    shown = BulkWriteResult(details, True)
    assert repr(shown)
    assert len(shown.upserted_ids) <= 2 * count
    assert shown.inserted_count >= 0
    error = result.error
    assert (error is None) == (not details["writeErrors"] and not details["writeConcernErrors"])
    if error is not None:
        indexes = [each["index"] for each in details["writeErrors"]]
        assert indexes == sorted(indexes)
        _shows(error)
        assert error.timeout in (True, False)


_UPSERTED: Final = [{"index": 0, "_id": 1}, {"index": 2, "_id": "x"}]
_WRITE_ERRORS: Final = [{"index": 1, "code": 11000, "errmsg": "E11000"}, {"index": 0, "code": 50, "errmsg": "time"}]
_WRITES: Final[tuple[Document, ...]] = (
    {"ok": 1, "n": 5},
    {"ok": 1, "n": 3, "nModified": 1, "upserted": _UPSERTED},
    {"ok": 1, "n": 1, "writeErrors": _WRITE_ERRORS, "writeConcernError": _CONCERN_ERROR, "errorLabels": ["a"]},
    {"ok": 1, "n": 1, "writeConcernError": {"code": 50, "errmsg": "time"}},
)
_BULK_SEEDS: Final = [
    bytes([kind]) + bson.encode(one) + bson.encode(another)
    for kind in range(3)
    for one in _WRITES
    for another in _WRITES[:3]
]

_MODELS: Final = tuple(
    statement_of(model)
    for model in (
        InsertOne({"_id": 1}, namespace="db.a"),
        UpdateOne({}, {"$set": {"a": 1}}, upsert=True, namespace="db.b"),
        DeleteMany({}, namespace="db.a"),
    )
)


def client_bulk(data: bytes) -> None:
    """The reply to a client's bulk write, and the further batches of its cursor; the first byte chooses options.

    Raises nothing but ProtocolError. Results and errors are those of operations that there are.
    """
    if not data:
        return
    is_ordered, is_verbose, bodies = bool(data[0] & 1), bool(data[0] & 2), documents(data[1:])
    batch = ClientBulkBatch(_MODELS, ordered=is_ordered, verbose=is_verbose)
    result, count = ClientBulkResult(_MODELS, is_ordered=is_ordered, is_verbose=is_verbose), len(_MODELS)
    first = _decoded(bodies[0], batch.document_fields) if bodies else None
    if first is None:
        return
    seen: list[Document] = []
    try:
        found = batch.parse(first)
        seen += found.documents
        result.merge(found.reply, count)
        all_at_once(result.take(found.documents, 0, count))
        for body in bodies[1:]:
            reply = _decoded(body, MoreResults.document_fields)
            if reply is None:
                return
            found = MoreResults("admin", "c", 1, address=_ADDRESS).parse(reply)
            seen += found.documents
            all_at_once(result.take(found.documents, 0, count))
        result.check_complete()
    except ProtocolError as error:
        _shows(result.interrupted(error))
        return
    details = result.details
    assert {each["idx"] for each in details["writeErrors"]} <= set(range(count))
    assert len(details["writeErrors"]) <= count
    failed = result.error
    if failed is None:
        success = result.success()
        assert repr(success)
        if is_verbose:
            results = len(success.insert_results) + len(success.update_results) + len(success.delete_results)
            assert results == len({each["idx"] for each in seen})
            assert set(success.insert_results) <= {0}
            assert set(success.delete_results) <= {2}
            assert all(isinstance(each, UpdateResult) for each in success.update_results.values())
            for each in success.update_results.values():
                assert each.matched_count >= 0
                assert each.did_upsert or each.upserted_id is None
    else:
        assert isinstance(failed, ClientBulkWriteException)
        assert len(failed.write_errors) == len(details["writeErrors"])
        _shows(failed)


_COUNTS: Final[Document] = {"ok": 1, "nErrors": 0, "nInserted": 1, "nUpserted": 1, "nModified": 0, "nDeleted": 2}
_RESULTS: Final[list[Document]] = [
    {"ok": 1, "idx": 0, "n": 1},
    {"ok": 1, "idx": 1, "n": 1, "nModified": 0, "upserted": {"_id": 5}},
    {"ok": 1, "idx": 2, "n": 2},
]
_FAILED: Final = {"ok": 0, "idx": 2, "code": 8, "errmsg": "x", "n": 0}


def _client_bulk(option: int, first: list[Document], second: list[Document], **more: Any) -> bytes:
    rest = b"".join(_cursor("nextBatch", second, 0)[1:] for _ in range(bool(second)))
    return bytes([option]) + _cursor("firstBatch", first, bool(second) and 5, **{**_COUNTS, **more})[1:] + rest


_CLIENT_BULK_SEEDS: Final = [
    seed
    for option in range(4)
    for seed in (
        _client_bulk(option, _RESULTS, []),
        _client_bulk(option, _RESULTS[:1], _RESULTS[1:]),
        _client_bulk(option, _RESULTS[:2], [_FAILED], nErrors=1),
        _client_bulk(option, [], [], writeConcernError=_CONCERN_ERROR, errorLabels=["a"]),
    )
]

# --- change streams ---


def changes(data: bytes) -> None:
    """The batches of a change stream, and errors in between; the first byte chooses where it begins.

    Raises nothing but ProtocolError. The stream resumes from the change that the application got last, or from a later
    token of an empty batch, and never without a token.
    """
    if not data:
        return
    start = {"_data": "start"}
    position = Position(
        start if data[0] & 1 else None, start if data[0] & 2 else None, Timestamp(1, 1) if data[0] & 4 else None
    )
    first = position.stage_options()
    assert len(first) == (data[0] & 7).bit_count()
    more, is_opened = WatchMore("db", "coll", 1, address=_ADDRESS), False
    for body in documents(data[1:]):
        reply = _decoded(body, more.document_fields)
        if reply is None:
            return
        if reply.get("ok") != 1:
            error = error_from_reply(reply, 21)
            error.reached_server = True
            resumable = error.has_error_label("ResumableChangeStreamError") or getattr(error, "code", None) == 43
            assert is_resumable(error, 21) == (resumable or (isinstance(error, NotPrimaryError) and resumable))
            is_resumable(error, 8)
            continue
        try:
            found = more.parse(reply)
            token: Any = post_batch_token(found)
            assert token is None or hasattr(token, "items")
        except ProtocolError:
            return
        if not is_opened:
            position.opened(found)
            is_opened = True
        position.received(found)
        for index, change in enumerate(found.documents):
            is_last = index == len(found.documents) - 1
            before = position.place
            if not position.returned(change, is_last=is_last):
                assert isinstance(change, DBRef) or change.get("_id") is None
                assert position.place == before
                return
            assert position.token == (token if is_last and token is not None else change["_id"])
        if not found.documents and token is not None:
            assert position.token == token
        options = position.stage_options()
        assert len(options) <= 1
        if position.token is not None:
            assert [*options.values()] == [position.token]


def _changes(option: int, *replies: Document) -> bytes:
    return bytes([option]) + b"".join(map(bson.encode, replies))


def _change_batch(*tokens: str, **more: Any) -> Document:
    batch = [{"_id": {"_data": token}, "operationType": "insert", "documentKey": {"_id": 1}} for token in tokens]
    return {"ok": 1, "cursor": {"id": 5, "ns": "db.coll", "nextBatch": batch, **more}, "operationTime": Timestamp(2, 1)}


_LATER: Final = {"postBatchResumeToken": {"_data": "later"}}
_LOST: Final = {"ok": 0, "code": 43, "errmsg": "cursor", "errorLabels": ["ResumableChangeStreamError"]}
_CHANGE_SEEDS: Final = [
    seed
    for option in range(8)
    for seed in (
        _changes(option, _change_batch(**_LATER), _change_batch("a", "b"), _change_batch("c", **_LATER)),
        _changes(option, _change_batch("a"), _LOST, _change_batch()),
    )
]

_documents: Final = partial(Target, form=Form.DOCUMENTS, prefix=1, steps=Limit(10_000, 100))
# BSON of a few bytes is a hundred of Python, and errors keep what they are made of.
_MEMORY: Final = Limit(256 * 1024, 1_000)

TARGETS: Final = (
    _documents(
        "errors",
        errors,
        _ERROR_SEEDS,
        (
            "_wire.replies",
            "_base.error_documents",
            "_retry.classification",
            "_retry.decision",
            "_topology.error_handling",
        ),
        weight=120,
        memory=_MEMORY,
    ),
    _documents(
        "cursors",
        cursors,
        _CURSOR_SEEDS,
        ("_wire.slices", "_wire.documents", "_wire.replies"),
        weight=100,
        memory=_MEMORY,
    ),
    _documents("bulk", bulk, _BULK_SEEDS, ("_operations.bulk", "_wire.replies"), weight=100, memory=_MEMORY),
    _documents(
        "client-bulk",
        client_bulk,
        _CLIENT_BULK_SEEDS,
        ("_operations.client_bulk", "_wire.replies"),
        weight=100,
        memory=_MEMORY,
    ),
    _documents(
        "changes", changes, _CHANGE_SEEDS, ("_operations.change_stream", "_wire.replies"), weight=120, memory=_MEMORY
    ),
)
