"""Tortures the service of stock_service.py: breaks its database while it sells, and counts the sales afterwards.

    python -m examples.stock_torture --seed 7
    python -m examples.stock_torture --seed 7 --mistake forgets-majority

It starts a replica set of its own, with three members, and calls the routes of the service, with the client that the
service makes. First a sale is cancelled at each of its awaits. Then eight callers sell, and some of them hang up, while
one fault follows the other; the seed draws them. A journal says what the callers were promised, and the account
compares it with the stock that is left: no sale that was answered may be lost, and none may be counted twice.

``--mistake`` makes the service wrong, to show that the torture notices. The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from examples.stock_service import Pieces, app, deliver, lifespan, sell
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.account import FinalState, judge, report
from motorlite.testing.cancellation import cancel_at_every_point
from motorlite.testing.journal import Journal
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from motorlite import AsyncCollection
    from motorlite.testing.account import Finding

    Sell = Callable[[str, Pieces, AsyncCollection[dict[str, Any]]], Awaitable[dict[str, Any]]]

PART, STOCK, CALLERS = "bolt", 1_000_000, 8
PAUSE = 0.5  # seconds between two faults
ENOUGH = 200  # sales after the last fault
KINDS = ("frozen", "killed", "full disk", "alone with the clients", "loses replies")
# What happens to others than the primary is no problem for callers.
OF_PRIMARIES = ("alone with the clients", "loses replies")


# --- what breaks ---


@dataclass(frozen=True)
class Fault:
    """Something that happens to a member; the primary is the member that is primary when the fault begins."""

    kind: str
    is_of_primary: bool
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind}, {'the primary' if self.is_of_primary else 'a secondary'}, for {self.seconds} s"


def plan(seed: int) -> list[Fault]:
    """The faults of a run: each kind once. Equal seeds have equal plans."""
    chance = random.Random(seed)
    return [
        Fault(
            kind,
            kind in OF_PRIMARIES or chance.random() < 0.7,
            # Without the primary, the others need a second for an election, and more on a busy machine.
            round(chance.uniform(2.0, 3.0) + (2.0 if kind == "alone with the clients" else 0.0), 1),
        )
        for kind in chance.sample(KINDS, len(KINDS))
    ]


def begin(fault: Fault, server: LocalServer) -> None:
    """Make a fault happen; `LocalServer.restore` ends it."""
    primary = server.wait_for_primary()
    others = [address for address in server.addresses if address != primary]
    member = primary if fault.is_of_primary else others[0]
    match fault.kind:
        case "frozen":
            server.freeze(member)
        case "killed":
            server.kill(member)
        case "full disk":
            server.fill_disk(member)
        case "alone with the clients":
            server.partition([primary, "clients"], others)
        case "loses replies":
            server.proxies[member].lose_replies("findAndModify", times=20)


# --- what works meanwhile ---


async def looks_first(name: str, pieces: Pieces, parts: AsyncCollection[dict[str, Any]]) -> dict[str, Any]:
    """A wrong `sell`: between looking and taking, others take the same piece."""
    found = await parts.find_one({"_id": name})
    assert found is not None
    await parts.update_one({"_id": name}, {"$set": {"stock": found["stock"] - pieces.count}})
    return {"name": name, "stock": found["stock"] - pieces.count}


async def forgets_majority(name: str, pieces: Pieces, parts: AsyncCollection[dict[str, Any]]) -> dict[str, Any]:
    """A wrong `sell`: the next primary may know nothing of what only this one has confirmed."""
    return await sell(name, pieces, parts.with_options(write_concern=WriteConcern(1)))


MISTAKES: dict[str, Sell] = {"looks-first": looks_first, "forgets-majority": forgets_majority}


async def torture(server: LocalServer, faults: Sequence[Fault], sell: Sell) -> list[Finding]:
    """Sell while the faults happen. Returns what is wrong afterwards."""
    os.environ["MONGODB_URI"] = server.uri
    journal = Journal(time.monotonic)
    async with lifespan(app) as state:
        parts = state["client"].shop.parts
        await deliver(PART, Pieces(count=STOCK), parts)

        async def sell_one() -> None:
            # To the account, what is sold is a counter: each sale adds one to it, and learns its value.
            with journal.operation(journal.new_process(), "count", counter=PART) as result:
                answer = await sell(PART, Pieces(count=1), parts)
                result["value"] = STOCK - answer["stock"]

        async def call(chance: random.Random) -> None:
            while True:
                patience = chance.choice((None, None, None, 0.02))
                with suppress(PyMongoError, TimeoutError):  # a 503, or a caller that hangs up
                    async with asyncio.timeout(patience):
                        await sell_one()
                await asyncio.sleep(chance.uniform(0, 0.02))

        for late in (False, True):
            points = await cancel_at_every_point(sell_one, late=late)
            print(f"cancelled at {points} points")
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(call(random.Random(number))) for number in range(CALLERS)]
            for fault in faults:
                await asyncio.sleep(PAUSE)
                print(fault)
                await asyncio.to_thread(begin, fault, server)
                await asyncio.sleep(fault.seconds)
                await asyncio.to_thread(server.restore)
            # On a slow machine, a pause alone may be too short for a single mistake.
            enough = len(journal.entries) + 2 * ENOUGH
            await asyncio.sleep(PAUSE)
            while len(journal.entries) < enough:  # noqa: ASYNC110  # a journal has no event
                await asyncio.sleep(0.01)
            for each in callers:
                each.cancel()
    # Not with the driver: it does not judge itself.
    query = {"find": "parts", "filter": {"_id": PART}, "readConcern": {"level": "majority"}}
    (part,) = server.command(query, "shop")["cursor"]["firstBatch"]
    print(f"{STOCK - part['stock']} sold, {len(journal.entries) // 2} tried")
    return judge(journal.entries, FinalState(counters={PART: STOCK - part["stock"]}))


def start() -> tuple[LocalServer, bool]:
    """The replica set, and whether its disks can be filled: not every system permits the disks that this needs."""
    try:
        return LocalServer.start("replicaset", nodes=3, proxied=True, disk_mb=300), True
    except OSError:
        return LocalServer.start("replicaset", nodes=3, proxied=True), False


def main(arguments: Sequence[str]) -> int:
    """Torture the service, and say what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m examples.stock_torture")
    parser.add_argument("--seed", type=int, default=1, help="of the faults")
    parser.add_argument("--faults", type=int, default=len(KINDS), help="how many of them; default: %(default)s")
    parser.add_argument("--mistake", choices=MISTAKES, help="what is wrong with the service")
    options = parser.parse_args(arguments)
    server, has_disks = start()
    with server:
        faults = [each for each in plan(options.seed)[: options.faults] if has_disks or each.kind != "full disk"]
        findings = asyncio.run(torture(server, faults, MISTAKES.get(options.mistake, sell)))
    print(report(findings[:3]))
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
