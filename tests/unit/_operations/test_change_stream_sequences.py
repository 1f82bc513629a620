"""Where change streams resume, beside a server's log: no change is lost or repeated, whatever fails and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from bson.timestamp import Timestamp
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._operations.change_stream import Position
from motorlite._operations.contract import CursorReply
from tests.support.machine_bugs import cases, find
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from tests.support.planting import Bug

BATCH: Final = 3


def token(place: int) -> dict[str, Any]:
    """The resume token of the place in the log before entry number `place`."""
    return {"_data": place}


class Stream(Machine):
    """The model: a log of entries, which the pipeline lets pass or not, and the numbers of those that were returned."""

    @initialize(
        entries=st.lists(st.booleans(), max_size=6),
        option=st.sampled_from(["none", "none", "resumeAfter", "startAfter", "startAtOperationTime"]),
        place=st.integers(0, 6),
        has_tokens=st.sampled_from([True, True, False]),
    )
    def make(self, entries: list[bool], option: str, place: int, has_tokens: bool) -> None:
        """`has_tokens`: whether batches of the server have a postBatchResumeToken."""
        self.log, self.has_tokens, self.option = entries, has_tokens, option
        place = min(place, len(entries))
        self.given: dict[str, Any] = {}
        if option != "none":
            is_time = option == "startAtOperationTime"
            self.given[option] = Timestamp(place + 1, 1) if is_time else token(place)
        self.position = Position(
            self.given.get("resumeAfter"), self.given.get("startAfter"), self.given.get("startAtOperationTime")
        )
        # Where the stream began; None: it has not been opened.
        self.began: int | None = None if option == "none" else place
        self.was_opened = False
        # The server's cursor: where it reads next; None: it is lost.
        self.cursor: int | None = None
        self.documents: list[dict[str, Any]] = []
        self.returned: list[int] = []

    # --- the server ---

    @rule(entries=st.lists(st.booleans(), min_size=1, max_size=4))
    def write(self, entries: list[bool]) -> None:
        self.log += entries

    def batch(self, field: str) -> CursorReply:
        """Read on from the cursor, up to a full batch."""
        assert self.cursor is not None
        found: list[dict[str, Any]] = []
        while self.cursor < len(self.log) and len(found) < BATCH:
            if self.log[self.cursor]:
                found.append({"_id": token(self.cursor + 1), "number": self.cursor})
            self.cursor += 1
        cursor: dict[str, Any] = {"id": 7, "ns": "db.coll", field: found}
        if self.has_tokens:
            cursor["postBatchResumeToken"] = token(self.cursor)
        return CursorReply({"cursor": cursor, "operationTime": Timestamp(len(self.log) + 1, 1)}, field)

    def start(self, options: dict[str, Any]) -> int:
        """Where a cursor with these options of the stage begins."""
        assert len(options) <= 1
        if "startAtOperationTime" in options:
            return int(options["startAtOperationTime"].time) - 1
        return int(next(iter(options.values()))["_data"]) if options else len(self.log)

    # --- the driver ---

    @precondition(lambda self: self.cursor is None)
    @rule(fails=st.sampled_from([False, False, True]))
    def open(self, fails: bool) -> None:
        options = self.position.stage_options()
        self.check_name(options)
        if fails:
            return
        self.cursor = self.start(options)
        if self.began is None:
            self.began = self.cursor
        self.documents = []
        reply = self.batch("firstBatch")
        self.position.opened(reply)
        self.learn(reply)
        self.was_opened = True

    def check_name(self, options: dict[str, Any]) -> None:
        """Change streams specification, "Resume Process"."""
        if not self.was_opened:
            assert options == self.given
        elif self.position.token is not None:
            is_unread = self.option == "startAfter" and not self.returned
            assert list(options) == ["startAfter" if is_unread else "resumeAfter"]
        else:
            assert list(options) == ["startAtOperationTime"]

    @precondition(lambda self: self.cursor is not None and not self.documents)
    @rule()
    def get_more(self) -> None:
        self.learn(self.batch("nextBatch"))

    def learn(self, reply: CursorReply) -> None:
        self.position.received(reply)
        self.documents = [dict(each) for each in reply.documents]

    def take(self) -> None:
        change = self.documents.pop(0)
        assert self.position.returned(change, is_last=not self.documents)
        change["_id"]["_data"] = -1  # the application may do what it wants with its change
        self.returned.append(change["number"])

    @precondition(lambda self: self.documents)
    @rule(number=st.integers(1, BATCH))
    def read(self, number: int) -> None:
        for _ in range(min(number, len(self.documents))):
            self.take()

    @precondition(lambda self: self.documents)
    @rule(number=st.integers(1, BATCH), is_lost=st.booleans())
    def take_back(self, number: int, is_lost: bool) -> None:
        """A call that collects changes fails or is cancelled: the next one has them again."""
        place, before, documents = self.position.place, len(self.returned), [dict(each) for each in self.documents]
        documents = [{**each, "_id": dict(each["_id"])} for each in documents]
        self.read(number)
        self.position.place = place
        del self.returned[before:]
        self.documents = documents
        if is_lost:
            self.fail()

    @precondition(lambda self: self.cursor is not None)
    @rule()
    def fail(self) -> None:
        """The cursor is lost, with what the application has not read of its batch."""
        self.cursor, self.documents = None, []

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        if self.began is None:
            assert not self.returned
            return
        passing = [number for number, passes in enumerate(self.log) if passes and number >= self.began]
        assert self.returned == passing[: len(self.returned)]
        if self.position.token is not None:
            # What the token is ahead of was returned, or does not pass the pipeline.
            place = self.position.token["_data"]
            assert [number for number in passing if number < place] == self.returned
        if self.cursor is not None:
            unread = [document["number"] for document in self.documents]
            assert self.returned + unread == [number for number in passing if number < self.cursor]


def test_no_change_is_lost_or_repeated() -> None:
    run(Stream)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Stream))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
