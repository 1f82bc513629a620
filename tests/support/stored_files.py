"""A scripted server that stores GridFS files: it has just the commands and queries that GridFS needs."""

from __future__ import annotations

import datetime
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bson.regex import Regex

from motorlite.gridfs import AsyncGridFSBucket
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from motorlite.testing.scripted import Answer
    from tests.support.clients import Client

Document = dict[str, Any]

# Seconds that a command takes; it is carried out shortly before its reply is sent.
DELAY: Final = 0.01
_DUPLICATE: Final = 11000
_TOO_OLD: Final = 225


class StoredFiles:
    """Collections by their full names, and what is done with them.

    A write takes effect at the end of its delay, also if its client has left meanwhile. A retryable write is refused
    if the session had a later one before (TransactionTooOld), as servers do.

    Attributes:
        collections: The documents, by the name of the collection.
        indexes: The keys of the indexes, by the name of the collection.
        delays: Seconds that a command takes, by its name, or by name and collection (``"insert fs.files"``).
        cursors: The documents that open cursors have left.
        answers: What a command is answered with, once each, instead of being carried out.
        committed: What a find with the read concern majority sees, by the name of the collection, where that is behind.
    """

    def __init__(self, *, replica_set: bool = True) -> None:
        self.deployment = ScriptedDeployment(["a:1"], replica_set="rs" if replica_set else None)
        self.collections: dict[str, list[Document]] = {}
        self.indexes: dict[str, list[Document]] = {}
        self.delays: dict[str, float] = {}
        self.cursors: dict[int, list[Document]] = {}
        self.answers: dict[str, list[Answer]] = {}
        self.committed: dict[str, list[Document]] = {}
        self._numbers = count(1)
        self._newest_writes: dict[bytes, int] = {}
        self.server = self.deployment["a:1"]
        commands: dict[str, Callable[[Document], Document]] = {
            "insert": self._insert,
            "find": self._find,
            "getMore": self._get_more,
            "killCursors": self._kill_cursors,
            "delete": self._delete,
            "update": self._update,
            "distinct": self._distinct,
            "listIndexes": self._list_indexes,
            "createIndexes": self._create_indexes,
            "drop": self._drop,
        }
        for name, perform in commands.items():
            self.server.on(name, self._answer(name, perform))

    def documents(self, collection: str) -> list[Document]:
        """The documents of a collection."""
        return self.collections.setdefault(collection, [])

    @property
    def files(self) -> list[Document]:
        """The documents of the bucket's files."""
        return self.documents("fs.files")

    @property
    def chunks(self) -> list[Document]:
        """The documents of the bucket's chunks."""
        return self.documents("fs.chunks")

    def spread(self) -> None:
        """Make the files a day apart: in virtual time they are stored at the same moment."""
        for day, file in enumerate(self.files, 1):
            file["uploadDate"] = datetime.datetime(2024, 1, day, tzinfo=datetime.UTC)

    def names(self) -> list[str]:
        """The received commands, each with its collection."""
        return [f"{received.name} {received.document[received.name]}" for received in self.server.received]

    def _answer(self, name: str, perform: Callable[[Document], Document]) -> Callable[[Document], Answer]:
        def answer(command: Document) -> Answer:
            what = f"{name} {command[name]}"
            delay = self.delays.get(what, self.delays.get(name, DELAY))
            reply: Document = {}
            scripted = self.answers.get(what, self.answers.get(name))
            if scripted:
                return scripted.pop(0)
            self.deployment._later(delay * 0.9, self._perform, perform, command, reply)
            return Reply(reply, delay)

        return answer

    def _perform(self, perform: Callable[[Document], Document], command: Document, reply: Document) -> None:
        if "txnNumber" in command:
            session, number = command["lsid"]["id"], command["txnNumber"]
            if number < self._newest_writes.get(session, 0):
                reply.update(failure(_TOO_OLD))
                return
            self._newest_writes[session] = number
        reply.update(perform(command))

    # --- writes ---

    def _insert(self, command: Document) -> Document:
        documents = self.documents(command["insert"])
        for index, document in enumerate(command["documents"]):
            if any(_is_duplicate(document, other) for other in documents):
                return {"n": index, "writeErrors": [{"index": index, "code": _DUPLICATE, "errmsg": "E11000"}]}
            documents.append(document)
        return {"n": len(command["documents"])}

    def _delete(self, command: Document) -> Document:
        documents, deleted = self.documents(command["delete"]), 0
        for statement in command["deletes"]:
            found = [document for document in documents if matches(document, statement["q"])]
            for document in found[: statement["limit"] or None]:
                documents.remove(document)
                deleted += 1
        return {"n": deleted}

    def _update(self, command: Document) -> Document:
        updated = 0
        for statement in command["updates"]:
            found = [each for each in self.documents(command["update"]) if matches(each, statement["q"])]
            for document in found if statement.get("multi") else found[:1]:
                document.update(statement["u"].get("$set", statement["u"]))
                updated += 1
        return {"n": updated, "nModified": updated}

    def _drop(self, command: Document) -> Document:
        del self.documents(command["drop"])[:]
        self.indexes.pop(command["drop"], None)
        return {}

    def _create_indexes(self, command: Document) -> Document:
        self.indexes.setdefault(command["createIndexes"], []).extend(command["indexes"])
        return {}

    # --- reads ---

    def _find(self, command: Document) -> Document:
        documents = self.documents(command["find"])
        if command.get("readConcern") == {"level": "majority"}:
            documents = self.committed.get(command["find"], documents)
        found = [document for document in documents if matches(document, command["filter"])]
        for field, direction in reversed(command.get("sort", {}).items()):
            found.sort(key=lambda document: document[field], reverse=direction < 0)  # used at once
        found = found[command.get("skip", 0) :][: abs(command.get("limit", 0)) or None]
        return self._batch(command["find"], found, command.get("batchSize", 101), "firstBatch")

    def _get_more(self, command: Document) -> Document:
        left = self.cursors.pop(command["getMore"], None)
        if left is None:
            return failure(43)
        return self._batch(command["collection"], left, command.get("batchSize", 101), "nextBatch")

    def _batch(self, collection: str, found: list[Document], size: int, field: str) -> Document:
        cursor_id, left = 0, found[size:]
        # As servers do: a full batch does not say that it is the last one.
        if (len(found) >= size and field == "firstBatch") or left:
            cursor_id = next(self._numbers)
            self.cursors[cursor_id] = left
        return {"cursor": {"id": cursor_id, "ns": f"db.{collection}", field: found[:size]}}

    def _kill_cursors(self, command: Document) -> Document:
        for cursor_id in command["cursors"]:
            self.cursors.pop(cursor_id, None)
        return {"cursorsKilled": command["cursors"]}

    def _distinct(self, command: Document) -> Document:
        return {"values": [document.get(command["key"]) for document in self.documents(command["distinct"])]}

    def _list_indexes(self, command: Document) -> Document:
        return self._batch(command["listIndexes"], self.indexes.get(command["listIndexes"], []), 101, "firstBatch")


