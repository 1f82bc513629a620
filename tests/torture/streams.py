"""Shell: readers of change streams, which stop and resume, also after the death of their process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite.errors import PyMongoError
from tests.torture.workload import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing.journal import Entry

# What is watched; a reader takes the next of these.
WATCHED: Final = (("inserts",), ("inserts", "transfers"), ("inserts", "transfers", "bulk"))
# The share of steps after which the stream is closed, and of those that are cancelled instead of returning nothing.
CLOSED, CUT_SHORT = 0.005, 0.02
# Seconds: the longest wait of the server for changes, of a step that is cut short, and after an error.
AWAIT, SHORT, PAUSE = 0.5, 0.1, 0.2
# Codes of errors after which a stream has lost its place, or would have to resume behind its end.
NOT_RESUMABLE: Final = (260, 280, 286)


class Reader(Task):
    """Writes each change down, closes its stream now and then, and resumes it with the token of what it wrote last."""

    # It cancels its own.
    limited = 0.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.stream = f"stream-{self.number}"
        self.collections: Sequence[str] = WATCHED[self.number % len(WATCHED)]
        self.token: Any = None
        self.last_key: Any = None
        self._why = "its process was killed"

    def remember(self, entries: Sequence[Entry]) -> None:
        """Continue where a process that was killed has stopped."""
        for entry in entries:
            details: Any = entry.details
            if details.get("stream") == self.stream and details.get("token") is not None:
                self.token = {"_data": details["token"]}

    async def step(self) -> None:
        """Open the stream, and read it until it is closed."""
        is_new = self.token is None
        pipeline = [{"$match": {"ns.coll": {"$in": list(self.collections)}}}]
        try:
            async with await self.database.watch(
                pipeline, max_await_time_ms=int(AWAIT * 1000), **self.place()
            ) as changes:
                if is_new:
                    assert changes.resume_token is not None
                    self.token = changes.resume_token
                    self._observe("watching", token=self.token["_data"], collections=list(self.collections))
                else:
                    self._observe("resumed", token=self.token["_data"], why=self._why)
                    # It has returned nothing yet, so this is not behind the changes that have arrived with it.
                    self.token = changes.resume_token
                self._why = "it was cancelled"
                await self._read(changes)
                self._why = "it was closed"
        except PyMongoError as error:
            self._why = str(error)[:200]
            self.tally.note(error)
            if getattr(error, "code", None) in NOT_RESUMABLE:
                self.lose_place(error)
            await anyio.sleep(PAUSE)

    def place(self) -> dict[str, Any]:
        """The options that say where the stream goes on."""
        return {"resume_after": self.token}

    def lose_place(self, error: PyMongoError) -> None:
        """The stream cannot go on."""
        self.tally.problems.append(f"{self.stream} cannot go on: {error}")
        self.is_over = True

    async def read_some(self, changes: Any, *, is_patient: bool) -> list[dict[str, Any]]:
        """Read the next change, if there is one. `is_patient`: wait for it."""
        change = await (changes.next() if is_patient else changes.try_next())
        return [] if change is None else [change]

    async def _read(self, changes: Any) -> None:
        while not self.is_over and changes.alive and self.chance.random() >= CLOSED:
            found: list[dict[str, Any]] = []
            if self.chance.random() < CUT_SHORT:
                with anyio.move_on_after(self.chance.uniform(0, SHORT)):
                    found = await self.read_some(changes, is_patient=True)
            else:
                found = await self.read_some(changes, is_patient=False)
            # Both are documented to continue behind this change; the first may be a later one, at the end of a batch.
            self.token = changes.resume_token if not found or self.chance.random() < 0.5 else found[-1]["_id"]
            for change in found:
                self._changed(change)

    def _changed(self, change: dict[str, Any]) -> None:
        self.last_key = change["documentKey"]["_id"]
        self.tally.rounds[self.number] += 1
        self._observe(
            "change",
            token=change["_id"]["_data"],
            collection=change["ns"]["coll"],
            key=self.last_key,
            operation=change["operationType"],
        )

    def _observe(self, kind: str, **details: Any) -> None:
        self.journal.observe(self.process, kind, stream=self.stream, **details)
