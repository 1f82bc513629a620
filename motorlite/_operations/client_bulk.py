"""Pure: the bulkWrite command of a client (bulk write specification): statements, batches, merged result."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.dbref import DBRef

from motorlite._base.arguments import check_list, check_mapping, check_replacement, check_update
from motorlite._base.values import estimated_size, format_address
from motorlite._base.wire_versions import V8_0, release
from motorlite._operations.common import UPSERTED, add_write_concern, is_acknowledged, with_set
from motorlite._operations.contract import Command, CursorReply, DocumentSequence, Kind, Operation
from motorlite._operations.cursors import GetMore
from motorlite._operations.slices import ITEMS, STATEMENT_ALLOWANCE, all_at_once
from motorlite._wire.replies import concern_error, document, is_namespace, number, whole
from motorlite.errors import (
    ClientBulkWriteException,
    DocumentTooLarge,
    InvalidName,
    InvalidOperation,
    ProtocolError,
    PyMongoError,
    detached,
)
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, as_request
from motorlite.results import ClientBulkWriteResult, DeleteResult, InsertOneResult, UpdateResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._base.values import Document, ServerFacts
    from motorlite._operations.slices import Slices
    from motorlite.write_concern import WriteConcern


# The operations of a bulkWrite command (bulk write specification, "Operations").

# Fields of operations, by the attributes of the models that have them.
_OPTIONS: Final = {
    "upsert": "upsert",
    "arrayFilters": "array_filters",
    "hint": "hint",
    "collation": "collation",
    "sort": "sort",
}


class Statement(NamedTuple):
    """One write, without the position of its namespace, which depends on the batch.

    Attributes:
        kind: "insert", "update" or "delete": the first field, with the position of the namespace in `nsInfo`.
        namespace: "database.collection".
        fields: The rest of the operation.
    """

    kind: str
    namespace: str
    fields: Document

    @property
    def is_multi(self) -> bool:
        """Whether it may change several documents and so is not a retryable write."""
        return bool(self.fields.get("multi"))

    @property
    def whole(self) -> Mapping[str, Any] | None:
        """The document that it inserts, or that replaces another; None for other operations."""
        document = self.fields.get("document" if self.kind == "insert" else "updateMods")
        return document if isinstance(document, Mapping) and not next(iter(document), "").startswith("$") else None

    @property
    def shown(self) -> Document:
        """The operation as errors show it: with the namespace itself instead of its position."""
        return {self.kind: self.namespace, **self.fields}


def statement_of(model: object) -> Statement:
    """Return the operation for a model of `client.bulk_write`.

    The document of an insert is used as it is: its `_id` must be there, and first.

    Raises:
        TypeError: `model` is not a write model, or an argument of it has the wrong type.
        ValueError: An update or a replacement is invalid.
        InvalidOperation: The model has no namespace.
        InvalidName: The namespace does not name a database and a collection.
    """
    request = as_request(model)
    namespace = _checked(request.namespace, request)
    if isinstance(request, InsertOne):
        return Statement("insert", namespace, {"document": request.document})
    assert isinstance(request, UpdateOne | UpdateMany | ReplaceOne | DeleteOne | DeleteMany)
    check_mapping("filter", request.filter)
    is_multi = isinstance(request, UpdateMany | DeleteMany)
    fields: Document = {"filter": request.filter}
    if isinstance(request, UpdateOne | UpdateMany):
        check_update(request.update)
        if request.array_filters is not None:
            check_list("array_filters", request.array_filters)
        fields["updateMods"] = request.update
    elif isinstance(request, ReplaceOne):
        check_replacement(request.replacement)
        fields["updateMods"] = request.replacement
    fields["multi"] = is_multi
    for name, attribute in _OPTIONS.items():
        value: Any = getattr(request, attribute, None)
        if value is not None:
            fields[name] = value
    return Statement("delete" if isinstance(request, DeleteOne | DeleteMany) else "update", namespace, fields)


def _checked(namespace: object, request: object) -> str:
    if namespace is None:
        raise InvalidOperation(f"each write of a client's bulk_write needs a namespace, but one has none: {request!r}")
    if not is_namespace(namespace):
        raise InvalidName(f"the namespace of a write must be 'database.collection', not {str(namespace)[:200]!r}")
    return namespace


# One bulkWrite command, with as many operations as the server accepts (bulk write specification).

# Room for the header of the message and for the fields that every command has ("Unencrypted bulk writes"). The number
# is the specification's, so that all drivers split bulk writes alike.
MESSAGE_OVERHEAD: Final = 1000
# The limits of all servers so far, for encoding before the server is known.
_MAX_STATEMENTS: Final = 100_000
_MAX_SIZE: Final = 48_000_000
# A slice ends after this much work, in bytes to encode. Each operation adds a constant for its fields.
_WORK_PER_SLICE: Final = 64 * 1024
_WORK_PER_STATEMENT: Final = 1024
_COUNTS: Final = ("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted")


class Encoded:
    """The encoded operations from one position of a bulk write on: those of the next batch, and perhaps more."""

    __slots__ = ("_places", "_used", "ends", "first_multi", "namespaces", "operations")

    def __init__(self) -> None:
        self.operations: list[bytes] = []
        # The documents of `nsInfo`, and the position of each namespace there.
        self.namespaces: list[bytes] = []
        self._places: dict[str, int] = {}
        # For each operation: the size of the operations up to it with their namespaces, and the number of these.
        self.ends: list[int] = []
        self._used: list[int] = []
        # The first operation that may change several documents.
        self.first_multi: int | None = None

    @property
    def size(self) -> int:
        """The size of all operations and namespaces."""
        return self.ends[-1] if self.ends else 0

    def place(self, namespace: str) -> int:
        """Return the position of a namespace, which is added if it is new."""
        place = self._places.get(namespace)
        if place is None:
            place = self._places[namespace] = len(self.namespaces)
            self.namespaces.append(bson.encode({"ns": namespace}))
        return place

    def add(self, operation: bytes, *, is_multi: bool) -> None:
        """Add an encoded operation, whose namespace was placed last."""
        if is_multi and self.first_multi is None:
            self.first_multi = len(self.operations)
        known = self._used[-1] if self._used else 0
        self.ends.append(self.size + len(operation) + sum(map(len, self.namespaces[known:])))
        self._used.append(len(self.namespaces))
        self.operations.append(operation)

    def has_multi(self, count: int) -> bool:
        """Whether one of the first `count` operations may change several documents."""
        return self.first_multi is not None and self.first_multi < count

    def sequences(self, count: int) -> tuple[DocumentSequence, DocumentSequence]:
        """Return the document sequences of the first `count` operations."""
        return (
            DocumentSequence("ops", self.operations[:count]),
            DocumentSequence("nsInfo", self.namespaces[: self._used[count - 1]]),
        )


class ClientBulkBatch(Operation[CursorReply]):
    """The operations of a client's bulk write from `start` on, as many as fit.

    `count` is their number after the first attempt. `prepare` encodes them in slices; otherwise the first call of
    `command` does. That call selects the operations by its server's limits. Retries send the same operations, whatever
    the next server's limits are. `parse` returns the results as a CursorReply, for `ClientBulkResult`.

    Retry: retryable write, unless an operation of the batch may change several documents or the batch is not
    acknowledged. Known only after `command`; before, `is_retryable` speaks of the first operation.
    """

    __slots__ = (
        "_encoded",
        "_options",
        "_sequences",
        "_start",
        "_statements",
        "_write_concern",
        "count",
        "creates_cursor",
        "is_acknowledged",
        "is_continuation",
        "is_retryable",
    )

    name = "bulkWrite"
    kind = Kind.WRITE
    supports_after_cluster_time = True
    # Of the single results, only the ids of upserts are the user's.
    document_fields: ClassVar[Mapping[str, Any] | None] = {"cursor": {"firstBatch": UPSERTED}}

    def __init__(
        self,
        statements: Sequence[Statement],
        start: int = 0,
        *,
        ordered: bool = True,
        verbose: bool = False,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        bypass_document_validation: bool | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__("admin", codec_options=codec_options)
        self._statements = statements
        self._start = start
        self._write_concern = write_concern
        self._options = with_set(
            {"errorsOnly": not verbose, "ordered": ordered},
            bypassDocumentValidation=bypass_document_validation,
            comment=comment,
            let=let,
            maxTimeMS=max_time_ms,
        )
        self._encoded: Encoded | None = None
        self._sequences: tuple[DocumentSequence, ...] = ()
        self.count = 0
        self.is_acknowledged = self.creates_cursor = is_acknowledged(write_concern)
        # The caller changes it for all batches but the first.
        self.is_continuation = False
        self.is_retryable = self.is_acknowledged and not statements[start].is_multi

    def command(self, facts: ServerFacts) -> Command:
        if facts.max_wire_version < V8_0:
            raise InvalidOperation(
                f"bulk_write of a client needs MongoDB {release(V8_0)}, but {format_address(facts.address)} is MongoDB "
                f"{release(facts.max_wire_version)} (wire version {facts.max_wire_version}); use bulk_write of a "
                "collection"
            )
        document: Document = {self.name: 1, **self._options}
        if not self._sequences:
            self._take(len(bson.encode(document, codec_options=self.codec_options)), facts)
        add_write_concern(document, self._write_concern)
        return Command(self.name, document, self._sequences)

    def parse(self, reply: Document) -> CursorReply:
        for name in _COUNTS:
            number(reply, name, 0)
        concern_error(reply)
        return CursorReply(reply, "firstBatch")

    def unacknowledged(self) -> CursorReply:
        return CursorReply({"cursor": {"id": 0, "firstBatch": []}}, "firstBatch")

    def size_hint(self) -> int:
        if self._encoded is not None:
            return self._encoded.size
        size = 0
        for statement in self._statements[self._start : self._start + _MAX_STATEMENTS]:
            size += estimated_size(statement.fields)
            if size > _MAX_SIZE:
                break
        return size

    def prepare(self) -> Slices[None]:
        """Encode as many operations as the batch can have.

        Raises:
            Exception: The first operation cannot be encoded: the error of `bson` or of a user type's codec.
        """
        encoded, seen = Encoded(), 0
        for position in range(self._start, min(self._start + _MAX_STATEMENTS, len(self._statements))):
            if encoded.size > _MAX_SIZE:
                break
            try:
                operation = self._encode(position, encoded)
            except Exception:
                if not encoded.operations:
                    raise
                break  # the next batch raises it, after what comes before it was written
            encoded.add(operation, is_multi=self._statements[position].is_multi)
            if encoded.size + _WORK_PER_STATEMENT * len(encoded.operations) > seen + _WORK_PER_SLICE:
                seen = encoded.size + _WORK_PER_STATEMENT * len(encoded.operations)
                yield
        self._encoded = encoded

    def _encode(self, position: int, encoded: Encoded) -> bytes:
        statement = self._statements[position]
        try:
            operation = {statement.kind: encoded.place(statement.namespace), **statement.fields}
            return bson.encode(operation, codec_options=self.codec_options)
        except Exception as error:  # codecs of user types may raise anything
            from motorlite._base.unencodable import explain

            explain(error)
            error.add_note(f"in {statement.kind} {position} of the bulk write")
            raise

    def _take(self, body: int, facts: ServerFacts) -> None:
        """Take operations up to the server's limits. `body` is the size of the command without them."""
        if self._encoded is None:
            all_at_once(self.prepare())
        encoded = self._encoded
        assert encoded is not None
        available = facts.max_message_size - MESSAGE_OVERHEAD - body
        count = min(bisect_right(encoded.ends, available), facts.max_write_batch_size)
        if not self.is_acknowledged:
            count = self._noticed(encoded.operations[:count], facts.max_bson_object_size)
        if not count:
            statement = self._statements[self._start]
            raise DocumentTooLarge(
                f"{statement.kind} {self._start} of the bulk write has {encoded.ends[0]} bytes with its namespace; "
                f"the server takes at most {available}"
            )
        self.count = count
        self._sequences = encoded.sequences(count)
        self.is_retryable = self.is_acknowledged and not encoded.has_multi(count)
        self._encoded = None

    def _noticed(self, operations: Sequence[bytes], limit: int) -> int:
        """Return how many of these operations precede one that is too large, since no reply would report that.

        Raises:
            DocumentTooLarge: The first operation is too large.
        """
        for count, operation in enumerate(operations):
            if len(operation) <= limit:
                continue
            statement = self._statements[self._start + count]
            size, largest = len(operation), limit + STATEMENT_ALLOWANCE
            if statement.whole is not None:
                size, largest = len(bson.encode(statement.whole, codec_options=self.codec_options)), limit
            if size <= largest:
                continue
            if not count:
                raise DocumentTooLarge(
                    f"{statement.kind} {self._start} of the bulk write has {size} bytes; the server takes at most "
                    f"{largest}"
                )
            return count
        return len(operations)


