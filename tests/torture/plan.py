"""Pure: the faults of a run, drawn from its seed.

A plan has five lanes, and each lane has one fault at a time: what happens to the processes of members, to the network,
what members answer, which of their answers are lost, and what happens to the client. So up to five faults meet, one of
each lane. Each lane deals its kinds like a deck of cards, so that even a short run has many of them, and a long one all
in equal numbers.

Members are named by what they are when the fault begins (`PRIMARY`, `FIRST`, `SECOND`: the primary, and the secondaries
in the order of their addresses), because a seed cannot know who will be elected.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PRIMARY, FIRST, SECOND, CLIENTS = "primary", "first secondary", "second secondary", "clients"
MEMBERS: Final = (PRIMARY, FIRST, SECOND)

# Seconds before the first lost reply, and before the first of all other faults: among these, few transactions come as
# far as their commit.
LEAD, CALM = 1.0, 7.0
# Pauses between two faults of a lane, in seconds.
PAUSES: Final = (0.5, 4.0)

Details: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: When it begins, in seconds after the start of the run.
        until: When it ends.
        lane: What it is about.
        kind: What happens.
        details: How; values that JSON can hold.
    """

    at: float
    until: float
    lane: str
    kind: str
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value!r}" for name, value in self.details.items())
        return f"{self.at:7.2f} to {self.until:7.2f}  {self.lane:8} {self.kind} {details}".rstrip()


@dataclass(frozen=True, slots=True)
class Card:
    """A kind of fault: how long it lasts, in seconds, and what draws its details."""

    kind: str
    shortest: float
    longest: float
    draw: Callable[[random.Random], Details] = lambda _: {}


def _member(chance: random.Random) -> Details:
    # More happens on primaries.
    return {"member": chance.choice((PRIMARY, *MEMBERS))}


def _towards(chance: random.Random) -> Details:
    return {**_member(chance), "towards": chance.choice(("server", "client", "both"))}


def _traffic(chance: random.Random) -> Details:
    return {**_member(chance), "harms": chance.choice(("clients", "members", "all"))}


def _two_members(chance: random.Random) -> Details:
    return {"groups": [[host] for host in chance.sample(MEMBERS, 2)]}


def _one_and_clients(chance: random.Random) -> Details:
    return {"groups": [[chance.choice(MEMBERS)], [CLIENTS]]}


def _primary_and_clients(_chance: random.Random) -> Details:
    """What the primary goes on to execute for a second is rolled back, unless a majority has confirmed it."""
    return {"groups": [[PRIMARY, CLIENTS], [FIRST, SECOND]]}


def _one_alone(chance: random.Random) -> Details:
    alone = _member(chance)["member"]
    others = [host for host in MEMBERS if host != alone]
    # The clients are on either side, or reach both.
    groups = [[alone], others]
    side = chance.randrange(3)
    if side < len(groups):
        groups[side].append(CLIENTS)
    return {"groups": groups}


def _delay(chance: random.Random) -> Details:
    return {**_traffic(chance), "seconds": round(chance.uniform(0.005, 0.2), 3)}


def _limit(chance: random.Random) -> Details:
    return {**_traffic(chance), "bytes_per_second": chance.choice((5_000, 50_000))}


def _cut(chance: random.Random) -> Details:
    """Few bytes are in the middle of a frame's header; more are in the middle of its body, or of a later one."""
    return {**_towards(chance), "harms": "clients", "count": chance.choice((1, 7, 15, 16, 17, 40, 200, 1_000, 5_000))}


def _lost_commits(_chance: random.Random) -> Details:
    """All of them: tasks that commit at the same time would share a number, and hardly one would lose its retry too."""
    return {"commands": ["commitTransaction"], "times": None}


def _lost_writes(chance: random.Random) -> Details:
    return {"commands": ["insert", "update", "delete", "findAndModify"], "times": chance.choice((4, 8, 16))}


def _weights(chance: random.Random) -> Details:
    """New priorities; a secondary may lose its vote, and then it has no priority either."""
    priorities = [chance.choice((0.5, 1, 2)) for _ in MEMBERS]
    return {"priorities": priorities, "without_vote": chance.choice((None, FIRST, SECOND))}


def _refusals(chance: random.Random) -> Details:
    # What members say while they step down, shut down, or recover.
    return {"code": chance.choice((91, 189, 10107, 11600, 11602, 13435)), "probability": chance.choice((0.05, 0.3))}


