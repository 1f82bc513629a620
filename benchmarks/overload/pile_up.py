"""Shell: callers that give up early and try again, and what of their work goes on in the server.

Each of a few tasks sends an update whose filter takes the server seconds of computing, gives up after a quarter of a
second, and sends it again. Where only the client gives up, the server goes on with all of them, each slows down the
others, and other clients' reads with them.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import warnings
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.overload.pile_up_figures import Arm, Curve, draw, render, verdict
from benchmarks.processes import ROOT
from motorlite.testing import LocalServer

if TYPE_CHECKING:
    import argparse

DATABASE, COLLECTION, OTHER = "motorlite_pile_up", "c", "other"
DOCUMENTS = 3000
# How long a caller waits, in milliseconds; the operation alone takes the server over a second.
PATIENCE_MS = 250
# Seconds between samples, between reads of the other client, and for the server to become idle.
SAMPLE_EVERY, READ_EVERY, WAIT_FOR_IDLE = 0.25, 0.05, 4.0

_SUM = {"$add": ["$$value", {"$multiply": ["$$this", "$x"]}]}
EXPENSIVE = {"$expr": {"$gt": [{"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 0, "in": _SUM}}, -1]}}

ARMS = (
    Arm("motorlite, timeoutMS", "motorlite", (("timeoutMS", PATIENCE_MS),), is_limited=True),
    Arm(
        "motorlite, socketTimeoutMS and killAbandoned",
        "motorlite",
        (("socketTimeoutMS", PATIENCE_MS), ("killAbandoned", True)),
        is_limited=True,
    ),
    Arm("motorlite, socketTimeoutMS alone", "motorlite", (("socketTimeoutMS", PATIENCE_MS),), is_limited=False),
    Arm("PyMongo Async, timeoutMS", "pymongo", (("timeoutMS", PATIENCE_MS),), is_limited=True, is_ours=False),
    Arm(
        "PyMongo Async, socketTimeoutMS",
        "pymongo",
        (("socketTimeoutMS", PATIENCE_MS),),
        is_limited=False,
        is_ours=False,
    ),
)


def in_progress(server: LocalServer) -> int:
    """The number of operations on the collection, as the server counts them."""
    pipeline = [
        {"$currentOp": {"allUsers": True}},
        {"$match": {"ns": f"{DATABASE}.{COLLECTION}", "op": {"$ne": "none"}}},
        {"$count": "n"},
    ]
    found = server.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}})["cursor"]["firstBatch"]
    return int(found[0]["n"]) if found else 0


async def measure(arm: Arm, server: LocalServer, callers: int, load: float) -> Curve:
    """Run one client against a fresh server."""
    module: Any = importlib.import_module(arm.module)
    samples: list[tuple[float, int]] = []
    reads: list[float] = []
    attempts = 0
    start = monotonic()
    end = start + load

    async def call(collection: Any) -> None:
        nonlocal attempts
        while monotonic() < end:
            attempts += 1
            try:
                await collection.update_many(EXPENSIVE, {"$inc": {"n": 1}})
            except Exception as error:
                if not getattr(error, "timeout", False):
                    raise

    async def sample() -> None:
        while monotonic() < end + WAIT_FOR_IDLE:
            count = await asyncio.to_thread(in_progress, server)
            samples.append((monotonic() - start, count))
            if monotonic() > end and not count:
                return
            await asyncio.sleep(SAMPLE_EVERY)

    async def read(collection: Any) -> None:
        while monotonic() < end:
            before = monotonic()
            await collection.find_one({"_id": 1})
            reads.append(monotonic() - before)
            await asyncio.sleep(READ_EVERY)

    other: Any = importlib.import_module("motorlite")
    with warnings.catch_warnings():
        # socketTimeoutMS without a limit on the server: the subject of this benchmark.
        warnings.filterwarnings("ignore", "socketTimeoutMS", UserWarning)
        client = module.AsyncMongoClient(server.uri, **dict(arm.options))
    async with client, other.AsyncMongoClient(server.uri) as bystander, asyncio.TaskGroup() as group:
        group.create_task(sample())
        group.create_task(read(bystander[DATABASE][OTHER]))
        for _ in range(callers):
            group.create_task(call(client[DATABASE][COLLECTION]))
    return Curve(arm, callers, load, tuple(samples), attempts, tuple(reads))


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, draw and judge; return the exit status."""
    curves = []
    for arm in ARMS:
        print(arm.name, file=sys.stderr, flush=True)
        # What one client left behind must not slow down the next one.
        with LocalServer.start("standalone", own=True) as server:
            documents = [{"_id": number, "x": number % 7} for number in range(DOCUMENTS)]
            server.command({"insert": COLLECTION, "documents": documents}, DATABASE)
            server.command({"insert": OTHER, "documents": documents[:10]}, DATABASE)
            curves.append(asyncio.run(measure(arm, server, arguments.callers, arguments.seconds)))
    line, is_met = verdict(curves)
    print(f"{arguments.callers} callers for {arguments.seconds:g} s, {PATIENCE_MS} ms each, one standalone server\n")
    print(f"{render(curves)}\n\n{line}")
    try:
        draw(curves, arguments.picture)
    except ImportError:
        print("no picture: it needs matplotlib (motorlite[bench])")
    else:
        print(f"the picture is in {arguments.picture}")
    return 0 if is_met else 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--callers", type=int, default=8, help="default: 8")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each client is loaded; default: 8")
    parser.add_argument(
        "--picture",
        type=Path,
        default=ROOT / "docs" / "pile-up.svg",
        help="an SVG or PNG file; default: docs/pile-up.svg",
    )
