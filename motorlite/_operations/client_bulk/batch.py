"""Pure: one bulkWrite command, with as many operations as the server accepts (bulk write specification)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from motorlite._base.sizes import estimated_size
from motorlite._base.values import format_address
from motorlite._base.wire_versions import V8_0, release
from motorlite._execution.operation import Command, CursorReply, DocumentSequence, Kind, Operation
from motorlite._operations.common import FIRST_BATCH, add_write_concern, is_acknowledged
from motorlite._operations.writes.slices import STATEMENT_ALLOWANCE, all_at_once
from motorlite._wire.replies import concern_error, number
from motorlite.errors import DocumentTooLarge, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._execution.operation import Document, ServerFacts
    from motorlite._operations.client_bulk.statements import Statement
    from motorlite._operations.writes.slices import Slices
    from motorlite.write_concern import WriteConcern

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
    document_fields = FIRST_BATCH

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
        self._options: Document = {"errorsOnly": not verbose, "ordered": ordered}
        if bypass_document_validation is not None:
            self._options["bypassDocumentValidation"] = bypass_document_validation
        if comment is not None:
            self._options["comment"] = comment
        if let is not None:
            self._options["let"] = let
        if max_time_ms is not None:
            self._options["maxTimeMS"] = max_time_ms
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
            from motorlite._errors.unencodable import explain

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
