"""The bulkWrite command of MongoDB 8.0, for scripted servers: collections in memory, the cursor of the results.

Implements what the specification says about the command: single results or errors only, ordered or not, counts,
upserts, document sequences, a results cursor whose batches are limited in size, and a retry that is recognised by its
session and transaction number and changes nothing.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

import bson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.testing.scripted import Answer, ScriptedServer

Document = dict[str, Any]

V8_0: Final = 25
NAMESPACE: Final = "admin.$cmd.bulkWrite"
_LARGEST_BATCH: Final = 16 * 1024 * 1024
# What a reply has besides the results of its batch.
_ENVELOPE: Final = 1000


class BulkWriteServer:
    """Collections, and the commands that write to them and read the results.

    Args:
        server: Answers bulkWrite, getMore and killCursors from now on.
        limits: Fields of its hello: `maxWriteBatchSize`, `maxMessageSizeBytes`, `maxBsonObjectSize`.
        batch: The maximum number of results in a batch.
    """

    def __init__(self, server: ScriptedServer, *, batch: int = 1_000_000, **limits: int) -> None:
        self.server = server
        self.batch = batch
        self._largest = limits.get("maxBsonObjectSize", _LARGEST_BATCH) - _ENVELOPE
        # By namespace and `_id`.
        self.collections: dict[str, dict[Any, Document]] = {}
        # Results that are not read yet, by cursor.
        self.cursors: dict[int, list[Document]] = {}
        # Merged into replies with ok: 1.
        self.extra: Document = {}
        self._ids = count(1001)
        self._replies: dict[tuple[bytes, int], Document] = {}
        server.hello = {"maxWireVersion": V8_0, **limits}
        server.on("bulkWrite", self.bulk_write)
        server.on("getMore", self.get_more)
        server.on("killCursors", self.kill_cursors)
        server.on("commitTransaction", {"ok": 1})

    def commands(self) -> list[Document]:
        """The bulkWrite commands received so far."""
        return self.server.commands("bulkWrite")

    # --- the commands ---

    def bulk_write(self, command: Document) -> Answer:
        """Execute a bulkWrite command."""
        assert command["$db"] == "admin"
        is_retryable = "txnNumber" in command and command.get("autocommit", True)
        key = (bytes(command["lsid"]["id"]), command["txnNumber"]) if is_retryable else None
        if key is not None and key in self._replies:
            return self._replies[key]
        counts = dict.fromkeys(("nErrors", "nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        results: list[Document] = []
        for index, operation in enumerate(command["ops"]):
            result = self._execute(operation, command["nsInfo"], counts)
            result["idx"] = index
            if not (result["ok"] and command["errorsOnly"]):
                results.append(result)
            if not result["ok"]:
                counts["nErrors"] += 1
                if command["ordered"]:
                    break
        first, cursor_id = self._next(results), 0
        if results:
            cursor_id = next(self._ids)
            self.cursors[cursor_id] = results
        cursor = {"id": bson.Int64(cursor_id), "ns": NAMESPACE, "firstBatch": first}
        reply = {"ok": 1, "cursor": cursor, **counts, **self.extra}
        if key is not None:
            self._replies[key] = reply
        return reply

    def get_more(self, command: Document) -> Answer:
        """Return further results."""
        assert (command["$db"], command["collection"]) == ("admin", "$cmd.bulkWrite")
        results = self.cursors[command["getMore"]]
        batch = self._next(results)
        cursor_id = command["getMore"] if results else 0
        if not results:
            del self.cursors[command["getMore"]]
        return {"cursor": {"id": bson.Int64(cursor_id), "ns": NAMESPACE, "nextBatch": batch}}

    def kill_cursors(self, command: Document) -> Answer:
        """Drop results."""
        for cursor_id in command["cursors"]:
            self.cursors.pop(cursor_id, None)
        return {"ok": 1, "cursorsKilled": command["cursors"]}

    def _next(self, results: list[Document]) -> list[Document]:
        """Take the next batch from `results`."""
        size = number = 0
        for result in results[: self.batch]:
            size += len(bson.encode(result))
            if number and size > self._largest:
                break
            number += 1
        taken = results[:number]
        del results[:number]
        return taken

    # --- single writes ---

    def _execute(self, operation: Document, namespaces: list[Document], counts: dict[str, int]) -> Document:
        kind = next(iter(operation))
        collection = self.collections.setdefault(namespaces[operation[kind]]["ns"], {})
        if kind == "insert":
            document = operation["document"]
            assert next(iter(document)) == "_id"
            if document["_id"] in collection:
                return {"ok": 0, "code": 11000, "errmsg": "E11000 duplicate key error", "n": 0}
            collection[document["_id"]] = document
            counts["nInserted"] += 1
            return {"ok": 1, "n": 1}
        if "$bad" in operation["filter"]:
            return {"ok": 0, "code": 2, "errmsg": "unknown operator: $bad", "n": 0}
        found = [key for key, document in collection.items() if _matches(document, operation["filter"])]
        found = found if operation["multi"] else found[:1]
        if kind == "delete":
            for key in found:
                del collection[key]
            counts["nDeleted"] += len(found)
            return {"ok": 1, "n": len(found)}
        return self._update(operation, collection, found, counts)

    @staticmethod
    def _update(
        operation: Document, collection: dict[Any, Document], found: list[Any], counts: dict[str, int]
    ) -> Document:
        if not found and operation.get("upsert"):
            document = _changed(dict(operation["filter"]), operation["updateMods"])
            collection[document.setdefault("_id", bson.ObjectId())] = document
            counts["nUpserted"] += 1
            return {"ok": 1, "n": 1, "nModified": 0, "upserted": {"_id": document["_id"]}}
        modified = 0
        for key in found:
            after = _changed(collection[key], operation["updateMods"])
            modified += after != collection[key]
            collection[key] = after
        counts["nMatched"] += len(found)
        counts["nModified"] += modified
        return {"ok": 1, "n": len(found), "nModified": modified}


def _matches(document: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    return all(document.get(name) == value for name, value in query.items())


def _changed(document: Document, change: Any) -> Document:
    stages = change if isinstance(change, list) else [change]
    for stage in stages:
        if "$set" in stage:
            document = {**document, **stage["$set"]}
        elif "$inc" in stage:
            document = {**document, **{name: document.get(name, 0) + by for name, by in stage["$inc"].items()}}
        else:
            document = {**{name: document[name] for name in ("_id",) if name in document}, **stage}
    return document
