"""Pure: what a member of a simulation has stored: its log, and every version of every document.

The log is the truth. An entry has the whole new state of each document that it changes, so applying it needs nothing
else, and rolling it back removes the newest versions. A view at an index of the log is a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.documents import key_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from bson.timestamp import Timestamp

    from tests.simulation.documents import Document

SESSIONS: Final = "config.transactions"
"""The collection of what retries of writes must know; it is replicated, and rolled back, with the writes."""
INDEXES: Final = "config.indexes"


@dataclass(frozen=True, slots=True)
class Change:
    """The new state of one document.

    Attributes:
        namespace: Database and collection.
        identifier: Its `_id`.
        document: None: it is deleted.
        kind: The operation type of its change event.
        update: The description of an update in its change event.
    """

    namespace: str
    identifier: Any
    document: Document | None
    kind: str
    update: Document | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log: what happens at once."""

    term: int
    time: Timestamp
    changes: Sequence[Change] = ()


@dataclass(slots=True)
class _History:
    """The versions of one document, with the indexes of their entries."""

    indexes: list[int] = field(default_factory=list)
    documents: list[Document | None] = field(default_factory=list)

    def at(self, index: int) -> Document | None:
        indexes = self.indexes
        if not indexes:
            return None
        if indexes[-1] <= index:
            return self.documents[-1]
        for position in range(len(indexes) - 2, -1, -1):
            if indexes[position] <= index:
                return self.documents[position]
        return None


class Storage:
    """The log and the documents of one member; it outlives its process."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        # Change streams cannot resume farther back than so many entries: the others have left the oplog.
        self.history: float = inf
        self._collections: dict[str, dict[Hashable, _History]] = {}
        # The keys of documents by their `files_id`: GridFS has an index for them.
        self._of_files: dict[tuple[str, Hashable], list[Hashable]] = {}

    @property
    def last(self) -> int:
        """The index of the newest entry; 0 if there is none."""
        return len(self.log)

    def term_at(self, index: int) -> int:
        """The term of an entry; 0 before the first one."""
        return self.log[index - 1].term if index else 0

    def append(self, entry: Entry) -> int:
        """Apply an entry; return its index."""
        self.log.append(entry)
        index = len(self.log)
        for change in entry.changes:
            collection = self._collections.setdefault(change.namespace, {})
            key = key_of(change.identifier)
            history = collection.get(key)
            if history is None:
                history = collection[key] = _History()
                if change.document is not None and "files_id" in change.document:
                    of_file = (change.namespace, key_of(change.document["files_id"]))
                    self._of_files.setdefault(of_file, []).append(key)
            history.indexes.append(index)
            history.documents.append(change.document)
        return index

    def truncate(self, index: int) -> int:
        """Roll back all entries after `index`; return how many."""
        undone = self.log[index:]
        for entry in reversed(undone):
            for change in reversed(entry.changes):
                history = self._collections[change.namespace][key_of(change.identifier)]
                history.indexes.pop()
                history.documents.pop()
        del self.log[index:]
        return len(undone)

    def document(self, namespace: str, identifier: Any, at: int) -> Document | None:
        """A document as of an index."""
        history = self._collections.get(namespace, {}).get(key_of(identifier))
        return None if history is None else history.at(at)

    def changed_at(self, namespace: str, identifier: Any) -> int:
        """The index of the entry that wrote the newest version of a document; 0 if there was none."""
        history = self._collections.get(namespace, {}).get(key_of(identifier))
        return history.indexes[-1] if history is not None and history.indexes else 0

    def collections_of(self, database: str) -> list[str]:
        """The names of the collections that were ever written in a database."""
        return [name.partition(".")[2] for name in self._collections if name.partition(".")[0] == database]

    def scan(self, namespace: str, at: int, file: Any = None) -> Iterator[Document]:
        """All documents of a collection as of an index, or those whose `files_id` is `file`."""
        collection = self._collections.get(namespace, {})
        if file is None:
            histories = list(collection.values())
        else:
            histories = [collection[key] for key in self._of_files.get((namespace, key_of(file)), ())]
        for history in histories:
            document = history.at(at)
            if document is not None:
                yield document
