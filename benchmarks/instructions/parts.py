"""Pure: the parts of an operation, and what the spans between the marks add up to."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.instructions.marks import PROBED, Mark, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METHOD, EXECUTE, POOL, SEND, BUILD, ENCODE, ROUND_TRIP, DECODE, LOOP = (
    "method: arguments, operation, call",
    "execute: run, attempt, parse",
    "selection and check-out",
    "send: limits, events, cluster time",
    "build: command and session",
    "encode",
    "round_trip: parse and check the reply",
    "decode",
    "loop, future and framing",
)
ORDER = (METHOD, EXECUTE, POOL, SEND, BUILD, ENCODE, ROUND_TRIP, DECODE, LOOP)

_READS = "motorlite._api.collection.reads:AsyncCollection."
_WRITES = "motorlite._api.collection.writes:AsyncCollection."
# What is outside of all of these is the loop's.
TARGETS = (
    *(Target(METHOD, _READS + name) for name in ("find_one", "find")),
    *(Target(METHOD, _WRITES + name) for name in ("insert_one", "update_one", "replace_one")),
    Target(METHOD, "motorlite._api.collection.bulk:AsyncCollection.insert_many"),
    Target(METHOD, "motorlite._api.cursors.base:CursorBase.to_list"),
    Target(EXECUTE, "motorlite._execution.executor:Executor.execute"),
    Target(EXECUTE, "motorlite._execution.executor:Executor.open"),
    Target(POOL, "motorlite._topology.topology:Topology.select_now"),
    Target(POOL, "motorlite._pool.pool:Pool.check_out_now"),
    Target(POOL, "motorlite._pool.pool:Pool.check_in"),
    Target(SEND, "motorlite._execution.sender:Sender.send"),
    Target(BUILD, "motorlite._execution.building:CommandBuilder.build"),
    Target(ENCODE, "motorlite._connection.messages:encode_command"),
    Target(ENCODE, "motorlite._connection.messages:encoded_fields"),
    Target(ENCODE, "motorlite._connection.messages:encode_parts"),
    Target(ROUND_TRIP, "motorlite._connection.connection:Connection.round_trip"),
    Target(DECODE, "motorlite._connection.connection:decode_reply"),
    Target(LOOP, "motorlite._net.on_asyncio.stream:AsyncioStream.exchange"),
    Target(LOOP, "motorlite._net.on_trio.stream:TrioStream._exchange"),
)


class Overhead(NamedTuple):
    """Instructions that the marks around one step of a function add to its own spans and to those of its caller."""

    inner: float
    outer: float


def overheads(marks: Sequence[Mark], spans: Sequence[int]) -> dict[str, Overhead]:
    """The cost of the marks for each kind of step, from `Recorder.probe`. `spans` are those before each mark."""
    inner: defaultdict[str, list[int]] = defaultdict(list)
    outer: defaultdict[str, list[int]] = defaultdict(list)
    probe, within, inside, outside = "", False, 0, 0
    for mark, instructions in zip(marks, spans, strict=True):
        if within:
            inside += instructions
        else:
            outside += instructions
        within = mark.what == "enter" and mark.name == PROBED
        if mark.what == "probe":
            if probe:
                inner[probe].append(inside)
                outer[probe].append(outside)
            probe, inside, outside = mark.name, 0, 0
    found = {}
    for step in ("function", "first", "again"):
        real = median(outer[step]) - median(outer["empty"])
        marked = f"{step}, marked"
        found[step] = Overhead(median(inner[marked]) - real, median(outer[marked]) - median(outer["empty"]))
    first, both = found["first"], found["again"]  # the probe of "again" begins with a first step
    found["again"] = Overhead(both.inner - first.inner, both.outer - first.outer)
    return found


class Part(NamedTuple):
    """Instructions per operation."""

    counted: float
    marks: float  # of those, what the marks cost


def by_part(marks: Sequence[Mark], spans: Sequence[int], cost: Mapping[str, Overhead], count: int) -> dict[str, Part]:
    """Instructions per operation by part, between the first and the last mark of a sample.

    Args:
        marks: All marks.
        spans: The instructions before each of them.
        cost: What the marks themselves cost.
        count: The number of operations.
    """
    at = [number for number, mark in enumerate(marks) if mark.what == "sample"]
    counted: defaultdict[str, float] = defaultdict(float)
    overhead: defaultdict[str, float] = defaultdict(float)
    stack = [LOOP]
    for mark, instructions in list(zip(marks, spans, strict=True))[at[0] + 1 : at[-1] + 1]:
        counted[stack[-1]] += instructions
        if mark.what == "enter":
            overhead[stack[-1]] += cost[mark.step].outer
            overhead[mark.name] += cost[mark.step].inner
            stack.append(mark.name)
        elif mark.what == "leave":
            stack.pop()
    return {part: Part(counted[part] / count, overhead[part] / count) for part in ORDER if part in counted}


def without_marks(parts: Mapping[str, Part], total: float) -> dict[str, float]:
    """The parts without the marks, so that they add up to the total of a run without any.

    Among other code the marks cost more than in the probes (about 1.3 times), by the same factor wherever they are.
    """
    overhead = sum(part.marks for part in parts.values())
    factor = (sum(part.counted for part in parts.values()) - total) / overhead if overhead else 0.0
    return {name: part.counted - part.marks * factor for name, part in parts.items()}
