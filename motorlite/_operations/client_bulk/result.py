"""Pure: the merged result of a client's bulk write, in PyMongo's form (bulk write specification, "Handling...")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.writes.slices import ITEMS
from motorlite._wire.replies import document, number, whole
from motorlite.errors import ClientBulkWriteException, ProtocolError, PyMongoError, detached
from motorlite.results import ClientBulkWriteResult, DeleteResult, InsertOneResult, UpdateResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._operations.client_bulk.statements import Statement
    from motorlite._operations.writes.slices import Slices

# What the executor knows about an error, which the bulk write's own error repeats.
_FACTS = (
    *("address", "attempts", "client_limit", "phase", "reached_server", "retry_after", "retry_reasons"),
    *("retry_refusal", "server_limit"),
)
# The counts of a reply, which the details have under the same names.
_COUNTS = ("nInserted", "nUpserted", "nMatched", "nModified", "nDeleted")


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
            **dict.fromkeys(_COUNTS, 0),
            "insertResults": {},
            "updateResults": {},
            "deleteResults": {},
        }

    def merge(self, reply: Mapping[str, Any], count: int) -> None:
        """Merge the counts and the write concern error of a batch of `count` operations (`ClientBulkBatch.parse`)."""
        details = self.details
        for name in _COUNTS:
            details[name] += number(reply, name, 0)
        failed = number(reply, "nErrors", 0)
        if failed == 0 or (not self._is_ordered and failed < count):
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
