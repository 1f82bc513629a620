"""Pure: what the members of a simulation do with documents: filters, updates, projections and identities.

Documents in storage are never changed in place: an update makes a new one. Only what the workload and the driver need
is there; anything else raises, so that no command means something else than on a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64

from tests.support.mongos.errors import BAD_VALUE, FAILED_TO_PARSE, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

Document = dict[str, Any]


def key_of(identifier: Any) -> Hashable:
    """What stands for an `_id` in dictionaries."""
    return repr(identifier) if isinstance(identifier, dict | list) else identifier


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$eq": lambda found, wanted: found == wanted,
    "$ne": lambda found, wanted: found != wanted,
    "$gt": lambda found, wanted: found is not None and found > wanted,
    "$gte": lambda found, wanted: found is not None and found >= wanted,
    "$lt": lambda found, wanted: found is not None and found < wanted,
    "$lte": lambda found, wanted: found is not None and found <= wanted,
    "$in": lambda found, wanted: found in wanted,
    "$nin": lambda found, wanted: found not in wanted,
    "$exists": lambda found, wanted: (found is not None) is bool(wanted),
}


def matches(document: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    """Whether a document is what a filter asks for.

    Raises:
        CommandError: The filter has an operator that is not modelled.
    """
    for name, wanted in query.items():
        if name.startswith("$"):
            raise CommandError(BAD_VALUE, f"unknown top level operator: {name}")
        found = _field(document, name)
        if isinstance(wanted, dict) and wanted and next(iter(wanted)).startswith("$"):
            for operator, operand in wanted.items():
                if operator not in _COMPARISONS:
                    raise CommandError(BAD_VALUE, f"unknown operator: {operator}")
                if not _COMPARISONS[operator](found, operand):
                    return False
        elif found != wanted:
            return False
    return True


def _field(document: Mapping[str, Any], path: str) -> Any:
    name, dot, rest = path.partition(".")
    found = document.get(name)
    return _field(found, rest) if dot and isinstance(found, dict) else found


def wanted_ids(query: Mapping[str, Any]) -> list[Any] | None:
    """The `_id`s that a filter permits, or None if it does not name them."""
    if "_id" not in query:
        return None
    wanted = query["_id"]
    if not isinstance(wanted, dict) or not wanted or not next(iter(wanted)).startswith("$"):
        return [wanted]
    if "$eq" in wanted:
        return [wanted["$eq"]]
    return list(wanted["$in"]) if "$in" in wanted else None


def ordered(documents: Iterable[Document], sort: Mapping[str, Any] | None) -> list[Document]:
    """The documents in the order of a sort; null first."""
    found = list(documents)
    for name, direction in reversed(list((sort or {}).items())):
        found.sort(key=lambda document: (document.get(name) is not None, document.get(name)), reverse=direction < 0)
    return found


def projected(document: Document, projection: Mapping[str, Any] | None) -> Document:
    """The fields that a projection leaves."""
    if not projection:
        return document
    if any(projection[name] for name in projection if name != "_id"):
        names = {name for name, value in projection.items() if value} | ({"_id"} if projection.get("_id", 1) else set())
        return {name: value for name, value in document.items() if name in names}
    return {name: value for name, value in document.items() if projection.get(name, 1)}


def upserted(query: Mapping[str, Any], update: Mapping[str, Any], identifier: Any) -> Document:
    """The document that an upsert inserts; `identifier` is its `_id` unless the filter or the update has one."""
    base = {name: value for name, value in query.items() if not isinstance(value, dict)}
    made = updated({"_id": identifier, **base}, update, inserts=True)
    return made if "_id" in made else {"_id": base.get("_id", identifier), **made}


def updated(document: Document, update: Mapping[str, Any], *, inserts: bool = False) -> Document:
    """A document after an update with operators, or the replacement.

    Raises:
        CommandError: The update is not modelled, or does not fit the document.
    """
    if not isinstance(update, dict):
        raise CommandError(FAILED_TO_PARSE, "updates are documents here")
    if not update or not next(iter(update)).startswith("$"):
        return {"_id": document["_id"], **update} if "_id" in document else dict(update)
    made = dict(document)
    for operator, fields in update.items():
        for name, value in fields.items():
            if operator == "$inc":
                made[name] = _sum(made.get(name, 0), value)
            elif operator == "$set" or (operator == "$setOnInsert" and inserts):
                made[name] = value
            elif operator == "$unset":
                made.pop(name, None)
            elif operator == "$push":
                made[name] = [*made.get(name, ()), value]
            elif operator != "$setOnInsert":
                raise CommandError(FAILED_TO_PARSE, f"Unknown modifier: {operator}")
    return made


def _sum(left: Any, right: Any) -> Any:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise CommandError(14, "Cannot apply $inc to a value of non-numeric type")
    total = left + right
    return Int64(total) if isinstance(left, Int64) or isinstance(right, Int64) else total
