"""A scripted server on which every method of the public API succeeds, and that knows what is still open on it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

from motorlite.testing.scripted import Reply
from tests.support.stored_files import DELAY, StoredFiles, matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.stored_files import Document

# More than fit into a first batch, and all of them are changes too.
DOCUMENTS: Final = [{"_id": {"_data": f"{number:03}"}, "n": number, "name": f"a{number}"} for number in range(103)]
WHEN: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FILE: Final = {"_id": 1, "length": 40, "chunkSize": 4, "filename": "f", "uploadDate": WHEN}
CHUNKS: Final = [{"_id": number, "files_id": 1, "n": number, "data": b"1\n34"} for number in range(10)]
_BULK_WRITTEN: Final = {"cursor": {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}, "nErrors": 0}
_JUST_DONE: Final = (
    *("ping", "create", "dropDatabase", "renameCollection", "explain", "endSessions"),
    *("dropIndexes", "dropSearchIndex", "updateSearchIndex"),
)
_SIMPLE: Final[dict[str, Document]] = {
    "count": {"n": 3},
    "findAndModify": {"lastErrorObject": {"n": 1}, "value": {"_id": 1}},
    "bulkWrite": _BULK_WRITTEN,
    "createSearchIndexes": {"indexesCreated": [{"id": "1", "name": "a"}]},
    "listDatabases": {"databases": [{"name": "db", "sizeOnDisk": 1, "empty": False}], "totalSize": 1},
    "validate": {"valid": True},
    "buildInfo": {"version": "8.0.0"},
}


class StoredEverything(StoredFiles):
    """One member of a replica set, where each command takes a moment.

    Attributes:
        transactions: The open ones, by session and number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deployment.wire_version = 25
        self.server.hello_delay = DELAY
        self.transactions: set[tuple[bytes, int]] = set()
        for name in ("coll", "things"):
            self.collections[name] = [dict(document) for document in DOCUMENTS]
            self.indexes[name] = [{"key": {"a": 1}, "name": "a_1"}]
        self.collections["fs.files"] = [{**FILE, "_id": number} for number in (1, 2, 3)]
        self.collections["fs.chunks"] = [{**each, "files_id": number} for number in (1, 2, 3) for each in CHUNKS]
        for name in (*_JUST_DONE, *_SIMPLE):
            self.server.on(name, Reply(_SIMPLE.get(name, {}), DELAY))
        for name in ("aggregate", "listCollections"):
            self.server.on(name, self._answer(name, self._two_by_two))
        for name in ("commitTransaction", "abortTransaction"):
            self.server.on(name, self._answer(name, self._end))

    def _answer(self, name: str, perform: Callable[[Document], Document]) -> Callable[[Document], Any]:
        answer = super()._answer(name, perform)

        def begin_and_answer(command: Document) -> Any:
            if command.get("startTransaction"):
                self.transactions.add(_key(command))
            return answer(command)

        return begin_and_answer

    def _perform(self, perform: Callable[[Document], Document], command: Document, reply: Document) -> None:
        if "txnNumber" in command and "autocommit" in command:
            reply.update(perform(command))
        else:
            super()._perform(perform, command, reply)

    def _two_by_two(self, command: Document) -> Document:
        found = [document for document in DOCUMENTS[:3] if matches(document, command.get("filter", {}))]
        return self._batch("coll", found, 2, "firstBatch")

    def _end(self, command: Document) -> Document:
        self.transactions.discard(_key(command))
        return {}


def _key(command: Document) -> tuple[bytes, int]:
    return bytes(command["lsid"]["id"]), command["txnNumber"]
