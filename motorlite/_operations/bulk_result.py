"""Pure: what the batches of a bulk write add up to, in PyMongo's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._replies import number, upserts
from motorlite.errors import BulkWriteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._operations.bulk_runs import Run


class BulkResult:
    """Counts, upserts and errors so far; indexes are those of the whole bulk write."""

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

    def merge(self, run: Run, start: int, reply: Mapping[str, Any]) -> None:
        """Add the reply, which `BulkBatch.parse` has checked, to the batch that began at statement `start` of `run`."""
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
            # Copies: the reply itself is published to command listeners.
            statement = run.statements[position]
            if run.kind == "update":
                # PyMongo sends `multi` and `upsert` always, and programs look them up here.
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
        """Whether further batches are sent: an ordered bulk write ends at its first write error."""
        return not (self._ordered and self.details["writeErrors"])

    @property
    def error(self) -> BulkWriteError | None:
        """What to raise at the end, with the errors in the order of their indexes, or None."""
        details = self.details
        if not details["writeErrors"] and not details["writeConcernErrors"]:
            return None
        details["writeErrors"].sort(key=lambda error: error["index"])
        return BulkWriteError(details)
