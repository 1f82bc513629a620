"""Pure: bugs to plant in the driver. The comparison must find each of them.

Each is a mistake that a program would notice, and that makes no call fail outright: a result of another type or value,
an error that no `except` clause expects, a field that is missing on the wire, a session that forgets something.
"""

from __future__ import annotations

from typing import Final

from tests.support.planting import Bug

_ALL: Final = (
    # Results.
    Bug(
        "ids-as-tuple",
        "insert_many returns its ids as a tuple",
        "_api.collection.bulk:AsyncCollection.insert_many",
        ("InsertManyResult(inserted_ids,", "InsertManyResult(tuple(inserted_ids),"),
    ),
    Bug(
        "upsert-matches",
        "in a bulk write, an upsert counts as a match",
        "_operations.bulk:BulkResult.merge",
        ("affected - len(upserted)", "affected"),
    ),
    Bug(
        "index-in-its-run",
        "a write error in a bulk write has its index among the requests of the same kind",
        "_operations.bulk:BulkResult.merge",
        ('"index": run.indexes[position], "op"', '"index": position, "op"'),
    ),
    Bug(
        "documents-of-later-batches",
        "the codec options do not apply to the documents of getMore",
        "_api.cursors.server_cursor:ServerCursor._get_more",
        ("codec_options=self._codec_options,", ""),
    ),
    Bug(
        "count-as-float",
        "count_documents returns a float",
        "_operations.reads:CountDocuments.parse",
        ('number(batch[0], "n") if batch', 'float(batch[0]["n"]) if batch'),
    ),
    # Errors.
    Bug(
        "duplicate-is-any-failure",
        "the duplicate key error of a command is an OperationFailure",
        "_wire.replies:error_from_reply",
        ("return DuplicateKeyError(", "return OperationFailure("),
    ),
    Bug(
        "write-error-without-code",
        "a write error has no code",
        "_wire.replies:write_error",
        ("kind(message, code, error)", "kind(message, None, error)"),
    ),
    Bug(
        "code-of-another-error",
        "an error has the next code",
        "_wire.replies:error_from_reply",
        ("return OperationFailure(message, code,", "return OperationFailure(message, code and code + 1,"),
    ),
    # Fields on the wire.
    Bug(
        "no-empty-array-filters",
        "array filters that are empty are not sent",
        "_operations.statements:update_statement",
        ("if array_filters is not None:", "if array_filters:"),
    ),
    Bug(
        "collation-of-one",
        "the collation of delete_many is not sent",
        "_operations.statements:delete_statement",
        ("if collation is not None:", "if collation is not None and not multi:"),
    ),
    Bug(
        "bulk-sort",
        "the sort of updates in a bulk write is not sent",
        "_operations.statements:statement_of",
        ('"sort": request.sort', '"sort": None'),
    ),
    Bug(
        "getmore-without-comment",
        "getMore lacks the comment of its query",
        "_operations.cursors:GetMore.command",
        ("self._comment is not None and", "False and"),
    ),
    Bug(
        "batch-beyond-the-limit",
        "getMore asks for as many documents as the whole query may return",
        "_api.cursors.server_cursor:ServerCursor._batch_size",
        ("remaining = limit - self.retrieved", "remaining = limit"),
    ),
    Bug(
        "short-length",
        "the length of a file in GridFS is a 32-bit integer",
        "_gridfs.files:file_document",
        ("Int64(length)", "length"),
    ),
    # Sessions and transactions.
    Bug(
        "session-without-time",
        "no command has the time of its session",
        "_execution.building:add_session_times",
        ("and operation.supports_after_cluster_time", "and False"),
    ),
    Bug(
        "snapshot-moves",
        "a snapshot session does not learn the time of its snapshot",
        "_sessions.session:Session.advance",
        ("if isinstance(found, Timestamp):", "if False:"),
    ),
    Bug(
        "transaction-without-time",
        "the first command of a transaction lacks the time of its session",
        "_execution.transactions:Part.add_fields",
        ("if session.is_causally_consistent and", "if False and"),
    ),
    Bug(
        "concern-in-transaction",
        "the read concern of a collection is sent in a transaction",
        "_execution.transactions:Part.add_fields",
        ('document.pop("readConcern", None)', "pass"),
    ),
    Bug(
        "starts-again",
        "every command of a transaction starts it",
        "_execution.transactions:Part.__init__",
        ("transaction.state is State.STARTING", "transaction.state is not State.COMMITTED"),
    ),
    Bug(
        "number-used-twice",
        "a second transaction of a session has the number of the first",
        "_sessions.session:Session.number",
        ("server_session.transaction_number += self.unnumbered", "server_session.transaction_number |= 1"),
    ),
    Bug(
        "second-commit-as-the-first",
        "a commit that is repeated does not ask for a majority",
        "_sessions.session:Transaction.end",
        ("if self.state is State.COMMITTED and", "if False and"),
    ),
)

BUGS: Final = {bug.name: bug for bug in _ALL}
"""All bugs by name."""
