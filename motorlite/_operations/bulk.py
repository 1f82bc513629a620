"""Pure: a bulk write (CRUD specification): runs of one kind, batches that fit a message, and the merged result."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, TypeRegistry

from motorlite._base import error_documents
from motorlite._base.arguments import located
from motorlite._base.values import estimated_size
from motorlite._base.wire_versions import V4_4, V8_0
from motorlite._operations.common import (
    UPSERTED,
    add_write_concern,
    check_needs,
    is_acknowledged,
    unacknowledged_needs,
    with_set,
)
from motorlite._operations.contract import Command, DocumentSequence, Kind, Operation
from motorlite._operations.slices import (
    ITEMS,
    MAX_SIZE,
    MAX_STATEMENTS,
    STATEMENT_ALLOWANCE,
    all_at_once,
    is_slice,
    slice_length,
)
from motorlite._operations.statements import is_multi, statement_needs, statement_of
from motorlite._wire.replies import check_batch, number, upserts
from motorlite.errors import BulkWriteError, BulkWriteExecutionTimeout, DocumentTooLarge, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite._operations.slices import Slices
    from motorlite.write_concern import WriteConcern


# A bulk write as runs of statements of the same kind (CRUD specification).

# In the order in which an unordered bulk write sends its runs.
KINDS: Final = ("insert", "update", "delete")


class BulkRun:
    """Statements of one kind, with their indexes in the bulk write."""

    __slots__ = ("encoded", "encoded_from", "indexes", "kind", "multis", "statements")

    def __init__(self, kind: str, statements: list[Any], indexes: Sequence[int]) -> None:
        # "insert", "update" or "delete". The statements of an insert are the documents. Emptied at the end.
        self.kind = kind
        self.statements = statements
        self.indexes = indexes
        # Encoded statements that are not yet in a batch, the position of the first one, and the ascending positions of
        # statements, batched or not, that may change several documents; see `BulkBatch.prepare`.
        self.encoded: list[bytes] = []
        self.encoded_from = 0
        self.multis: list[int] = []


def insert_run(documents: list[Any]) -> BulkRun:
    """Return the single run of insert_many.

    Raises:
        TypeError: There are no documents (PyMongo's error too).
    """
    if not documents:
        raise TypeError("documents must contain at least one document; check for an empty list before the call")
    return BulkRun("insert", documents, range(len(documents)))


def ordered_runs(requests: Iterable[object]) -> Slices[list[BulkRun]]:
    """Group consecutive requests of one kind, in the order of the requests.

    Raises:
        InvalidOperation: There are no requests.
        TypeError: An item is not a request, or an argument of it has the wrong type.
        ValueError: An update or a replacement is invalid.
    """
    runs: list[BulkRun] = []
    kind, statements, indexes = "", list[Any](), list[int]()
    index = 0
    try:
        for index, request in enumerate(requests):
            next_kind, statement = statement_of(request)
            if next_kind != kind:
                kind, statements, indexes = next_kind, [], []
                runs.append(BulkRun(kind, statements, indexes))
            statements.append(statement)
            indexes.append(index)
            if index % ITEMS == ITEMS - 1:
                yield
    except (TypeError, ValueError) as error:
        raise located(error, f"requests[{index}]") from None
    return _not_empty(runs)


def unordered_runs(requests: Iterable[object]) -> Slices[list[BulkRun]]:
    """Group all requests of one kind. Raises like `ordered_runs`."""
    statements: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    indexes: dict[str, list[int]] = {kind: [] for kind in KINDS}
    index = 0
    try:
        for index, request in enumerate(requests):
            kind, statement = statement_of(request)
            statements[kind].append(statement)
            indexes[kind].append(index)
            if index % ITEMS == ITEMS - 1:
                yield
    except (TypeError, ValueError) as error:
        raise located(error, f"requests[{index}]") from None
    return _not_empty([BulkRun(kind, statements[kind], indexes[kind]) for kind in KINDS if indexes[kind]])


def _not_empty(runs: list[BulkRun]) -> list[BulkRun]:
    if not runs:
        raise InvalidOperation("requests must contain at least one request; check for an empty list before the call")
    return runs


# The merged result of a bulk write's batches, in PyMongo's form.


class BulkResult:
    """Counts, upserts and errors so far. Indexes refer to the whole bulk write."""

    __slots__ = ("_ordered", "details")

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self.details: dict[str, Any] = {
            "writeErrors": [],
            "writeConcernErrors": [],
            "nInserted": 0,
            "nUpserted": 0,
            "nMatched": 0,
            "nModified": 0,
            "nRemoved": 0,
            "upserted": [],
        }

    def merge(self, run: BulkRun, start: int, reply: Mapping[str, Any]) -> None:
        """Merge the reply, checked by `BulkBatch.parse`, of the batch that began at statement `start` of `run`."""
        details = self.details
        affected = number(reply, "n", 0)
        if run.kind == "insert":
            details["nInserted"] += affected
        elif run.kind == "delete":
            details["nRemoved"] += affected
        else:
            upserted = upserts(reply)
            details["upserted"] += [
                {"index": run.indexes[start + number(entry, "index")], "_id": entry["_id"]} for entry in upserted
            ]
            details["nUpserted"] += len(upserted)
            details["nMatched"] += affected - len(upserted)
            details["nModified"] += number(reply, "nModified", 0)
        for error in reply.get("writeErrors") or ():
            position = start + number(error, "index")
            # Copies: command listeners receive the reply itself.
            statement = run.statements[position]
            if run.kind == "update":
                # PyMongo always sends `multi` and `upsert`, and programs read them here.
                statement = {"q": None, "u": None, "multi": False, "upsert": False, **statement}
            details["writeErrors"].append({**error, "index": run.indexes[position], "op": statement})
        concern_error = reply.get("writeConcernError")
        if concern_error is not None:
            labels = reply.get("errorLabels")
            details["writeConcernErrors"].append(
                {**concern_error, "errorLabels": labels} if labels else dict(concern_error)
            )

    @property
    def can_continue(self) -> bool:
        """Whether to send further batches: an ordered bulk write ends at its first write error."""
        return not (self._ordered and self.details["writeErrors"])

    @property
    def error(self) -> BulkWriteError | None:
        """The error to raise at the end, with write errors ordered by index, or None."""
        details = self.details
        if not details["writeErrors"] and not details["writeConcernErrors"]:
            return None
        details["writeErrors"].sort(key=lambda error: error["index"])
        kind = BulkWriteExecutionTimeout if error_documents.is_expired(details) else BulkWriteError
        return kind(details)


# Merges long replies of a bulk write into its result, in slices.

_LISTS = ("writeErrors", "upserted")


def is_long(reply: Mapping[str, Any]) -> bool:
    """Whether a reply has enough errors or upserts for several slices."""
    return any(isinstance(reply.get(name), list) and len(reply[name]) > ITEMS for name in _LISTS)


def merge(result: BulkResult, run: BulkRun, start: int, reply: Mapping[str, Any]) -> Slices[None]:
    """Merge the reply of the batch that began at statement `start` of `run`."""
    for part in _parts(reply):
        result.merge(run, start, part)
        yield


def _parts(reply: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Split `reply` into replies that add up to it, each with a few of its errors and upserts."""
    lists = {name: reply[name] for name in _LISTS if isinstance(reply.get(name), list)}
    longest = max(map(len, lists.values()), default=0)
    if longest <= ITEMS:
        yield reply
        return
    for position in range(0, longest, ITEMS):
        cut = {name: items[position : position + ITEMS] for name, items in lists.items()}
        # The first part has the counts and the write concern error.
        yield {**({"n": 0, "nModified": 0} if position else reply), **cut}


# One command of a bulk write, with as many statements of a run as the server accepts.

# Encodes many documents with one call of `bson`, as the elements of an array.
#
# A call costs as much as encoding a dozen fields. Elements of an array are encoded like whole documents, except that
# their `_id` stays where it is, and that codecs of user types see the elements themselves.

MOST: Final = 64
"""The largest number of documents that one call encodes."""

_NO_TYPES: Final = TypeRegistry()
_read_size: Final = Struct("<i").unpack_from
# The array follows the size of the document around it, a type and a name of one character, and begins with its size.
_BEFORE: Final = 4 + 1 + 2 + 4
# Before each element: its type, and its index as text that ends with a zero byte.
_GAPS: Final = tuple(1 + len(str(index)) + 1 for index in range(MOST))

# The size of a document; the type and the name of its first field, with a zero byte; an ObjectId.
_ID_FIRST: Final = Struct("<i5s12s").pack
_ID_SIZE: Final = 5 + 12


def suits_arrays(codec_options: CodecOptions[Any]) -> bool:
    """Whether documents may be encoded together: a codec of user types may have state, and must not run twice."""
    return codec_options is DEFAULT_CODEC_OPTIONS or codec_options.type_registry == _NO_TYPES


def encode_together(
    documents: Sequence[Any],
    codec_options: CodecOptions[Any],
    *,
    puts_id_first: bool = False,
    new_ids: Sequence[bytes] = (),
) -> list[bytes] | None:
    """Encode at most `MOST` documents at once.

    Args:
        documents: The documents.
        codec_options: Options for which `suits_arrays` is true.
        puts_id_first: Whether the documents have an `_id`, which must be their first field.
        new_ids: An ObjectId for each document if none of them has an `_id`; or empty.

    Returns:
        What `bson.encode` returns for each document, with its new `_id`; None if they must be encoded one by one: not
        all are plain dictionaries, or one of them cannot be encoded.
    """
    assert len(documents) <= MOST
    if set(map(type, documents)) != {dict}:
        return None
    try:
        if puts_id_first:
            documents = [
                document if next(iter(document)) == "_id" else {"_id": document["_id"], **document}
                for document in documents
            ]
        data = bson.encode({"a": documents}, codec_options=codec_options)
    except Exception:  # the caller finds out which one it is
        return None
    end, encoded = _BEFORE, []
    if new_ids:
        for gap, new_id in zip(_GAPS, new_ids, strict=False):
            start = end + gap
            end = start + _read_size(data, start)[0]
            encoded.append(_ID_FIRST(end - start + _ID_SIZE, b"\x07_id", new_id) + data[start + 4 : end])
    else:
        for gap in _GAPS[: len(documents)]:
            start = end + gap
            end = start + _read_size(data, start)[0]
            encoded.append(data[start:end])
    return encoded


# Room for the fields that the executor adds after the batch is built: lsid, txnNumber, $clusterTime,
# $readPreference, readConcern, API version, maxTimeMS. About 500 bytes in practice.
DECORATION_ALLOWANCE: Final = 16 * 1024
# Header, flags, kind of the body; kind and size of the sequence, and the zero byte of its name; checksum.
_ENVELOPE: Final = 16 + 4 + 1 + 1 + 4 + 1 + 4


class BulkBatch(Operation["Document | None"]):
    """The statements of `run` from `start` on, as many as fit. `count` is their number after the first attempt.

    `prepare` encodes them in slices. Otherwise the first call of `command` encodes them. That call selects the
    statements by its server's limits. Retries send the same statements, whatever the next server's limits are. `parse`
    returns the reply with its errors, for `BulkResult.merge`.

    An ordered bulk write has to stop at its first error, so only its last batch is sent without acknowledgement:
    `has_successor` says that other runs follow this one.

    Retry: retryable write, unless a statement of the batch may change several documents or the batch is not
    acknowledged. Known only after `command`; before, `is_retryable` describes the first statement, and
    `is_acknowledged` the write concern.
    """

    __slots__ = (
        "_collection",
        "_encodes_together",
        "_has_successor",
        "_is_prepared",
        "_options",
        "_ordered",
        "_run",
        "_sequence",
        "_start",
        "_write_concern",
        "count",
        "is_acknowledged",
        "is_continuation",
        "is_retryable",
        "when_taken",
    )

    kind = Kind.WRITE
    supports_after_cluster_time = True
    # The identifier of the document sequence.
    _field: ClassVar[str]
    # The statements are documents to insert, so their fields have no meaning here.
    _are_documents: ClassVar[bool] = False
    _takes_bypass: ClassVar[bool] = True

    def __init__(
        self,
        database: str,
        collection: str,
        run: BulkRun,
        start: int = 0,
        *,
        ordered: bool = True,
        has_successor: bool = False,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        bypass_document_validation: bool | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._collection = collection
        self._has_successor = has_successor
        self._run = run
        self._start = start
        self._ordered = ordered
        self._write_concern = write_concern
        self._options = with_set(
            {},
            let=None if self._are_documents else let,
            comment=comment,
            bypassDocumentValidation=bypass_document_validation if self._takes_bypass else None,
            maxTimeMS=max_time_ms,
        )
        self._encodes_together = suits_arrays(codec_options)
        self._is_prepared = False
        self._sequence: DocumentSequence | None = None
        self.count = 0
        self.is_acknowledged = is_acknowledged(write_concern)
        # The caller changes it for all batches of a bulk write but the first.
        self.is_continuation = False
        # Called when the batch has its statements, so that those of the next one can be encoded.
        self.when_taken: Callable[[], None] | None = None
        self.is_retryable = self.is_acknowledged and (
            self._are_documents or not any(map(is_multi, run.statements[start : start + 1]))
        )

    @property
    def collection_name(self) -> str:
        return self._collection

    def command(self, facts: ServerFacts) -> Command:
        document: Document = {self.name: self._collection, "ordered": self._ordered, **self._options}
        add_write_concern(document, self._write_concern)
        if self._sequence is None:
            self._sequence = self._take(document, facts)
        if self.is_acknowledged and not is_acknowledged(self._write_concern):
            del document["writeConcern"]
        if facts.max_wire_version < V8_0:
            self._check_options(facts)
        return Command(self.name, document, (self._sequence,))

    def parse(self, reply: Document) -> Document | None:
        check_batch(reply, self.count)
        return reply

    def unacknowledged(self) -> Document | None:
        return None

    def size_hint(self) -> int:
        run, start = self._run, self._start
        if self._sequence is not None:
            return sum(map(len, self._sequence.documents))
        if run.encoded_from == start and run.encoded:
            return sum(map(len, run.encoded))
        size = 0
        for statement in islice(run.statements, start, start + MAX_STATEMENTS):
            size += estimated_size(statement)
            if size > MAX_SIZE:
                break
        return size

    def prepare(self) -> Slices[None]:
        """Encode as many statements as the batch can have. Statements that do not fit go into the next batch.

        Raises:
            Exception: The first statement cannot be encoded: the error of `bson` or of a user type's codec.
        """
        self._is_prepared = True
        yield from self._encode_from(self._start)

    @property
    def leaves_work(self) -> bool:
        """Whether `prepare` has left statements to encode for the next batch."""
        run = self._run
        return run.encoded_from + len(run.encoded) < len(run.statements)

    def prepare_next(self) -> Slices[None]:
        """Encode as many statements as the next batch can have, once `when_taken` was called and before this one ends.

        This goes on in steps of the event loop that belong to no task, so it raises nothing: if the bulk write gets as
        far as a statement that cannot be encoded, the batch that has it raises the error.
        """
        try:
            yield from self._encode_from(self._start + self.count)
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException:  # a codec of the user's may raise anything
            return

    def _encode_from(self, start: int) -> Slices[None]:
        run = self._run
        if run.encoded_from != start:
            run.encoded, run.encoded_from, run.multis = [], start, []
        encoded, statements = run.encoded, run.statements
        size, position, end = sum(map(len, encoded)), start + len(encoded), min(start + MAX_STATEMENTS, len(statements))
        average = 0
        while position < end and size <= MAX_SIZE:
            part = statements[position : min(position + slice_length(statements, position, average), end)]
            try:
                found = self._encode_slice(part, position)
            except Exception:
                if not encoded:
                    raise
                break  # `_take` raises it, if the batch gets that far
            encoded += found
            if not self._are_documents:
                run.multis += [position + index for index, one in enumerate(part[: len(found)]) if is_multi(one)]
            length = sum(map(len, found))
            average = length // len(found)
            size += length
            position += len(found)
            yield

    def _encode_slice(self, part: Sequence[Any], position: int) -> list[bytes]:
        """Encode `part`, which begins at `position`, or as much of it as can be encoded and is not too large."""
        if self._encodes_together and len(part) > 1:
            together = encode_together(part, self.codec_options, puts_id_first=self._are_documents)
            if together is not None:
                return together
        found, size = list[bytes](), 0
        for index in range(len(part)):
            try:
                found.append(self._encode(position + index))
            except Exception:
                if not found:
                    raise
                break  # the next slice begins with it
            size += len(found[-1])
            if is_slice(size):
                break
        return found

    def _encode(self, position: int) -> bytes:
        run = self._run
        try:
            return bson.encode(run.statements[position], codec_options=self.codec_options)
        except Exception as error:  # codecs of user types may raise anything
            from motorlite._base.unencodable import explain

            explain(error)
            error.add_note(f"in {self.name} {run.indexes[position]} of the bulk write")
            raise

    def _take(self, document: Document, facts: ServerFacts) -> DocumentSequence:
        """Take the encoded statements, up to the server's limits."""
        if not self._is_prepared:
            all_at_once(self.prepare())
        run, start = self._run, self._start
        body = len(bson.encode(document, codec_options=self.codec_options))
        available = facts.max_message_size - _ENVELOPE - len(self._field) - body - DECORATION_ALLOWANCE
        # The server reports a document that is slightly too large as a write error, and continues. Without
        # acknowledgement, that would go unnoticed.
        allowance = STATEMENT_ALLOWANCE if is_acknowledged(self._write_concern) else 0
        largest = min(facts.max_bson_object_size + allowance, available)
        room = min(available, facts.max_batch_bytes, MAX_SIZE)
        most = min(facts.max_write_batch_size, MAX_STATEMENTS, len(run.statements) - start)
        sizes = [*map(len, islice(run.encoded, most))]
        ends = [*accumulate(sizes)]
        count = max(bisect_right(ends, room), min(most, 1))
        if sizes and max(sizes) > largest:
            # A statement that is too large starts the next batch, so that the preceding ones are written.
            count = min(count, next(index for index, size in enumerate(sizes) if size > largest))
            if not count:
                raise DocumentTooLarge(
                    f"{self.name} {run.indexes[start]} of the bulk write has {sizes[0]} bytes; "
                    f"the server takes at most {largest}"
                )
        if count == len(ends) < most and ends[-1] < room:
            self._encode(start + count)  # raises again: it failed in `prepare`
        taken = run.encoded[:count]
        del run.encoded[:count]
        run.encoded_from = start + count
        self.count = count
        next_multi = bisect_left(run.multis, start)
        has_multi = next_multi < len(run.multis) and run.multis[next_multi] < start + count
        is_last = not self._has_successor and start + count == len(run.statements)
        self.is_acknowledged = is_acknowledged(self._write_concern) or (self._ordered and not is_last)
        self.is_retryable = self.is_acknowledged and not has_multi
        if self.when_taken is not None:
            self.when_taken()
        return DocumentSequence(self._field, taken)

    def _check_options(self, facts: ServerFacts) -> None:
        """Reject options that a server older than 8.0 does not support but would not reject itself."""
        if not self.is_acknowledged:
            check_needs(unacknowledged_needs(self._options), facts)
        if not self._are_documents and (facts.max_wire_version < V4_4 or not self.is_acknowledged):
            for statement in self._run.statements[self._start : self._start + self.count]:
                check_needs(statement_needs(statement, acknowledged=self.is_acknowledged), facts)


class InsertBatch(BulkBatch):
    """Documents to insert.

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ()

    name = "insert"
    _field = "documents"
    _are_documents = True


class UpdateBatch(BulkBatch):
    """Update statements.

    Retry: retryable write, unless a statement of the batch has `multi` or the batch is not acknowledged.
    """

    __slots__ = ()

    name = "update"
    document_fields = UPSERTED
    _field = "updates"


class DeleteBatch(BulkBatch):
    """Delete statements.

    Retry: retryable write, unless a statement of the batch has a limit of 0 or the batch is not acknowledged.
    """

    __slots__ = ()

    name = "delete"
    _field = "deletes"
    _takes_bypass = False


BATCHES: Final[dict[str, type[BulkBatch]]] = {
    "insert": InsertBatch,
    "update": UpdateBatch,
    "delete": DeleteBatch,
}
