"""Pure: the merged result of a bulk write's batches, in PyMongo's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base import error_documents
from motorlite._operations.slices import ITEMS
from motorlite._wire.replies import number, upserts
from motorlite.errors import BulkWriteError, BulkWriteExecutionTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._operations.bulk_runs import BulkRun
    from motorlite._operations.slices import Slices


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
