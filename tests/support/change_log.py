"""A log of changes behind scripted servers: they open change streams on it, continue and kill them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from bson.timestamp import Timestamp

from motorlite.testing.scripted import Reply, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.testing.scripted import ScriptedServer


def token(position: int) -> dict[str, str]:
    """The token behind the first `position` changes."""
    return {"_data": f"{position:06}"}


def change(number: int) -> dict[str, Any]:
    """A change; the first has the number 1."""
    return {"_id": token(number), "operationType": "insert", "fullDocument": {"_id": number}}


def numbers(changes: list[Any]) -> list[int]:
    return [each["fullDocument"]["_id"] for each in changes]


class ChangeLog:
    """Changes, and the cursors that read them, by id.

    Args:
        length: The number of changes.
        batch: Changes per batch.
        wait: Seconds that getMore waits at the end of the log.
        latency: Seconds that every reply takes.
        has_tokens: Replies have a postBatchResumeToken.
    """

    def __init__(
        self, length: int = 0, *, batch: int = 2, wait: float = 0.5, latency: float = 0.001, has_tokens: bool = True
    ) -> None:
        self.length = length
        self.batch = batch
        self.wait = wait
        self.latency = latency
        self.has_tokens = has_tokens
        # How many changes each open cursor has sent.
        self.cursors: dict[int, int] = {}
        # The options of the $changeStream stage, of each aggregate command.
        self.stages: list[Mapping[str, Any]] = []
        self._ids = count(100)

    def serve(self, *servers: ScriptedServer) -> None:
        """Have servers answer from this log."""
        for server in servers:
            server.on("aggregate", self.aggregate)
            server.on("getMore", self.get_more)
            server.on("killCursors", self.kill)

    def aggregate(self, command: Mapping[str, Any]) -> Reply:
        stage = command["pipeline"][0]["$changeStream"]
        self.stages.append(stage)
        start = stage.get("resumeAfter") or stage.get("startAfter")
        if start is not None:
            position = int(start["_data"])
        elif "startAtOperationTime" in stage:
            position = stage["startAtOperationTime"].inc - 1
        else:
            position = self.length
        cursor_id = next(self._ids)
        self.cursors[cursor_id] = position
        return Reply(self._reply(cursor_id, "firstBatch"), self.latency)

    def get_more(self, command: Mapping[str, Any]) -> Reply | Mapping[str, Any]:
        cursor_id = command["getMore"]
        if cursor_id not in self.cursors:
            return failure(43, "ResumableChangeStreamError", message="cursor not found")
        wait = 0.0 if self.cursors[cursor_id] < self.length else self.wait
        return Reply(self._reply(cursor_id, "nextBatch"), wait + self.latency)

    def kill(self, command: Mapping[str, Any]) -> Reply:
        for cursor_id in command["cursors"]:
            self.cursors.pop(cursor_id, None)
        return Reply({"ok": 1}, self.latency)

    def _reply(self, cursor_id: int, field: str) -> dict[str, Any]:
        position = self.cursors[cursor_id]
        end = self.cursors[cursor_id] = min(position + self.batch, self.length)
        changes = [change(number) for number in range(position + 1, end + 1)]
        cursor: dict[str, Any] = {"id": cursor_id, "ns": "db.coll", field: changes}
        if self.has_tokens:
            cursor["postBatchResumeToken"] = token(end)
        return {"cursor": cursor, "operationTime": Timestamp(1, position + 1)}
