"""Pure: what a write changes: plans, which are made from a view and may be made again from a later one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.simulation import documents
from tests.simulation.storage import Change
from tests.support.mongos.errors import CommandError

if TYPE_CHECKING:
    from tests.simulation.documents import Document
    from tests.simulation.transactions import Snapshot

Plan: TypeAlias = Callable[["Snapshot"], tuple[list[Change], "Document"]]
NewId: TypeAlias = Callable[[], Any]


def matching(view: Snapshot, namespace: str, query: Mapping[str, Any]) -> list[Document]:
    """The documents of a collection that a filter asks for."""
    identifiers = documents.wanted_ids(query)
    if identifiers is not None:
        found = [view.document(namespace, identifier) for identifier in identifiers]
        candidates = [document for document in found if document is not None]
        if len(query) == 1:
            return candidates
    else:
        file = query.get("files_id")
        candidates = list(view.scan(namespace, None if isinstance(file, dict) else file))
    return [document for document in candidates if documents.matches(document, query)]


def plan_insert(namespace: str, document: Document, _new_id: NewId) -> Plan:
    """Insert a document."""

    def plan(view: Snapshot) -> tuple[list[Change], Document]:
        if view.document(namespace, document["_id"]) is not None:
            message = f"E11000 duplicate key error collection: {namespace} index: _id_ dup key: {document['_id']!r}"
            raise CommandError(11000, message)
        return [Change(namespace, document["_id"], document, "insert")], {"n": 1}

    return plan


def plan_update(namespace: str, statement: Mapping[str, Any], new_id: NewId) -> Plan:
    """Update or replace documents: `q`, `u`, `multi`, `upsert`."""
    query, update = statement["q"], statement["u"]

    def plan(view: Snapshot) -> tuple[list[Change], Document]:
        found = matching(view, namespace, query)
        if not found:
            if not statement.get("upsert"):
                return [], {"n": 0, "nModified": 0}
            made = documents.upserted(query, update, new_id())
            change = Change(namespace, made["_id"], made, "insert")
            return [change], {"n": 1, "nModified": 0, "upserted": made["_id"]}
        found = found if statement.get("multi") else found[:1]
        changes = [each for document in found if (each := _changed(namespace, document, update)) is not None]
        return changes, {"n": len(found), "nModified": len(changes)}

    return plan


def _changed(namespace: str, document: Document, update: Mapping[str, Any]) -> Change | None:
    made = documents.updated(document, update)
    if made == document:
        return None
    if not next(iter(update), "").startswith("$"):
        return Change(namespace, made["_id"], made, "replace")
    set_fields = {name: value for name, value in made.items() if name not in document or document[name] != value}
    description = {"updatedFields": set_fields, "removedFields": [name for name in document if name not in made]}
    return Change(namespace, made["_id"], made, "update", {**description, "truncatedArrays": []})


def plan_delete(namespace: str, statement: Mapping[str, Any], _new_id: NewId) -> Plan:
    """Delete documents: `q`, `limit`."""

    def plan(view: Snapshot) -> tuple[list[Change], Document]:
        found = matching(view, namespace, statement["q"])
        found = found[:1] if statement["limit"] else found
        return [Change(namespace, each["_id"], None, "delete") for each in found], {"n": len(found)}

    return plan


def plan_find_and_modify(namespace: str, command: Mapping[str, Any], new_id: NewId) -> Plan:
    """Change one document and return it as it was, or is."""
    query = command.get("query", {})

    def plan(view: Snapshot) -> tuple[list[Change], Document]:
        found = documents.ordered(matching(view, namespace, query), command.get("sort"))[:1]
        if command.get("remove"):
            changes = [Change(namespace, each["_id"], None, "delete") for each in found]
            return changes, {"value": found[0] if found else None, "lastErrorObject": {"n": len(found)}}
        if not found:
            if not command.get("upsert"):
                return [], {"value": None, "lastErrorObject": {"n": 0, "updatedExisting": False}}
            made = documents.upserted(query, command["update"], new_id())
            last = {"n": 1, "updatedExisting": False, "upserted": made["_id"]}
            value = made if command.get("new") else None
            return [Change(namespace, made["_id"], made, "insert")], {"value": value, "lastErrorObject": last}
        change = _changed(namespace, found[0], command["update"])
        value = change.document if command.get("new") and change is not None else found[0]
        last = {"n": 1, "updatedExisting": True}
        return [] if change is None else [change], {"value": value, "lastErrorObject": last}

    return plan
