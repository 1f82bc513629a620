"""Shell: the faults of a run: drawn from its seed, carried out on the world, and undone.

A plan has lanes, and each lane has one fault at a time: what happens to processes, to links, to bytes, to what servers
answer, to change streams, and to the tasks of the client. Members are named by what they are when a fault begins,
because a seed cannot know which of them will be elected. A fault can be left out without changing the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.member import Member
from tests.simulation.network import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.simulation.member import Node
    from tests.simulation.world import World

# Seconds without faults at the beginning, and between two faults of a lane.
_LEAD: Final = 2.0
_PAUSES: Final = (0.5, 12.0)
_ROLES: Final = ("primary", "primary", "primary", "first", "second")

# For each lane the kinds of its faults, with the shortest and the longest time that they last, and the range of how
# much there is of them.
_KINDS: Final[dict[str, dict[str, tuple[float, float, float, float]]]] = {
    "process": {
        "kill": (0.5, 8, 0, 0),
        "vanish": (0.5, 8, 0, 0),
        "freeze": (0.2, 6, 0, 0),
        "step down": (1, 6, 0, 0),
        "clock": (2, 20, -3600, 3600),
    },
    "links": {
        "cut off from clients": (0.5, 6, 0, 0),
        "deaf to clients": (0.5, 6, 0, 0),
        "mute to clients": (0.5, 6, 0, 0),
        "cut off from members": (0.5, 8, 0, 0),
        "cut off from all": (0.5, 8, 0, 0),
        "loses packets": (1, 10, 0.05, 0.5),
    },
    "bytes": {
        "late": (0.5, 8, 0.005, 0.5),
        "resets": (0, 0, 0, 400),
        "hangs up": (0, 0, 0, 0),
        "refuses connections": (0.5, 5, 0.2, 1),
        "arrives in pieces": (1, 10, 0.3, 1),
        "repeats replies": (0.5, 4, 0.02, 0.3),
        "sends stray replies": (0.5, 4, 0.02, 0.3),
    },
    "answers": {
        "slow": (0.5, 5, 0.01, 1.0),
        "overload": (1, 8, 20, 500),
        "fails commands": (0.5, 4, 0.05, 0.5),
        "loses replies": (0.5, 4, 0.05, 0.5),
        "loses commits": (1, 8, 0.3, 1),
        "forgets transactions": (0, 0, 0, 0),
        "forgets labels": (0.5, 6, 0.05, 0.5),
    },
    "streams": {
        "forgets cursors": (0, 0, 0, 0),
        "forgets history": (1, 10, 0, 10),
        "invalidates streams": (0, 0, 0, 0),
    },
    "tasks": {"cancels": (1, 10, 0.5, 20)},
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: When it begins, in seconds after the start of the workload.
        until: When it ends.
        kind: What happens.
        role: Who it happens to, by role.
        amount: How much of it there is: seconds, bytes, a share, a rate.
    """

    at: float
    until: float
    kind: str
    role: str
    amount: float

    def __str__(self) -> str:
        return f"{self.at:7.2f} to {self.until:7.2f}  {self.kind}, {self.role}, {self.amount:g}"


def draw(chance: Random, seconds: float) -> list[Fault]:
    """The faults of a run of so many seconds, in the order in which they begin."""
    found = []
    # Some runs have few faults, others many.
    density = chance.choice((0.3, 1.0, 1.0, 2.0))
    for kinds in _KINDS.values():
        at = _LEAD + chance.uniform(*_PAUSES)
        while at < seconds:
            kind = chance.choice(list(kinds))
            shortest, longest, least, most = kinds[kind]
            until = min(at + chance.uniform(shortest, longest), seconds)
            found.append(
                Fault(round(at, 2), round(until, 2), kind, chance.choice(_ROLES), round(chance.uniform(least, most), 3))
            )
            at = until + chance.uniform(*_PAUSES) / density
    return sorted(found, key=lambda fault: (fault.at, fault.kind))


