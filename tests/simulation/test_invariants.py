"""The invariants on a small world: one scripted server that fails in many ways, and callers that give up."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from bson import Timestamp

from benchmarks.virtual import VirtualTimeLoop
from motorlite.errors import PyMongoError
from motorlite.retry import RetryBudget
from motorlite.testing.memory_stream import MemoryStream
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, encode_reply, failure, overloaded
from tests.simulation.bugs import BUGS, planted
from tests.simulation.invariants import Invariants, Violation, watching
from tests.simulation.planting import search
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient
    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, Runtime

CALLERS, CALLS = 6, 12
# Bugs that the simulation finds within its first seeds.
QUICK = (
    "pool-too-large",
    "pending-reply-reused",
    "pool-loses-a-connection",
    "waiter-sleeps",
    "budget-overdrawn",
    "overload-retry-for-free",
    "token-of-commits-kept",
    "session-dirty",
    "session-lost",
    "retry-of-anything",
    "max-time-whole",
    "deadline-ignored",
    "cluster-time-of-the-last-reply",
    "session-forgets-its-time",
    "number-of-a-retry",
    "number-used-again",
    "close-leaves-timers",
    "retry-without-label",
    "reply-of-another",
    "stray-reply-tolerated",
    "transaction-loses-a-statement",
    "change-stream-skips",
    "change-stream-repeats",
    "upload-leaves-chunks",
    "deletion-leaves-chunks",
)


# This small world has streams of its own, so it cannot find what is wrong with those of asyncio, it seldom cancels
# between an event and the task that waits for it, as the simulation does, and it calls no with_transaction.
OF_THE_SIMULATION = {"pool-loses-a-connection", "token-of-commits-kept"}
OF_INVARIANTS = [
    bug.name
    for bug in BUGS.values()
    if bug.found_by and not bug.where.startswith("_net.on_asyncio.stream") and bug.name not in OF_THE_SIMULATION
]


class Loop(VirtualTimeLoop):
    """Virtual time that lets a client's invariants look after every round, and before time advances."""

    watch: Invariants | None = None
    # Rounds since time has advanced.
    rounds = 0

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]  # not in the stubs
        self.rounds += 1
        if self.rounds > 10_000:
            raise RuntimeError("the driver goes on without end, and time stands still")
        if self.watch is not None:
            self.watch.step()

    def advance(self, seconds: float) -> None:
        self.rounds = 0
        if self.watch is not None:
            self.watch.quiet()
        super().advance(seconds)


class Tap:
    """The peer of a stream, which shows the watch what the client sends."""

    def __init__(self, peer: Any, watch: Invariants) -> None:
        self.peer = peer
        self.watch = watch

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        self.watch.sent(stream, data)
        self.peer.data_received(stream, data)

    def client_closed(self, stream: MemoryStream) -> None:
        self.watch.ended(stream, by_client=True)
        self.peer.client_closed(stream)


def tapped(stream: MemoryStream, watch: Invariants, address: Address) -> MemoryStream:
    """Show the watch everything that goes through `stream`."""
    watch.opened(stream, address)
    stream._peer = Tap(stream._peer, watch)
    deliver, close = stream.deliver, stream.close

    def delivered(data: bytes) -> None:
        watch.received(stream, data)
        deliver(data)

    def closed() -> None:
        watch.ended(stream, by_client=False)
        close()

    setattr(stream, "deliver", delivered)  # noqa: B010
    setattr(stream, "close", closed)  # noqa: B010
    return stream