def _is_duplicate(document: Document, other: Document) -> bool:
    if "n" in document:
        return bool((document["files_id"], document["n"]) == (other["files_id"], other["n"]))
    return bool(document["_id"] == other["_id"])


def matches(document: Document, query: Mapping[str, Any]) -> bool:
    """Whether a document matches a query that GridFS makes, or that looks up data keys."""
    return all(
        any(matches(document, each) for each in condition)
        if field == "$or"
        else _matches(document.get(field), condition)
        for field, condition in query.items()
    )


def _matches(value: Any, condition: Any) -> bool:
    if isinstance(condition, Regex):
        return value == condition or (isinstance(value, str) and condition.try_compile().search(value) is not None)
    if not isinstance(condition, dict) or not any(name.startswith("$") for name in condition):
        return bool(value == condition)
    ((operator, operand),) = condition.items()
    if operator == "$in":
        return any(_matches(value, each) if isinstance(each, Regex) else value == each for each in operand)
    return bool(value >= operand if operator == "$gte" else value == operand)


@asynccontextmanager
async def stored_files(
    *, replica_set: bool = True, **options: Any
) -> AsyncIterator[tuple[StoredFiles, AsyncGridFSBucket, Client]]:
    """A server, a bucket with chunks of four bytes, and its client."""
    files = StoredFiles(replica_set=replica_set)
    async with scripted_client(files.deployment, **options) as client:
        yield files, AsyncGridFSBucket(client.db, chunk_size_bytes=4), client