class MoreResults(GetMore):
    """Fetch further results of a batch; `parse` returns a CursorReply.

    Retry: never by the retryable reads specification (results could be lost); overload errors by the overload
    policy, as a read.
    """

    __slots__ = ()

    document_fields: ClassVar[Mapping[str, Any] | None] = {"cursor": {"nextBatch": UPSERTED}}


# The merged result of a client's bulk write, in PyMongo's form (bulk write specification, "Handling...").

# What the executor knows about an error, which the bulk write's own error repeats.
_FACTS = (
    *("address", "attempts", "client_limit", "phase", "reached_server", "retry_after", "retry_reasons"),
    *("retry_refusal", "server_limit"),
)
# The counts of a reply, which the details have under the same names.
_RESULT_COUNTS = ("nInserted", "nUpserted", "nMatched", "nModified", "nDeleted")


class ClientBulkResult:
    """Counts, single results and errors so far. Indexes refer to the whole bulk write."""

    __slots__ = ("_failed", "_is_ordered", "_is_verbose", "_left", "_statements", "details")

    def __init__(self, statements: Sequence[Statement], *, is_ordered: bool, is_verbose: bool) -> None:
        self._statements = statements
        self._is_ordered = is_ordered
        self._is_verbose = is_verbose
        # Of the current batch: the results that may follow, and the errors that must.
        self._left = self._failed = 0
        self.details: dict[str, Any] = {
            # Whether at least one write is known to have succeeded.
            "anySuccessful": False,
            # The error that ended the bulk write.
            "error": None,
            "writeErrors": [],
            "writeConcernErrors": [],
            **dict.fromkeys(_RESULT_COUNTS, 0),
            "insertResults": {},
            "updateResults": {},
            "deleteResults": {},
        }

    def merge(self, reply: Mapping[str, Any], count: int) -> None:
        """Merge the counts and the write concern error of a batch of `count` operations (`ClientBulkBatch.parse`)."""
        details = self.details
        counts = {name: number(reply, name, 0) for name in _RESULT_COUNTS}
        for name, affected in counts.items():
            details[name] += affected
        failed = number(reply, "nErrors", 0)
        if failed == 0 or any(counts.values()) or (not self._is_ordered and failed < count):
            details["anySuccessful"] = True
        self._left, self._failed = count, failed
        concern_error = reply.get("writeConcernError")
        if concern_error is not None:
            labels = reply.get("errorLabels")
            details["writeConcernErrors"].append(
                {**concern_error, "errorLabels": labels} if labels else dict(concern_error)
            )

    def take(self, results: Sequence[Mapping[str, Any]], start: int, count: int) -> Slices[None]:
        """Merge single results of the batch that began at operation `start` and has `count` operations.

        Raises:
            ProtocolError: A result is malformed, or there are more results than operations.
        """
        self._left -= len(results)
        if self._left < 0:
            raise ProtocolError(f"the server sent a malformed reply: more than {count} results of {count} operations")
        for done, result in enumerate(results, 1):
            if isinstance(result, DBRef):
                raise ProtocolError("the server sent a malformed reply: a result is a reference")
            position = number(result, "idx")
            if position >= count:
                raise ProtocolError(
                    f"the server sent a malformed reply: idx is {position}, but {count} operations were sent"
                )
            if not whole(result.get("ok")):
                self._take_error(result, position, start)
            elif self._is_verbose:
                self._take_result(result, start + position)
            if not done % ITEMS:
                yield

    def check_complete(self) -> None:
        """Check a batch whose results were all taken.

        Raises:
            ProtocolError: The server counted errors, but did not send them.
        """
        if self._failed > 0:
            raise ProtocolError(
                f"the server sent a malformed reply: {self._failed} of the errors that it counted (nErrors) are missing"
            )

    def _take_error(self, result: Mapping[str, Any], position: int, start: int) -> None:
        if self._is_ordered and position > 0:
            self.details["anySuccessful"] = True
        index = start + position
        self._failed -= 1
        # Copies: command listeners receive the reply itself.
        self.details["writeErrors"].append({**result, "idx": index, "op": self._statements[index].shown})

    def _take_result(self, result: Mapping[str, Any], index: int) -> None:
        self.details["anySuccessful"] = True
        kind, _, fields = self._statements[index]
        raw: dict[str, Any] = {**result, "idx": index}
        number(raw, "n")
        if kind == "insert":
            self.details["insertResults"][index] = InsertOneResult(fields["document"].get("_id"), True)
        elif kind == "delete":
            self.details["deleteResults"][index] = DeleteResult(raw, True)
        else:
            number(raw, "nModified", 0)
            if raw.get("upserted") is None:
                raw.pop("upserted", None)
            elif "_id" not in document(raw, "upserted"):
                raise ProtocolError("the server sent a malformed reply: an upserted document has no _id")
            self.details["updateResults"][index] = UpdateResult(raw, True, in_client_bulk=True)

    @property
    def can_continue(self) -> bool:
        """Whether to send further batches: an ordered bulk write ends at its first write error."""
        return not (self._is_ordered and self.details["writeErrors"])

    @property
    def has_observed(self) -> bool:
        """Whether anything is known about single writes, so that an error must carry it."""
        details = self.details
        return bool(details["anySuccessful"] or details["writeErrors"] or details["writeConcernErrors"])

    def success(self) -> ClientBulkWriteResult:
        """Return the result of an acknowledged bulk write."""
        return ClientBulkWriteResult(self.details, True, self._is_verbose)

    @property
    def error(self) -> ClientBulkWriteException | None:
        """The error to raise at the end, with write errors ordered by index, or None."""
        details = self.details
        if not (details["writeErrors"] or details["writeConcernErrors"]):
            return None
        details["writeErrors"].sort(key=lambda error: error["idx"])
        return self._exception()

    def interrupted(self, cause: Exception) -> ClientBulkWriteException:
        """Return the error of a bulk write that `cause` ended; the caller raises it from `cause`."""
        details = self.details
        # A copy: the original's traceback references the frames of the bulk write.
        details["error"] = detached(cause)
        details["writeErrors"].sort(key=lambda error: error["idx"])
        error = self._exception()
        if isinstance(cause, PyMongoError):
            for name in _FACTS:
                setattr(error, name, getattr(cause, name))
            error.may_have_been_executed = error.may_have_been_executed or cause.may_have_been_executed
            for label in cause.error_labels:
                error._add_error_label(label)
        return error

    def _exception(self) -> ClientBulkWriteException:
        error = ClientBulkWriteException(self.details, self._is_verbose)
        if self.details["anySuccessful"]:
            error.partial_result = self.success()
        return error