class World:
    """One member of a replica set, and the client that is watched."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.random = random.Random(seed)
        self.deployment = ScriptedDeployment(["a:1"], replica_set="rs", streaming=bool(seed % 2))
        self.time = 1
        for name in ("find", "insert", "update", "getMore", "aggregate", "commitTransaction", "abortTransaction"):
            self.deployment["a:1"].on(name, partial(self.answer, name))
        settings: dict[str, Any] = {
            "maxPoolSize": 3,
            "maxConnecting": 2,
            "retry_budget": RetryBudget(self.random.choice([1, 4])),
        }
        settings |= options
        settings["maxAdaptiveRetries"] = self.random.choice([1, 5])
        world = {"connector": self.connector, "jitter": self.random.random, "below": self.random.randrange}
        self.client: AsyncMongoClient[dict[str, Any]] = make_client(self.deployment, world=world, **settings)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        self.watch = loop.watch = Invariants(self.client._core, now=loop.time)

    def connector(self, runtime: Runtime, tls: Any, proxy: Any = None) -> Connector:
        connect = self.deployment.connector(runtime, tls, proxy)

        async def connect_tapped(address: Address, framer: Framer, until: float) -> MemoryStream:
            await asyncio.sleep(self.random.uniform(0.001, 0.01))
            stream = await connect(address, framer, until)
            assert isinstance(stream, MemoryStream)
            return tapped(stream, self.watch, address)

        return connect_tapped

    def answer(self, name: str, _: Any) -> Any:
        """One of many answers."""
        self.time += 1
        clock = {"clusterTime": Timestamp(self.time, 1), "signature": {"hash": bytes(20), "keyId": 1}}
        times = {"$clusterTime": clock, "operationTime": Timestamp(self.time, 1)}
        delay = self.random.choice([0.0, 0.001, 0.01, 0.3])
        match self.random.randrange(15):
            case 0:
                return Reply({**overloaded(), **times}, delay)
            case 1:
                return Reply({**failure(462, "SystemOverloadedError"), **times}, delay)
            case 2:
                return Reply({**failure(11602, "RetryableWriteError"), **times}, delay)
            case 3:
                return Reply({**failure(2), **times}, delay)
            case 4:
                return Close()
            case 5:
                return Hang() if self.random.random() < 0.3 else Close()
            case 6:
                return Reply({**failure(462, "RetryableError"), **times}, delay)
            case 7:
                return Raw(encode_reply(7, self.random.randrange(1 << 20, 1 << 30), {"ok": 1.0, "n": 77}))
        batch = "nextBatch" if name == "getMore" else "firstBatch"
        cursor_id = self.random.choice([0, self.random.randrange(1, 1000)])
        cursor = {"id": cursor_id, "ns": "db.coll", batch: [{"_id": self.random.random()}]}
        return Reply({"ok": 1.0, "n": 1, "nModified": 1, "cursor": cursor, **times}, delay)

    async def one_call(self, number: int) -> None:
        """One call of a caller."""
        coll = self.client.db.coll
        match self.random.randrange(6):
            case 0:
                await coll.find_one({"x": number})
            case 1:
                await coll.insert_one({"_id": f"{number}-{self.random.random()}"})
            case 2:
                await coll.update_many({"x": number}, {"$inc": {"x": 1}})
            case 3:
                cursor = coll.find({"x": number}, batch_size=1)
                async for _ in cursor:
                    if self.random.random() < 0.4:
                        break
                await cursor.close()
            case 4:
                async with self.client.start_session() as session:
                    await coll.insert_one({"z": number}, session=session)
                    await coll.find_one({"z": 1}, session=session)
                    await coll.find_one({"z": 2}, session=session)
            case _:
                async with self.client.start_session() as session, await session.start_transaction():
                    await coll.insert_one({"y": number}, session=session)
                    await coll.update_one({"x": 1}, {"$set": {"y": self.random.random()}}, session=session)

    async def caller(self) -> None:
        """Some calls, of which some are cancelled and some have a time limit."""
        for number in range(CALLS):
            wait = 5.0
            try:
                if self.random.random() < 0.3:
                    wait = self.random.choice([0.0, 0.004, 0.02, 0.1])
                async with asyncio.timeout(wait):
                    match self.random.randrange(10):
                        case 0 | 1 | 2:
                            await self.limited(number)
                        case 3 | 4:
                            await self.interrupted(number)
                        case _:
                            await self.one_call(number)
            except (PyMongoError, TimeoutError):
                pass  # the server fails, and callers give up: that is the purpose
            await asyncio.sleep(self.random.choice([0.0, 0.001, 0.02, 0.5]))

    async def interrupted(self, number: int) -> None:
        """One call that is cancelled at one of its first steps, or some steps after a reply may have arrived."""
        call = asyncio.create_task(self.one_call(number))
        await asyncio.sleep(self.random.choice([0.0, 0.001, 0.01]))
        for _ in range(self.random.randrange(10)):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    async def limited(self, number: int) -> None:
        """One call with timeoutMS."""
        seconds = self.random.choice([0.02, 0.2, 1.0])
        with self.watch.within(seconds):
            await self.client.db.coll.with_options(timeoutMS=seconds * 1000).find_one({"x": number})

    async def run(self) -> int:
        """Everything, from the first call to the end; the number of steps."""
        with watching([self.watch]):
            async with self.deployment:
                async with self.client:
                    callers = [asyncio.create_task(self.caller()) for _ in range(CALLERS)]
                    _, left = await asyncio.wait(callers, timeout=self.random.choice([0.5, 2.0, 100.0]))
                    for caller in left:
                        caller.cancel()
                for ended in asyncio.as_completed(callers):
                    with suppress(asyncio.CancelledError):
                        await ended
                await asyncio.sleep(0.01)
            self.watch.closed()
        return self.watch.checks


def simulate(seed: int, **options: Any) -> int:
    """Run one seed; the number of steps."""

    async def main() -> int:
        return await World(seed, **options).run()

    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_client_keeps_them(seed: int) -> None:
    assert simulate(seed) > 20


def found_by(name: str, seeds: int) -> str | None:
    """What notices a planted bug within so many seeds: an invariant, or an exception."""
    with planted(name):
        for seed in range(seeds):
            try:
                simulate(seed)
            except Violation as violation:
                return violation.invariant
            except Exception as error:
                return type(error).__name__
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_INVARIANTS)
def test_a_planted_bug_breaks_one(name: str) -> None:
    assert found_by(name, 200) in BUGS[name].found_by


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_driver(name: str) -> None:
    with planted(name) as bug:
        assert bug.breaks


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_simulation_finds_a_planted_bug(name: str) -> None:
    """Those that need few seeds; `python -m tests.simulate --bug` looks for any of them."""
    assert search(name, range(1, 31), seconds=30.0).finding is not None