class Faults:
    """Carries out a plan."""

    def __init__(self, world: World, plan: Sequence[Fault], cancel: Callable[[], None]) -> None:
        self._world = world
        self._plan = plan
        self._cancel = cancel
        self._is_over = False
        # What undoes the faults that have begun.
        self._undo: dict[int, Callable[[], None]] = {}

    def start(self) -> None:
        """Begin: the plan's times count from now."""
        now = self._world.loop.time()
        for number, fault in enumerate(self._plan):
            self._world.loop.call_at(now + fault.at, self._begin, number, fault)

    def _begin(self, number: int, fault: Fault) -> None:
        if self._is_over:
            return
        node = self._world.node(fault.role)
        self._world.trace.record("fault", fault.kind, node.name, fault.amount)
        undo = getattr(self, f"_{fault.kind.replace(' ', '_')}")(node, fault.amount, fault.until - fault.at)
        if undo is not None:
            self._undo[number] = undo
            self._world.loop.call_later(fault.until - fault.at, self._end, number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            self._world.trace.record("fault ends", self._plan[number].kind)
            undo()

    def heal(self) -> None:
        """Undo all faults, and begin no more."""
        self._is_over = True
        for number in sorted(self._undo):
            self._end(number)

    # --- processes ---

    def _kill(
        self, node: Node, _amount: float, _seconds: float, *, silently: bool = False
    ) -> Callable[[], None] | None:
        if not node.is_up or node.is_frozen:
            return None
        node.kill(silently=silently)
        return node.start

    def _vanish(self, node: Node, amount: float, seconds: float) -> Callable[[], None] | None:
        return self._kill(node, amount, seconds, silently=True)

    def _freeze(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None] | None:
        if not node.is_up or node.is_frozen:
            return None
        node.freeze()
        return node.unfreeze

    def _step_down(self, node: Node, _amount: float, seconds: float) -> None:
        if node.is_up and not node.is_frozen:
            node.step_down(seconds)

    def _clock(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        node.clock_error = amount
        return partial(setattr, node, "clock_error", 0.0)

    # --- links ---

    def _cut(self, pairs: Sequence[tuple[str, str]]) -> Callable[[], None]:
        network = self._world.network
        for pair in pairs:
            network.cut(*pair)

        def heal() -> None:
            for pair in pairs:
                network.heal(*pair)

        return heal

    def _cut_off_from_clients(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None]:
        return self._cut([(CLIENT, node.name), (node.name, CLIENT)])

    def _deaf_to_clients(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None]:
        return self._cut([(CLIENT, node.name)])

    def _mute_to_clients(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None]:
        return self._cut([(node.name, CLIENT)])

    def _cut_off_from_members(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None]:
        others = [name for name in self._world.network.servers if name != node.name]
        return self._cut([pair for other in others for pair in ((node.name, other), (other, node.name))])

    def _cut_off_from_all(self, node: Node, _amount: float, _seconds: float) -> Callable[[], None]:
        others = [CLIENT, *(name for name in self._world.network.servers if name != node.name)]
        return self._cut([pair for other in others for pair in ((node.name, other), (other, node.name))])

    def _loses_packets(self, _node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(self._world.network, "losses", amount)

    @staticmethod
    def _set(target: object, name: str, value: float) -> Callable[[], None]:
        before = getattr(target, name)
        setattr(target, name, value)
        return partial(setattr, target, name, before)

    # --- bytes ---

    def _late(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        delays = self._world.network.delays
        delays[node.name] = amount
        return partial(delays.__delitem__, node.name)

    def _resets(self, node: Node, amount: float, _seconds: float) -> None:
        for connection in list(self._world.network.connections.values()):
            if connection.host == node.name:
                pipe = connection.to_server if connection.number % 2 else connection.to_client
                pipe.left = int(amount)

    def _hangs_up(self, node: Node, _amount: float, _seconds: float) -> None:
        for connection in list(self._world.network.connections.values()):
            if connection.host == node.name:
                connection.hang_up()

    def _refuses_connections(self, _node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(self._world.network, "refusals", amount)

    def _arrives_in_pieces(self, _node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(self._world.network, "splits", amount)

    def _repeats_replies(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "repetitions", amount)

    def _sends_stray_replies(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "strays", amount)

    # --- answers ---

    def _slow(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "slow_replies", amount)

    def _overload(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        node.station.slowness, node.station.patience = amount, 0.1

        def relieve() -> None:
            node.station.slowness, node.station.patience = 1.0, float("inf")

        return relieve

    def _fails_commands(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "failures", amount)

    def _loses_replies(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "lost_replies", amount)

    def _loses_commits(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "lost_commits", amount)

    def _forgets_labels(self, node: Node, amount: float, _seconds: float) -> Callable[[], None]:
        return self._set(node, "half_labels", amount)

    def _forgets_transactions(self, node: Node, _amount: float, _seconds: float) -> None:
        if node.is_up:
            node.forget_transactions()

    # --- streams ---

    def _forgets_cursors(self, node: Node, _amount: float, _seconds: float) -> None:
        if node.is_up:
            node.forget_cursors()

    def _forgets_history(self, node: Node, amount: float, _seconds: float) -> Callable[[], None] | None:
        if not isinstance(node, Member):
            return None
        self._world.has_lost_history = True
        return self._set(node.disk.storage, "history", amount)

    def _invalidates_streams(self, node: Node, _amount: float, _seconds: float) -> None:
        if node.is_up:
            node.invalidate_streams()

    # --- tasks ---

    def _cancels(self, _node: Node, amount: float, seconds: float) -> None:
        loop = self._world.loop
        count = max(1, int(amount * seconds))
        for number in range(count):
            loop.call_later((number + self._world.chance.random()) * seconds / count, self._cancel_one)

    def _cancel_one(self) -> None:
        if not self._is_over:
            self._cancel()