def _overload(chance: random.Random) -> Details:
    return {"probability": chance.choice((0.2, 0.6, 0.95)), "members": chance.choice(([PRIMARY], list(MEMBERS)))}


def _lost_commands(chance: random.Random) -> Details:
    return {"probability": chance.choice((0.02, 0.1, 0.3))}


def _unsure(chance: random.Random) -> Details:
    # 64: the majority did not confirm in time; 91: the primary shuts down, so that the write is retried.
    return {"probability": 0.2, "code": chance.choice((64, 91))}


def _slow(chance: random.Random) -> Details:
    return {"probability": chance.choice((0.1, 0.5)), "block_ms": chance.choice((50, 300, 1_500))}


def _rate(chance: random.Random) -> Details:
    return {"per_second": chance.choice((5, 30, 100))}


LANES: Final[Mapping[str, tuple[Card, ...]]] = {
    "process": (
        Card("kill", 0.5, 5, _member),
        Card("freeze", 0.5, 6, _member),
        Card("kill", 0.0, 0.5, lambda _: {"member": PRIMARY}),
        Card("full disk", 2, 6, _member),
    ),
    "network": (
        Card("partition", 1, 6, _two_members),
        Card("partition", 1, 6, _one_and_clients),
        Card("partition", 1, 6, _one_alone),
        # Long enough for an election even if one of the others is just starting.
        Card("partition", 4, 8, _primary_and_clients),
        Card("delay", 1, 4, _delay),
        Card("limit", 1, 4, _limit),
        Card("reset", 0, 0, _traffic),
        Card("hang up", 0, 0, _traffic),
        Card("refuse", 0.5, 4, _traffic),
        Card("black hole", 0.5, 4, _towards),
        Card("cut in a frame", 0.5, 3, _cut),
        Card("cut in a frame", 0.5, 3, _cut),
    ),
    "answers": (
        Card("step down", 0, 0, lambda chance: {"seconds": chance.randint(1, 4)}),
        Card("reconfigure", 2, 8, _weights),
        Card("overload", 1, 5, _overload),
        Card("refuse commands", 1, 4, _refusals),
        Card("lose commands", 1, 4, _lost_commands),
        Card("unsure write concern", 1, 4, _unsure),
        Card("slow", 1, 4, _slow),
        Card("abort transactions", 0, 0, lambda chance: {"times": chance.choice((3, 10))}),
        Card("abort transactions", 0, 0, lambda chance: {"times": chance.choice((3, 10))}),
        Card("ask for authentication again", 1, 4, lambda chance: {"probability": chance.choice((0.1, 0.5))}),
    ),
    "replies": (
        Card("lose replies", 2, 6, _lost_commits),
        Card("lose replies", 2, 6, _lost_commits),
        Card("lose replies", 1, 3, _lost_writes),
    ),
    "client": (
        Card("cancel", 1, 5, _rate),
        Card("cancel", 1, 5, _rate),
        Card("kill the load", 0.2, 1),
    ),
}


def client_options(seed: int) -> Details:
    """The options of the client in a run, as keyword arguments."""
    chance = random.Random(f"{seed} options")
    options: Details = {"maxPoolSize": chance.choice((100, 30, 10))}
    if chance.random() < 0.5:
        options["compressors"] = "zlib"
    if chance.random() < 0.3:
        options["killAbandoned"] = True
    if chance.random() < 0.3:
        options["timeoutMS"] = 15_000
    return options


def plan(seed: int, seconds: float) -> list[Fault]:
    """The faults of a run in the order of their beginnings.

    Args:
        seed: Equal seeds and lengths have equal plans.
        seconds: The length of the run; no fault goes on beyond it.
    """
    faults = [fault for lane in LANES for fault in _lane(random.Random(f"{seed} {lane}"), lane, seconds)]
    return sorted(faults, key=lambda fault: (fault.at, fault.lane))


def _lane(chance: random.Random, lane: str, seconds: float) -> Iterator[Fault]:
    at = (LEAD if lane == "replies" else CALM) + chance.uniform(0, PAUSES[1])
    while True:
        deck = list(LANES[lane])
        chance.shuffle(deck)
        for card in deck:
            until = at + chance.uniform(card.shortest, card.longest)
            if until > seconds:
                return
            yield Fault(round(at, 2), round(until, 2), lane, card.kind, card.draw(chance))
            at = until + chance.uniform(*PAUSES)
