"""Shell: callers that give up early and try again, and what of their work goes on in the server.

Each of a few tasks sends an update whose filter takes the server seconds of computing, gives up after a quarter of a
second, and sends it again. Where only the client gives up, the server goes on with all of them, each slows down the
others, and other clients' reads with them.
"""

from __future__ import annotations

import asyncio
import importlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align, judge, percentile
from benchmarks.processes import ROOT, say
from motorlite.testing import LocalServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DATABASE, COLLECTION, OTHER = "motorlite_pile_up", "c", "other"
DOCUMENTS = 3000
# How long a caller waits, in milliseconds; the operation alone takes the server over a second.
PATIENCE_MS = 250
# Seconds between samples, between reads of the other client, and for the server to become idle.
SAMPLE_EVERY, READ_EVERY, WAIT_FOR_IDLE = 0.25, 0.05, 4.0

_SUM = {"$add": ["$$value", {"$multiply": ["$$this", "$x"]}]}
EXPENSIVE = {"$expr": {"$gt": [{"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": 0, "in": _SUM}}, -1]}}

# How many times the number of callers may be in progress, and how long after the callers left, in seconds.
MOST_PER_CALLER = 4.0
LONGEST_TAIL = 1.0

HEAD = ("", "in progress", "at the end", "idle after", "sent", "other reads p50", "p99")


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver with the options of its client."""

    name: str
    module: str
    options: tuple[tuple[str, object], ...]
    # Whether an option ends the work on the server.
    is_limited: bool


_TIMEOUT, _SOCKET_TIMEOUT = ("timeoutMS", PATIENCE_MS), ("socketTimeoutMS", PATIENCE_MS)
ARMS = (
    Arm("motorlite, timeoutMS", "motorlite", (_TIMEOUT,), is_limited=True),
    Arm(
        "motorlite, socketTimeoutMS and killAbandoned",
        "motorlite",
        (_SOCKET_TIMEOUT, ("killAbandoned", True)),
        is_limited=True,
    ),
    Arm("motorlite, socketTimeoutMS alone", "motorlite", (_SOCKET_TIMEOUT,), is_limited=False),
    Arm("PyMongo Async, timeoutMS", "pymongo", (_TIMEOUT,), is_limited=True),
    Arm("PyMongo Async, socketTimeoutMS", "pymongo", (_SOCKET_TIMEOUT,), is_limited=False),
)


@dataclass(frozen=True, slots=True)
class Curve:
    """The operations in progress on the server, as pairs of seconds since the start and their number.

    Attributes:
        arm: The client.
        callers: The number of tasks that try again and again.
        load: How long they do, in seconds.
        samples: The curve.
        attempts: The operations that were started.
        reads: The durations of another client's point reads meanwhile, in seconds.
    """

    arm: Arm
    callers: int
    load: float
    samples: tuple[tuple[float, int], ...]
    attempts: int
    reads: tuple[float, ...]

    @property
    def peak(self) -> int:
        return max((count for _, count in self.samples), default=0)

    @property
    def last(self) -> int:
        """How many were in progress when the callers stopped."""
        return next((count for seconds, count in reversed(self.samples) if seconds <= self.load), 0)

    @property
    def tail(self) -> float | None:
        """Seconds from the end of the load until nothing was in progress; None: something still was at the end."""
        busy = [seconds for seconds, count in self.samples if count]
        if not busy:
            return 0.0
        idle = next((seconds for seconds, _ in self.samples if seconds > busy[-1]), None)
        return None if idle is None else max(0.0, idle - self.load)


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


def render(curves: Sequence[Curve]) -> str:
    return align([HEAD, *map(_row, curves)])


def _row(curve: Curve) -> tuple[str, ...]:
    ordered = sorted(curve.reads)
    tail = curve.tail
    return (
        curve.arm.name,
        str(curve.peak),
        str(curve.last),
        "not within the run" if tail is None else f"{tail:.1f} s",
        str(curve.attempts),
        f"{percentile(ordered, 0.5) * 1e3:.0f} ms",
        f"{percentile(ordered, 0.99) * 1e3:.0f} ms",
    )


def verdict(curves: Sequence[Curve]) -> tuple[str, bool]:
    """Whether operations of our clients with limits neither pile up nor outlive their callers."""
    ours = [curve for curve in curves if curve.arm.module == "motorlite" and curve.arm.is_limited]
    is_met = bool(ours) and all(
        curve.peak <= MOST_PER_CALLER * curve.callers and curve.tail is not None and curve.tail <= LONGEST_TAIL
        for curve in ours
    )
    wanted = (
        f"with a limit on the server at most {MOST_PER_CALLER:g} operations per caller are in progress, and none is "
        f"{LONGEST_TAIL:g} s after the callers stopped"
    )
    return wanted, is_met


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Write the curves into one picture, whose kind is the suffix of `path`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    # The same curves make the same file.
    matplotlib.rcParams["svg.hashsalt"] = "pile-up"
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for curve in curves:
        style = "-" if curve.arm.is_limited else "--"
        axes.plot(*zip(*curve.samples, strict=True), style, linewidth=2, label=curve.arm.name)
    load = curves[0].load
    axes.axvline(load, color="grey", linewidth=1, linestyle=":")
    # Half-way up, between the curves that fall to zero and those that do not.
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "center"}
    axes.annotate("the callers stop", (load, 0.5), (4, 0), color="grey", rotation=90, **place)
    title = f"{curves[0].callers} callers give up after {PATIENCE_MS} ms and try again"
    axes.set(
        title=title, xlabel="seconds", ylabel="operations in progress on the server", xlim=(0, None), ylim=(0, None)
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    pyplot.close(figure)


def run(arguments: argparse.Namespace) -> int:
    curves = []
    for arm in ARMS:
        say(arm.name)
        # What one client left behind must not slow down the next one.
        with LocalServer.start("standalone", own=True) as server:
            documents = [{"_id": number, "x": number % 7} for number in range(DOCUMENTS)]
            server.command({"insert": COLLECTION, "documents": documents}, DATABASE)
            server.command({"insert": OTHER, "documents": documents[:10]}, DATABASE)
            curves.append(asyncio.run(measure(arm, server, arguments.callers, arguments.seconds)))
    print(f"{arguments.callers} callers for {arguments.seconds:g} s, {PATIENCE_MS} ms each, one standalone server\n")
    print(f"{render(curves)}\n")
    try:
        draw(curves, arguments.picture)
    except ImportError:
        print("no picture: it needs matplotlib (motorlite[bench])")
    else:
        print(f"the picture is in {arguments.picture}")
    return judge([verdict(curves)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--callers", type=int, default=8, help="default: 8")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each client is loaded; default: 8")
    picture = ROOT / "docs" / "pile-up.svg"
    parser.add_argument("--picture", type=Path, default=picture, help="an SVG or PNG file; default: docs/pile-up.svg")
