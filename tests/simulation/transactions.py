"""Pure: the transactions that a primary of a simulation has open, and the documents that they have locked.

A transaction reads from the snapshot in which it began and keeps its writes to itself until it commits. The first
transaction that writes a document wins: another one gets a write conflict, and a write outside of transactions waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.documents import key_of
from tests.support.mongos.errors import (
    CONFLICTING_OPERATION_IN_PROGRESS,
    NO_SUCH_TRANSACTION,
    TRANSACTION_COMMITTED,
    TRANSACTION_TOO_OLD,
    CommandError,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from tests.simulation.documents import Document
    from tests.simulation.storage import Change, Storage

LIFETIME: Final = 8.0
"""Seconds after which a primary aborts a transaction."""
WRITE_CONFLICT: Final = 112
Slot = tuple[str, "Hashable"]


class Snapshot:
    """What a command reads: the documents as of one index of the log."""

    def __init__(self, storage: Storage, at: int) -> None:
        self.storage = storage
        self.at = at

    def document(self, namespace: str, identifier: Any) -> Document | None:
        return self.storage.document(namespace, identifier, self.at)

    def scan(self, namespace: str, file: Any = None) -> Iterator[Document]:
        return self.storage.scan(namespace, self.at, file)


@dataclass(eq=False)
class OpenTransaction(Snapshot):
    """A transaction that has neither been committed nor aborted."""

    storage: Storage
    at: int
    number: int
    began: float
    changes: dict[Slot, Change] = field(default_factory=dict)

    def document(self, namespace: str, identifier: Any) -> Document | None:
        change = self.changes.get((namespace, key_of(identifier)))
        return super().document(namespace, identifier) if change is None else change.document

    def scan(self, namespace: str, file: Any = None) -> Iterator[Document]:
        own = {key: change for (name, key), change in self.changes.items() if name == namespace}
        for document in super().scan(namespace, file):
            if key_of(document["_id"]) not in own:
                yield document
        for change in own.values():
            if change.document is not None and (file is None or change.document.get("files_id") == file):
                yield change.document


class Transactions:
    """The open transactions of one primary; they end when it steps down."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._open: dict[bytes, OpenTransaction] = {}
        self._locks: dict[Slot, bytes] = {}
        # The latest number of each session: also of commands that changed nothing, which the log does not know.
        self._latest: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, session: bytes, number: int, at: int, now: float) -> OpenTransaction:
        """Start a transaction, which ends an earlier one of the session."""
        known = self._open.get(session)
        if known is not None and known.number == number:
            raise CommandError(CONFLICTING_OPERATION_IN_PROGRESS, f"transaction {number} has already started")
        self.supersede(session, number)
        self._open[session] = transaction = OpenTransaction(self._storage, at, number, now)
        return transaction

    def find(self, session: bytes, number: int, record: Mapping[str, Any] | None) -> OpenTransaction:
        """The open transaction that a statement belongs to.

        Args:
            session: The statement's session.
            number: Its `txnNumber`.
            record: What the log knows of the session.

        Raises:
            CommandError: There is none, and why.
        """
        known = self._open.get(session)
        if known is not None and known.number == number:
            return known
        latest = max(0 if known is None else known.number, 0 if record is None else record["number"])
        if number < latest:
            raise CommandError(TRANSACTION_TOO_OLD, f"transaction {number} is older than {latest} of its session")
        if record is not None and record["number"] == number and record["is_committed"]:
            raise CommandError(TRANSACTION_COMMITTED, f"transaction {number} has been committed")
        raise CommandError(NO_SUCH_TRANSACTION, f"given transaction number {number} does not match any in progress")

    def supersede(self, session: bytes, number: int) -> None:
        """A command with this number begins: it ends an older transaction, and is refused by a newer one."""
        latest = self._latest.get(session, 0)
        if latest > number:
            raise CommandError(TRANSACTION_TOO_OLD, f"{number} is older than {latest} of its session")
        self._latest[session] = number
        self.end(session)

    def lock(self, session: bytes, transaction: OpenTransaction, namespace: str, identifier: Any) -> None:
        """Let a transaction write a document.

        Raises:
            CommandError: Another one has written it since this one began, or is about to.
        """
        slot = namespace, key_of(identifier)
        owner = self._locks.get(slot, session)
        if owner != session or self._storage.changed_at(namespace, identifier) > transaction.at:
            raise CommandError(WRITE_CONFLICT, "Write conflict during plan execution and yielding is disabled.")
        self._locks[slot] = session

    def is_locked(self, namespace: str, identifier: Any) -> bool:
        """Whether a transaction has written a document."""
        return bool(self._locks) and (namespace, key_of(identifier)) in self._locks

    def end(self, session: bytes) -> OpenTransaction | None:
        """Forget the transaction of a session, if there is one, and unlock its documents."""
        transaction = self._open.pop(session, None)
        if transaction is not None:
            self._locks = {slot: owner for slot, owner in self._locks.items() if owner != session}
        return transaction

    def expire(self, now: float) -> bool:
        """End transactions that have been open too long; return whether there was one."""
        late = [session for session, transaction in self._open.items() if now - transaction.began > LIFETIME]
        for session in late:
            self.end(session)
        return bool(late)

    def abort(self) -> None:
        """End all transactions."""
        self._open.clear()
        self._locks.clear()

    def clear(self) -> None:
        """Forget all that is only in memory: the member is no longer the primary that it was."""
        self.abort()
        self._latest.clear()
