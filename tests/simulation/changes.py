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

_INVALID_TOKEN: Final = 260
HISTORY_LOST: Final = 286
_LAST: Final = 0xFFFF
INVALIDATED: Final = "i"
"""The end of the token of the event that ends a stream; only `startAfter` takes it."""
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

    def __init__(
        self,
        replica: Replica,
        namespace: str,
        session: bytes,
        after: tuple[int, int],
        filters: Sequence[Document],
        *,
        is_behind_invalidation: bool = False,
    ) -> None:
        database, _, collection = namespace.partition(".")
        self.namespace = namespace if collection else f"{database}.$cmd.aggregate"
        self._scope = namespace
        self._filters = filters
        self.session = session
        self._replica = replica
        # The entry and the number of the change in it after which it goes on.
        self._after = after
        # Whether its next event is its last; and whether that was the last one, which its token says.
        self._is_invalid = False
        self._is_behind_invalidation = is_behind_invalidation
        self.is_exhausted = False

    def has_news(self) -> bool:
        """Whether a majority has entries that the cursor has not looked at."""
        return self._is_invalid or self._replica.commit > self._after[0]

    def invalidate(self) -> None:
        """End the stream with an event that says so."""
        self._is_invalid = True

    def take(self, size: int) -> list[Document]:
        """The next events, at most `size`."""
        if self._is_invalid and size:
            self.is_exhausted = self._is_behind_invalidation = True
            return [{"_id": self._token(), "operationType": "invalidate", "clusterTime": self._replica.time}]
        before, found = self._after, self._take(size)
        self._is_behind_invalidation = self._is_behind_invalidation and self._after == before
        return found

    def _take(self, size: int) -> list[Document]:
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

    def _token(self) -> Document:
        token = _token(*self._after)
        return {"_data": token["_data"] + INVALIDATED} if self._is_behind_invalidation else token

    def position(self) -> Document:
        return {"postBatchResumeToken": self._token()}


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
        CommandError: Its history has been forgotten, or it has ended there.
    """
    stage, after = pipeline[0]["$changeStream"], (replica.commit, _LAST)
    token = stage.get("resumeAfter", stage.get("startAfter"))
    is_behind_invalidation = False
    if token is not None:
        data = token["_data"]
        is_behind_invalidation = data.endswith(INVALIDATED)
        if is_behind_invalidation and "resumeAfter" in stage:
            raise CommandError(
                _INVALID_TOKEN, "Attempting to resume a change stream using 'resumeAfter' is not allowed"
            )
        data = data.removesuffix(INVALIDATED)
        after = int(data[:10], 16), int(data[10:], 16)
    elif "startAtOperationTime" in stage:
        log, time = replica.storage.log, stage["startAtOperationTime"]
        index = len(log)
        while index and log[index - 1].time >= time:
            index -= 1
        after = index, _LAST
    if replica.storage.last - after[0] > replica.storage.history:
        raise CommandError(
            HISTORY_LOST,
            "Resume of change stream was not possible, as the resume point may no longer be in the oplog.",
            ["NonResumableChangeStreamError"],
        )
    filters = [each["$match"] for each in pipeline[1:]]
    return ChangeCursor(replica, namespace, session, after, filters, is_behind_invalidation=is_behind_invalidation)
