"""A cursor beside the documents of a server: none is lost or repeated, whatever fails, is cancelled or is requested."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._client.leftovers import give_back
from motorlite._client.prefetch import Prefetching
from motorlite._operations.contract import Opened
from motorlite._sessions.session import Session
from motorlite.errors import CursorNotFound, InvalidOperation, PyMongoError
from tests.support.fake_core import ADDRESS, FACTS, FakeCore, FakeExecutor, batch, fake_client, next_batch
from tests.support.machine_bugs import cases, find
from tests.support.operations import network_error, overload, unsent
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from motorlite._operations.contract import Call, Operation
    from motorlite._operations.cursors import LostCursor
    from tests.support.planting import Bug

CURSOR: Final = 7


class Pause:
    """A point at which a coroutine waits: for the server, or for the batch that another one has requested."""

    def __init__(self, for_server: bool) -> None:
        self.for_server = for_server

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Handover:
    """A handover between two coroutines."""

    def __init__(self) -> None:
        self.is_done = False

    def offer(self, value: object) -> bool:
        self.is_done = True
        return True

    def take_back(self) -> None:
        """Nothing is handed over."""

    async def wait(self, until: float) -> None:
        while not self.is_done:
            await Pause(for_server=False)


class Task:
    """A coroutine in the background, which `Cursor` runs step by step.

    On trio, one that is cancelled before its first step begins all the same, and ends where it waits first.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, is_on_trio: bool) -> None:
        self.coroutine = coroutine
        self.is_on_trio = is_on_trio
        self.has_begun = False
        self.is_over = False

    def cancel(self) -> None:
        if self.has_begun:
            self.step(lambda: self.coroutine.throw(asyncio.CancelledError()))
        elif self.is_on_trio:
            self.step(self.begin_cancelled)
        else:
            self.coroutine.close()
            self.is_over = True

    def begin_cancelled(self) -> None:
        self.coroutine.send(None)
        self.coroutine.throw(asyncio.CancelledError())

    def step(self, move: Callable[[], Any]) -> None:
        self.has_begun = True
        try:
            move()
        except (StopIteration, asyncio.CancelledError):
            self.is_over = True


