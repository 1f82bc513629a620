"""Pure: the cursors of a simulated member: results that were computed at once, and change streams.

A change stream reads the log up to the majority commit point. Its resume tokens name an entry and a change in it, so
they are the same on every member, and ascend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tests.simulation.documents import matches
from tests.support.mongos.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.simulation.documents import Document
    from tests.simulation.replication import Replica

_HISTORY_LOST: Final = 286
_LAST: Final = 0xFFFF
_KINDS: Final = frozenset({"insert", "update", "replace", "delete"})


class FoundCursor:
    """Results that are all known."""

    def __init__(self, namespace: str, session: bytes, found: Sequence[Document]) -> None:
        self.namespace = namespace
        self.session = session
        self._left = list(found)

    def take(self, size: int) -> list[Document]:
        """The next batch."""
        batch, self._left = self._left[:size], self._left[size:]
        return batch

    @property
    def is_exhausted(self) -> bool:
        return not self._left

    def position(self) -> Document:
        return {}


class ChangeCursor:
    """A change stream of a collection, or of a database."""

    is_exhausted = False

    def __init__(
        self, replica: Replica, namespace: str, session: bytes, after: tuple[int, int], filters: Sequence[Document]
    ) -> None:
        database, _, collection = namespace.partition(".")
        self.namespace = namespace if collection else f"{database}.$cmd.aggregate"
        self._scope = namespace
        self._filters = filters
        self.session = session
        self._replica = replica
        # The entry and the number of the change in it after which it goes on.
        self._after = after

    def has_news(self) -> bool:
        """Whether a majority has entries that the cursor has not looked at."""
        return self._replica.commit > self._after[0]

    def take(self, size: int) -> list[Document]:
        """The next events, at most `size`."""
        index, number = self._after
        found: list[Document] = []
        if number != _LAST and index:
            index -= 1
        while index < self._replica.commit:
            entry = self._replica.storage.log[index]
            index += 1
            for position, change in enumerate(entry.changes):
                if (index, position) <= self._after or not self._is_watched(change.namespace):
                    continue
                if change.kind not in _KINDS:
                    continue
                event = _event(index, position, entry.time, change)
                if not all(matches(event, query) for query in self._filters):
                    continue
                if len(found) == size:
                    return found
                found.append(event)
                self._after = index, position
            self._after = index, _LAST
        return found

    def _is_watched(self, namespace: str) -> bool:
        return namespace == self._scope or namespace.partition(".")[0] == self._scope

    def position(self) -> Document:
        return {"postBatchResumeToken": _token(*self._after)}


Cursor: TypeAlias = FoundCursor | ChangeCursor


def _event(index: int, position: int, time: Any, change: Any) -> Document:
    database, _, collection = change.namespace.partition(".")
    event = {
        "_id": _token(index, position),
        "operationType": change.kind,
        "clusterTime": time,
        "ns": {"db": database, "coll": collection},
        "documentKey": {"_id": change.identifier},
    }
    if change.kind == "update":
        return {**event, "updateDescription": change.update}
    return event if change.document is None else {**event, "fullDocument": change.document}


def _token(index: int, position: int) -> Document:
    return {"_data": f"{index:010x}{position:04x}"}


def open_stream(
    replica: Replica, namespace: str, session: bytes, pipeline: Sequence[Mapping[str, Any]]
) -> ChangeCursor:
    """A cursor that begins where a ``$changeStream`` stage says, or now. Stages after it are filters.

    Raises:
        CommandError: Its history has been forgotten.
    """
    stage, after = pipeline[0]["$changeStream"], (replica.commit, _LAST)
    token = stage.get("resumeAfter", stage.get("startAfter"))
    if token is not None:
        data = token["_data"]
        after = int(data[:10], 16), int(data[10:], 16)
    elif "startAtOperationTime" in stage:
        log, time = replica.storage.log, stage["startAtOperationTime"]
        index = len(log)
        while index and log[index - 1].time >= time:
            index -= 1
        after = index, _LAST
    if after[0] + 1 < replica.storage.oldest:
        raise CommandError(
            _HISTORY_LOST,
            "Resume of change stream was not possible, as the resume point may no longer be in the oplog.",
            ["NonResumableChangeStreamError"],
        )
    return ChangeCursor(replica, namespace, session, after, [each["$match"] for each in pipeline[1:]])
