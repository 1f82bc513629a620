"""Large writes give the event loop its turns: here the clock advances only with the work that is done."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from anyio import CancelScope
from bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry

from motorlite import DeleteOne, InsertOne, UpdateOne
from motorlite._api.turns import TURN, Turns
from motorlite._base.deadline import NO_DEADLINE
from motorlite._operations.slices import ITEMS, MAX_SIZE
from motorlite.errors import BulkWriteError, ExecutionTimeout

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.support.fake_core import Collection, FakeCore

pytestmark = pytest.mark.anyio

COUNT = 3000
# Each step of the work seems to take this long, seconds.
STEP = 0.0001
# What README and documentation promise.
BOUND = 0.05


class Work:
    """Remembers how long the loop had to wait for its turns."""

    def __init__(self, core: FakeCore) -> None:
        self.core = core
        self.longest = 0.0
        self.turns = 0
        self._since = core.time
        self._checkpoint = core.checkpoint
        core.checkpoint = self.checkpoint  # type: ignore[method-assign]

    def step(self) -> None:
        self.core.time += STEP
        self.longest = max(self.longest, self.core.time - self._since)

    def begin(self) -> None:
        self._since = self.core.time

    async def checkpoint(self) -> None:
        self.turns += 1
        await self._checkpoint()
        self.begin()


class Part(dict[str, Any]):
    """A document that takes its time when it is looked at and when it is freed."""

    def __init__(self, work: Work, **fields: Any) -> None:
        super().__init__(fields)
        self.work = work

    def __contains__(self, key: object) -> bool:
        self.work.step()
        return super().__contains__(key)

    def __del__(self) -> None:
        self.work.step()


class Value:
    """Takes its time when it is encoded."""


@pytest.fixture
def work(core: FakeCore) -> Work:
    return Work(core)


@pytest.fixture
def coll(coll: Collection, work: Work) -> Collection:
    class Encoder(TypeEncoder):
        python_type = Value

        def transform_python(self, value: Any) -> Any:
            work.step()
            return 1

    return coll.with_options(codec_options=CodecOptions[Any](type_registry=TypeRegistry([Encoder()])))


def answered(work: Work, **fields: Any) -> Any:
    def answer(sent: Any) -> dict[str, Any]:
        # Waiting for the server is a turn as well.
        work.begin()
        return {"ok": 1, "n": sent.operation.count, **fields}

    return answer


async def test_insert_many(coll: Collection, core: FakeCore, work: Work) -> None:
    core.reply(answered(work))

    def documents() -> Iterator[Any]:
        for _ in range(COUNT):
            work.step()
            yield Part(work, value=Value())

    result = await coll.insert_many(documents())
    assert len(set(result.inserted_ids)) == COUNT
    assert core.last.operation.count == COUNT  # type: ignore[attr-defined]
    # Made, looked at, encoded and freed.
    assert work.turns >= 4 * COUNT * STEP / BOUND
    assert work.longest < BOUND


async def test_a_list_that_nobody_else_has_is_freed_in_slices(coll: Collection, core: FakeCore, work: Work) -> None:
    core.reply(answered(work))
    writing = coll.insert_many([Part(work, _id=n) for n in range(COUNT)])
    await writing
    assert work.longest < BOUND
    assert core.time > 1000 + 1.9 * COUNT * STEP


async def test_bulk_write(coll: Collection, core: FakeCore, work: Work) -> None:
    core.reply(answered(work), answered(work, nModified=0), answered(work))
    requests = [
        kind
        for n in range(COUNT)
        for kind in (
            InsertOne(Part(work, _id=n, value=Value())),
            UpdateOne({"_id": n}, {"$set": {"x": Value()}}),
            DeleteOne({"_id": n, "x": Value()}),
        )
    ]
    result = await coll.bulk_write(requests, ordered=False)
    assert (result.inserted_count, result.matched_count, result.deleted_count) == (COUNT, COUNT, COUNT)
    assert work.turns >= 4 * COUNT * STEP / BOUND
    assert work.longest < BOUND


async def test_a_reply_with_many_errors(coll: Collection, core: FakeCore, work: Work) -> None:
    class Error(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            work.step()
            return super().__getitem__(key)

    errors = [Error(index=n, code=11000, errmsg="duplicate") for n in range(COUNT)]
    core.reply(answered(work, n=0, writeErrors=errors))
    with pytest.raises(BulkWriteError) as caught:
        await coll.insert_many([{"_id": n} for n in range(COUNT)], ordered=False)
    details: Any = caught.value.details
    assert [error["index"] for error in details["writeErrors"]] == list(range(COUNT))
    assert details["nInserted"] == 0
    assert work.longest < BOUND


async def test_many_upserts_and_a_write_concern_error_are_counted_once(
    coll: Collection, core: FakeCore, work: Work
) -> None:
    upserted = [{"index": n, "_id": n} for n in range(ITEMS * 3)]
    concern_error = {"code": 64, "errmsg": "waiting for replication timed out"}
    core.reply(answered(work, nModified=7, upserted=upserted, writeConcernError=concern_error))
    requests = [UpdateOne({"_id": n}, {"$set": {"x": 1}}, upsert=True) for n in range(COUNT)]
    with pytest.raises(BulkWriteError) as caught:
        await coll.bulk_write(requests)
    details: Any = caught.value.details
    assert details["upserted"] == upserted
    assert (details["nUpserted"], details["nMatched"], details["nModified"]) == (ITEMS * 3, COUNT - ITEMS * 3, 7)
    assert details["writeConcernErrors"] == [concern_error]


class Number:
    """Remembers who encodes it, which takes a quarter of a turn."""

    def __init__(self, number: int) -> None:
        self.number = number


CALLER: ContextVar[str] = ContextVar("caller", default="none")


class Bulky:
    """Six documents for insert_many, of which two fit into a command."""

    def __init__(self, coll: Collection, core: FakeCore) -> None:
        self.encoded: list[int] = []
        self.callers: set[str] = set()
        self.broken: int | None = None
        bulky = self

        class Encoder(TypeEncoder):
            python_type = Number

            def transform_python(self, value: Any) -> Any:
                core.time += TURN / 4
                bulky.encoded.append(value.number)
                bulky.callers.add(CALLER.get())
                if value.number == bulky.broken:
                    raise ValueError("broken")
                return value.number

        self.coll = coll.with_options(codec_options=CodecOptions[Any](type_registry=TypeRegistry([Encoder()])))
        self.documents = [{"_id": n, "x": Number(n), "s": "x" * (MAX_SIZE * 2 // 5)} for n in range(6)]


@pytest.fixture
def bulky(coll: Collection, core: FakeCore) -> Bulky:
    return Bulky(coll, core)


async def test_the_next_command_is_encoded_while_the_server_executes_one(bulky: Bulky, core: FakeCore) -> None:
    found: list[list[int]] = []

    def answer(sent: Any) -> dict[str, Any]:
        before, known = core.time, len(bulky.encoded)
        turns = core.take_turns()
        # A document that takes longer than a turn is one by itself.
        assert core.time - before == pytest.approx(TURN / 4 * (len(bulky.encoded) - known))
        assert turns >= len(bulky.encoded) - known
        found.append([*bulky.encoded])
        return {"ok": 1, "n": sent.operation.count}

    core.reply(answer, answer, answer)
    CALLER.set("insert_many")
    result = await bulky.coll.insert_many(bulky.documents)
    assert result.inserted_ids == [*range(6)]
    # The third document did not fit into the first command, and so on.
    assert found == [[*range(5)], [*range(6)], [*range(6)]]
    assert bulky.callers == {"insert_many"}


async def test_a_write_that_failed_encodes_no_more(bulky: Bulky, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "duplicate"}]})
    with pytest.raises(BulkWriteError):
        await bulky.coll.insert_many(bulky.documents)
    assert core.take_turns() == 1
    assert bulky.encoded == [0, 1, 2]


@pytest.mark.parametrize(("most", "broken", "inserted"), [(100_000, 5, 4), (2, 2, 2)])
async def test_what_cannot_be_encoded_fails_only_the_command_that_has_it(
    bulky: Bulky, core: FakeCore, monkeypatch: pytest.MonkeyPatch, most: int, broken: int, inserted: int
) -> None:
    monkeypatch.setattr("motorlite._operations.bulk.MAX_STATEMENTS", most)
    bulky.broken = broken

    def answer(sent: Any) -> dict[str, Any]:
        core.take_turns()
        assert broken in bulky.encoded or len(core.names) == 1
        return {"ok": 1, "n": sent.operation.count}

    core.reply(answer, answer, answer)
    with pytest.raises(ValueError, match="broken") as caught:
        await bulky.coll.insert_many(bulky.documents)
    assert core.names == ["insert"] * (inserted // 2)
    error: Any = caught.value
    assert error.partial_result.inserted_count == inserted


async def test_nothing_is_encoded_ahead_before_a_command_is_sent(bulky: Bulky, core: FakeCore) -> None:
    """It may wait for a connection for long, with more documents in memory than two commands have."""
    executor = core.executor
    reply = executor._reply
    sent = 0

    async def late(operation: Any, call: Any) -> Any:
        nonlocal sent
        known = [*bulky.encoded]
        assert core.take_turns() == 0 or sent
        assert bulky.encoded == known or sent
        sent += 1
        return await reply(operation, call)

    executor._reply = late  # type: ignore[method-assign]
    core.reply(*({"ok": 1, "n": 2} for _ in range(3)))
    await bulky.coll.insert_many(bulky.documents)
    assert sent == 3


async def test_small_writes_take_one_turn(coll: Collection, core: FakeCore, work: Work) -> None:
    core.reply(answered(work), answered(work))
    await coll.insert_many([Part(work, value=Value()) for _ in range(20)])
    await coll.bulk_write([InsertOne(Part(work, value=Value())) for _ in range(20)])
    assert work.turns == 0


async def test_the_deadline_counts_in_between(coll: Collection, core: FakeCore, work: Work) -> None:
    with pytest.raises(ExecutionTimeout) as caught:
        await coll.insert_many([Part(work, _id=n) for n in range(COUNT)], timeoutMS=100)
    assert caught.value.timeout
    assert (caught.value.phase, caught.value.client_limit) == ("before sending", 0.1)
    assert core.executor.sent == []
    assert work.turns < 15
    updates = [UpdateOne({"_id": n}, {"$set": {"x": Value()}}) for n in range(COUNT)]
    with pytest.raises(ExecutionTimeout):
        await coll.bulk_write(updates, timeoutMS=100)
    assert core.executor.sent == []


async def test_the_deadline_between_two_batches(coll: Collection, core: FakeCore, work: Work) -> None:
    core.reply(answered(work))
    requests: list[Any] = [
        InsertOne({"_id": 1}),
        *(UpdateOne({"_id": n}, {"$set": {"x": Value()}}) for n in range(COUNT)),
    ]
    with pytest.raises(ExecutionTimeout) as caught:
        await coll.bulk_write(requests, timeoutMS=100)
    assert core.names == ["insert"]
    assert caught.value.partial_result is not None
    assert caught.value.partial_result.inserted_count == 1


async def test_what_is_written_is_no_timeout(coll: Collection, core: FakeCore, work: Work) -> None:
    """Merging the reply and freeing the documents goes on past the deadline."""

    def late(sent: Any) -> dict[str, Any]:
        core.time += 10
        return {"ok": 1, "n": COUNT}

    core.reply(late)
    result = await coll.insert_many((Part(work, _id=n) for n in range(COUNT)), timeoutMS=5000)
    assert len(result.inserted_ids) == COUNT
    assert work.turns > COUNT * STEP / BOUND


async def test_cancellation_counts_in_between(coll: Collection, core: FakeCore, work: Work) -> None:
    with CancelScope() as scope:
        checkpoint = core.checkpoint

        async def cancel() -> None:
            if work.turns == 5:
                scope.cancel()
            await checkpoint()

        core.checkpoint = cancel  # type: ignore[method-assign]
        await coll.insert_many([Part(work, value=Value()) for _ in range(COUNT)])
    assert scope.cancelled_caught
    assert work.turns == 6
    assert core.executor.sent == []


async def test_restart(core: FakeCore) -> None:
    turns = Turns(core, NO_DEADLINE)

    def slices() -> Generator[None, None, str]:
        for _ in range(5):
            core.time += TURN / 4
            yield
        return "done"

    core.time += 1
    turns.restart()
    assert await turns.compute(slices()) == "done"
    assert core.checkpoints == 1


async def test_turns_are_longer_where_other_tasks_hold_the_loop(core: FakeCore, work: Work) -> None:
    """Else all tasks that prepare documents would do so before the first one sends them."""
    checkpoint = core.checkpoint

    async def others() -> None:
        await checkpoint()
        core.time += taken
        work.begin()

    def slices() -> Generator[None, None, None]:
        for _ in range(COUNT):
            work.step()
            yield

    core.checkpoint = others  # type: ignore[method-assign]
    for seconds, longest in ((0.1, 0.05), (10.0, 0.1), (0.01, TURN)):
        taken = seconds
        # The first turn goes by what was known before.
        await Turns(core, NO_DEADLINE).compute(slices())
        work.longest = 0.0
        work.begin()
        await Turns(core, NO_DEADLINE).compute(slices())
        assert work.longest == pytest.approx(longest, abs=2 * STEP)
    # The other tasks may have changed since.
    taken = 10.0
    await Turns(core, NO_DEADLINE).compute(slices())
    core.time += 6
    work.longest, taken = 0.0, 0.0
    work.begin()
    await Turns(core, NO_DEADLINE).compute(slices())
    assert work.longest == pytest.approx(TURN, abs=2 * STEP)