class Server(FakeExecutor):
    """A server with one cursor."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        # Where the cursor reads next, while it is open.
        self.place = 0
        self.is_open = False
        self.kills = 0
        # The limit of the find; 0: none.
        self.limit = 0
        # What no cursor should do. Raised here, it would count as an error of the server.
        self.wrongs: list[str] = []
        # What happens to the next command: (an error, whether the command is executed all the same).
        self.fate: tuple[BaseException | None, bool] = (None, True)
        # A command failed.
        self.has_failed = False
        self.sessions: list[Session] = []

    async def execute(self, operation: Operation[Any], call: Call, *, opens: bool = False) -> Any:
        return operation.parse(await self.perform(operation))

    async def open(self, operation: Operation[Any], call: Call) -> Opened:
        reply = operation.parse(await self.perform(operation))
        session = Session(is_implicit=True) if reply.cursor_id else None
        if session is not None:
            self.sessions.append(session)
        return Opened(reply, ADDRESS, session, None)

    async def perform(self, operation: Operation[Any]) -> dict[str, Any]:
        document = operation.command(FACTS).document
        await Pause(for_server=True)
        (error, is_executed), self.fate = self.fate, (None, True)
        self.has_failed |= error is not None
        reply = self.reply(document) if is_executed else {}
        if isinstance(error, CursorNotFound):
            self.is_open = False
        if error is not None:
            raise error
        return reply

    def kill(self) -> None:
        self.is_open = False
        self.kills += 1
        assert self.kills == 1, "killed twice"

    def reply(self, document: dict[str, Any]) -> dict[str, Any]:
        if "killCursors" in document:
            self.kill()
            return {"ok": 1}
        is_first = "find" in document
        if not is_first and not self.is_open:
            self.wrongs.append("a getMore without a cursor")
        if not is_first and self.limit and not 0 < document.get("batchSize", 0) <= self.limit - self.place:
            self.wrongs.append("a getMore for more than the limit")
        end = min(self.size, self.place + (document.get("batchSize") or 3))
        if is_first and document.get("limit"):
            self.limit = document["limit"]
            self.size = min(self.size, self.limit)
            end = min(end, self.size)
        found, self.place = list(range(self.place, end)), end
        self.is_open = end < self.size
        return (batch if is_first else next_batch)(found, CURSOR if self.is_open else 0)


class Core(FakeCore):
    """Kills cursors at once."""

    def kill_cursor(self, cursor: LostCursor) -> None:
        server = self.executor
        assert isinstance(server, Server)
        server.kill()
        give_back(cursor, server)


class Cursor(Machine):
    """One find, read to its end, to a failure, or until it is closed."""

    @initialize(
        size=st.integers(0, 12),
        batch_size=st.sampled_from([0, 1, 2, 5]),
        limit=st.sampled_from([0, 0, 3, 4]),
        prefetch=st.sampled_from([0, 1]),
        is_on_trio=st.booleans(),
    )
    def make(self, size: int, batch_size: int, limit: int, prefetch: int, is_on_trio: bool) -> None:
        client, _ = fake_client()
        core = Core()
        self.server = core.executor = Server(size)
        self.tasks: list[Task] = []
        self.is_on_trio = is_on_trio
        core.prefetching = Prefetching(self.spawn, Handover)
        client._core = core
        self.size = min(size, limit or size)
        self.cursor = client.app.things.find({}, batch_size=batch_size, limit=limit, prefetch=prefetch)
        # Documents that the program has got.
        self.found: list[int] = []
        self.is_over = False
        # A step was cancelled.
        self.was_cancelled = False

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any, name: str = "") -> Any:
        task = Task(function(*args), is_on_trio=self.is_on_trio)
        self.tasks.append(task)
        return task

    # --- what the program does ---

    def run(self, coroutine: Coroutine[Any, Any, Any], *, is_cancelled: bool = False) -> Any:
        """Run a coroutine to its end, or cancel it where it waits first."""
        try:
            pause = coroutine.send(None)
            if is_cancelled:
                self.was_cancelled = True
                pause = coroutine.throw(asyncio.CancelledError())
            while True:
                if not pause.for_server:
                    self.run_background()
                pause = coroutine.send(None)
        except StopIteration as end:
            return end.value

    def run_background(self) -> None:
        """Run the request in the background for one step: it is sent, or its reply arrives."""
        for task in self.tasks:
            if not task.is_over:
                task.step(lambda each=task: each.coroutine.send(None))  # type: ignore[misc]  # a default binds it
        self.tasks = [task for task in self.tasks if not task.is_over]

    @precondition(lambda self: self.tasks)
    @rule()
    def background(self) -> None:
        self.run_background()

    @precondition(lambda self: not self.is_over)
    @rule(fate=st.sampled_from(["works", "works", "works", "unsent", "overload", "lost", "lost after", "not found"]))
    def fail_next(self, fate: str) -> None:
        """What becomes of the next command."""
        makers: dict[str, Any] = {
            "unsent": unsent,
            "overload": overload,
            "lost": network_error,
            "lost after": network_error,
            "not found": lambda: CursorNotFound("gone", 43, {"ok": 0, "code": 43}),
        }
        if fate in makers and not (fate == "not found" and self.cursor.cursor_id is None):
            error = makers[fate]()
            error.reached_server = fate != "unsent"
            self.server.fate = (error, fate == "lost after")

    @precondition(lambda self: not self.is_over)
    @rule(
        how=st.sampled_from(["next", "next", "next", "some", "all"]), is_cancelled=st.sampled_from([False] * 5 + [True])
    )
    def read(self, how: str, is_cancelled: bool) -> None:
        cursor = self.cursor
        try:
            if how == "next":
                self.found.append(self.run(cursor.__anext__(), is_cancelled=is_cancelled))
            else:
                length = 2 if how == "some" else None
                found = self.run(cursor.to_list(length), is_cancelled=is_cancelled)
                self.found += found
                if length is None or len(found) < length:
                    self.check_end()
        except StopAsyncIteration:
            self.check_end()
        except (PyMongoError, asyncio.CancelledError) as error:
            self.check_failure(error)

    def check_end(self) -> None:
        assert self.found == list(range(self.size)), "documents are missing"
        self.is_over = True

    def check_failure(self, error: BaseException) -> None:
        """The cursor may go on after what left the server's cursor where it was; else it is over, and killed."""
        is_refused = isinstance(error, InvalidOperation)
        assert not is_refused or self.was_cancelled or self.server.has_failed, "refused for nothing"
        inner, is_open = self.cursor._cursor, False
        if inner is not None:
            is_open = inner.is_open
        elif self.server.is_open:
            self.server.is_open = False  # the reply to find was lost; the server ends that cursor by itself
        is_safe = isinstance(error, PyMongoError) and (
            not error.reached_server or error.has_error_label("SystemOverloadedError")
        )
        if inner is None:
            self.is_over = True
        elif not is_safe and not is_open:
            self.is_over = True
            assert not self.server.is_open or self.tasks or isinstance(error, CursorNotFound)
            if isinstance(error, CursorNotFound):
                self.server.is_open = False
        else:
            assert is_open or self.tasks or inner.has_more or self.found == list(range(self.size))

    @rule(will=st.sampled_from([False] * 5 + [True]))
    def close(self, will: bool) -> None:
        if will and not self.is_over:
            self.server.fate = (None, True)
            self.run(self.cursor.close())
            while self.tasks:
                self.run_background()
            self.is_over = True
            assert not self.server.is_open, "the server keeps the cursor"

    # --- what holds afterwards ---

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        assert self.found == list(range(len(self.found)))
        assert len(self.found) <= self.size
        assert not self.server.wrongs
        self.tasks = [task for task in self.tasks if not task.is_over]
        released = self.server.released
        assert len(set(map(id, released))) == len(released), "a session is released twice"
        assert len(self.tasks) <= 1, "two requests at once"
        if not self.server.is_open and not self.tasks and self.cursor._cursor is not None:
            assert len(released) == len(self.server.sessions), "a session is kept"

    def teardown(self) -> None:
        for task in getattr(self, "tasks", ()):
            task.coroutine.close()


def test_no_document_is_lost_or_repeated() -> None:
    run(Cursor)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Cursor))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
