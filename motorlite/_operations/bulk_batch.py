"""Pure: one command of a bulk write, with as many statements of a run as the server takes."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import Command, DocumentSequence, Kind, Operation
from motorlite._operations.common import (
    UPSERTED,
    V4_4,
    V8_0,
    add_write_concern,
    check_needs,
    is_acknowledged,
)
from motorlite._operations.slices import all_at_once
from motorlite._operations.statements import is_multi, statement_needs, unacknowledged_needs
from motorlite._replies import check_batch, concern_error
from motorlite.errors import RETRYABLE_WRITE_CODES, DocumentTooLarge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, ServerFacts
    from motorlite._operations.bulk_runs import Run
    from motorlite._operations.slices import Slices
    from motorlite.concerns import WriteConcern

# By how much a statement of an update or delete may be larger than a document (write commands specification,
# "Request Size Limits").
STATEMENT_ALLOWANCE: Final = 16 * 1024
# For what the executor adds to the command after the batch is made: lsid, txnNumber, $clusterTime,
# $readPreference, readConcern, API version, maxTimeMS. About 500 bytes in practice.
DECORATION_ALLOWANCE: Final = 16 * 1024
# Header, flags, kind of the body; kind and size of the sequence, and the zero byte of its name; checksum.
_ENVELOPE: Final = 16 + 4 + 1 + 1 + 4 + 1 + 4
# The most that a batch is prepared for, before its server is known: what servers take, and a third of the 48 MB that
# they take. To put a message together and hand it to the socket cannot be interrupted; 48 MB held the loop for 90 ms.
_MAX_STATEMENTS: Final = 100_000
_MAX_SIZE: Final = 16 * 1024 * 1024
# A slice ends after this much work, in bytes to encode; each statement counts as some more, for its fields.
_WORK_PER_SLICE: Final = 64 * 1024
_WORK_PER_STATEMENT: Final = 1024


class BulkBatch(Operation):
    """The statements of `run` from `start` on, as many as fit; `count` says how many after the first attempt.

    `prepare` encodes them, in slices; without it the first call of `command` does. That one chooses them by the
    limits of its server; retries send the same ones, whatever the limits of the next server are. `parse` returns the
    reply with its errors, for `BulkResult.merge`; only a write concern error that may be retried is raised, and the
    reply is then in `reply`.

    Retry: retryable write, unless a statement of the batch may change several documents or the batch is not
    acknowledged. Known only after `command`; before, `is_retryable` speaks of the first statement.
    """

    __slots__ = (
        "_collection",
        "_is_prepared",
        "_options",
        "_ordered",
        "_run",
        "_sequence",
        "_start",
        "_write_concern",
        "count",
        "is_acknowledged",
        "is_retryable",
        "reply",
    )

    kind = Kind.WRITE
    supports_after_cluster_time = True
    # The identifier of the document sequence.
    _field: ClassVar[str]
    # The statements are documents to insert: their fields mean nothing here.
    _are_documents: ClassVar[bool] = False
    _takes_bypass: ClassVar[bool] = True

    def __init__(
        self,
        database: str,
        collection: str,
        run: Run,
        start: int = 0,
        *,
        ordered: bool = True,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        bypass_document_validation: bool | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._collection = collection
        self._run = run
        self._start = start
        self._ordered = ordered
        self._write_concern = write_concern
        self._options: Document = {}
        if let is not None and not self._are_documents:
            self._options["let"] = let
        if comment is not None:
            self._options["comment"] = comment
        if bypass_document_validation is not None and self._takes_bypass:
            self._options["bypassDocumentValidation"] = bypass_document_validation
        self._is_prepared = False
        self._sequence: DocumentSequence | None = None
        self.count = 0
        self.is_acknowledged = is_acknowledged(write_concern)
        self.is_retryable = self.is_acknowledged and (
            self._are_documents or not any(map(is_multi, run.statements[start : start + 1]))
        )
        # The newest reply, also when `parse` raised.
        self.reply: Document | None = None

    def command(self, facts: ServerFacts) -> Command:
        document: Document = {self.name: self._collection, "ordered": self._ordered, **self._options}
        add_write_concern(document, self._write_concern)
        if self._sequence is None:
            self._sequence = self._take(document, facts)
        if facts.max_wire_version < V8_0:
            self._check_options(facts)
        return Command(self.name, document, (self._sequence,))

    def parse(self, reply: Document) -> Document:
        check_batch(reply, self.count)
        self.reply = reply
        error = concern_error(reply)
        if error is not None and (error.error_labels or error.code in RETRYABLE_WRITE_CODES):
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        return reply

    def prepare(self) -> Slices[None]:
        """Encode the statements that the batch may have at most; what it does not take is for the next batch.

        Raises:
            Exception: The first statement cannot be encoded: what `bson`, or the codec of a user's type, raises.
        """
        self._is_prepared = True
        run, start = self._run, self._start
        if run.encoded_from != start:
            run.encoded, run.encoded_from, run.multis = [], start, []
        encoded, statements = run.encoded, run.statements
        size, unseen = sum(map(len, encoded)), 0
        for position in range(start + len(encoded), min(start + _MAX_STATEMENTS, len(statements))):
            if size > _MAX_SIZE:
                break
            try:
                data = self._encode(position)
            except Exception:
                if not encoded:
                    raise
                break  # `_take` raises it, if the batch reaches so far
            encoded.append(data)
            if not self._are_documents and is_multi(statements[position]):
                run.multis.append(position)
            size += len(data)
            unseen += len(data) + _WORK_PER_STATEMENT
            if unseen > _WORK_PER_SLICE:
                unseen = 0
                yield

    def _encode(self, position: int) -> bytes:
        run = self._run
        try:
            return bson.encode(run.statements[position], codec_options=self.codec_options)
        except Exception as error:  # whatever a type's codec raises
            error.add_note(f"in {self.name} {run.indexes[position]} of the bulk write")
            raise

    def _take(self, document: Document, facts: ServerFacts) -> DocumentSequence:
        """The encoded statements, up to the limits of the server."""
        if not self._is_prepared:
            all_at_once(self.prepare())
        run, start = self._run, self._start
        body = len(bson.encode(document, codec_options=self.codec_options))
        available = facts.max_message_size - _ENVELOPE - len(self._field) - body - DECORATION_ALLOWANCE
        allowance = 0 if self._are_documents else STATEMENT_ALLOWANCE
        largest = min(facts.max_bson_object_size + allowance, available)
        room = min(available, _MAX_SIZE)
        most = min(facts.max_write_batch_size, _MAX_STATEMENTS, len(run.statements) - start)
        count = 0
        for data in islice(run.encoded, most):
            size = len(data)
            if size > largest and not count:
                raise DocumentTooLarge(
                    f"{self.name} {run.indexes[start]} of the bulk write has {size} bytes; "
                    f"the server takes at most {largest}"
                )
            # What is too large becomes the first of the next batch, so that what precedes it is written.
            if size > largest or (count and size > room):
                break
            room -= size
            count += 1
        else:
            if count < most and room > 0:
                self._encode(start + count)  # which failed in `prepare`
        taken = run.encoded[:count]
        del run.encoded[:count]
        run.encoded_from = start + count
        self.count = count
        next_multi = bisect_left(run.multis, start)
        has_multi = next_multi < len(run.multis) and run.multis[next_multi] < start + count
        self.is_retryable = self.is_acknowledged and not has_multi
        return DocumentSequence(self._field, taken)

    def _check_options(self, facts: ServerFacts) -> None:
        """Refuse what a server older than 8.0 does not know and would not refuse itself."""
        if not self.is_acknowledged:
            check_needs(
                unacknowledged_needs(let=self._options.get("let"), comment=self._options.get("comment")),
                facts,
            )
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
