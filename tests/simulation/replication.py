"""Pure: how three members of a simulation agree: terms, votes, a log that followers copy, and a majority commit point.

The protocol is Raft without membership changes. It differs from a server's in its messages (a primary pushes), not in
what it promises: an entry that a majority has in the term of its primary is never rolled back; any other may be.
Packets may be lost, late and out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from bson.timestamp import Timestamp

from tests.simulation.storage import Entry, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.simulation.storage import Change

HEARTBEAT: Final = 0.5
# Seconds without news after which a member stands for election.
ELECTION: Final = (1.5, 3.0)
# Seconds without news of a majority after which a primary steps down.
LEASE: Final = 2.5
_BATCH: Final = 200
# Seconds during which new entries are collected before they are sent.
_GATHER: Final = 0.0003


class Role(Enum):
    """What a member is."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


@dataclass(slots=True)
class Disk:
    """What outlives the process of a member."""

    storage: Storage = field(default_factory=Storage)
    term: int = 0
    voted_for: str | None = None
    # A lower bound of the commit point.
    committed: int = 0


class WorldError(AssertionError):
    """The simulated servers broke their own promises: a bug of the simulation, not of the driver."""


class Replica:
    """One member's part of the protocol.

    Args:
        name: The member's host.
        peers: The other members' hosts.
        disk: What was stored before.
        send: Sends a packet: the host, the method of the `Replica` there, and its arguments.
        later: Calls a function after so many seconds, as long as this process lives.
        now: The loop's clock.
        wall: The member's own wall clock, in seconds since 1970.
        chance: Draws election timeouts.
        on_change: Called when the role, the log or the commit point has changed.
    """

    def __init__(
        self,
        name: str,
        peers: Sequence[str],
        disk: Disk,
        *,
        send: Callable[..., None],
        later: Callable[..., object],
        now: Callable[[], float],
        wall: Callable[[], float],
        chance: Random,
        on_change: Callable[[str], None],
    ) -> None:
        self.name = name
        self.peers = peers
        self.disk = disk
        self.storage: Storage = disk.storage
        self.role: Role = Role.SECONDARY
        self.leader: str | None = None
        self.commit: int = disk.committed
        # The latest time that this member has heard of.
        self.time: Timestamp = self.storage.log[-1].time if self.storage.log else Timestamp(1, 0)
        self.rolled_back: int = 0
        self._send, self._later, self._now, self._wall = send, later, now, wall
        self._chance = chance
        self._on_change = on_change
        self._votes: set[str] = set()
        self._next: dict[str, int] = {}
        self._match: dict[str, int] = {}
        self._heard: dict[str, float] = {}
        self._is_gathering = False
        # Before this time the member does not stand for election.
        self.passive_until: float = 0.0
        self._election_at = 0.0
        self._postpone_election()
        self._tick()

    @property
    def is_primary(self) -> bool:
        return self.role is Role.PRIMARY

    @property
    def term(self) -> int:
        return self.disk.term

    # --- the clock ---

    def _tick(self) -> None:
        now = self._now()
        if self.is_primary:
            heard = sum(now - at <= LEASE for at in self._heard.values())
            if 2 * (heard + 1) <= len(self.peers) + 1:
                self._become(Role.SECONDARY, "lost its majority")
            else:
                self._push()
        elif now >= self._election_at and now >= self.passive_until:
            self._stand()
        pause = HEARTBEAT if self.is_primary else max(0.05, min(HEARTBEAT, self._election_at - now))
        self._later(pause, self._tick)

    def _postpone_election(self) -> None:
        self._election_at = self._now() + self._chance.uniform(*ELECTION)

    # --- elections ---

    def _stand(self) -> None:
        self.disk.term += 1
        self.disk.voted_for = self.name
        self.leader = None
        self._votes = {self.name}
        self._postpone_election()
        last = self.storage.last
        for peer in self.peers:
            self._send(peer, "ask_vote", self.name, self.term, last, self.storage.term_at(last))

    def ask_vote(self, candidate: str, term: int, last: int, last_term: int) -> None:
        """A candidate asks for this member's vote."""
        self._learn_term(term)
        own = self.storage.last
        is_current = (last_term, last) >= (self.storage.term_at(own), own)
        if term == self.term and is_current and self.disk.voted_for in (None, candidate) and not self.is_primary:
            self.disk.voted_for = candidate
            self._postpone_election()
            self._send(candidate, "take_vote", self.name, term)

    def take_vote(self, voter: str, term: int) -> None:
        """A member has voted for this one."""
        if term != self.term or self.is_primary or self.disk.voted_for != self.name:
            return
        self._votes.add(voter)
        if 2 * len(self._votes) > len(self.peers) + 1:
            self._next = dict.fromkeys(self.peers, self.storage.last + 1)
            self._match = dict.fromkeys(self.peers, 0)
            self._heard = dict.fromkeys(self.peers, self._now())
            self._become(Role.PRIMARY, "was elected")
            # Nothing older can be committed before an entry of this term.
            self.write(())

    def step_down(self, seconds: float) -> None:
        """Stop being the primary, and do not stand for election for some time."""
        self.passive_until = self._now() + seconds
        if self.is_primary:
            self._become(Role.SECONDARY, "was asked to step down")

    def _become(self, role: Role, why: str) -> None:
        self.role = role
        self.leader = self.name if role is Role.PRIMARY else None
        self._votes = set()
        self._postpone_election()
        self._on_change(why)

    def _learn_term(self, term: int) -> None:
        if term > self.term:
            self.disk.term, self.disk.voted_for = term, None
            if self.is_primary:
                self._become(Role.SECONDARY, "heard of a newer term")

    # --- the log ---

    def next_time(self) -> Timestamp:
        """A time for a new entry, after all that this member has heard of."""
        wall = int(self._wall())
        time = self.time
        self.time = Timestamp(wall, 1) if wall > time.time else Timestamp(time.time, time.inc + 1)
        return self.time

    def write(self, changes: Sequence[Change]) -> int:
        """Append an entry as the primary; return its index."""
        index = self.storage.append(Entry(self.term, self.next_time(), changes))
        if not self._is_gathering:
            self._is_gathering = True
            self._later(_GATHER, self._gathered)
        return index

    def _gathered(self) -> None:
        self._is_gathering = False
        if self.is_primary:
            self._push()

    def _push(self) -> None:
        for peer in self.peers:
            self._push_to(peer)

    def _push_to(self, peer: str) -> None:
        before = self._next[peer] - 1
        entries = self.storage.log[before : before + _BATCH]
        # Those are on their way: what is lost comes again when the peer says what it misses.
        self._next[peer] += len(entries)
        arguments = (self.name, self.term, before, self.storage.term_at(before), entries, self.commit)
        self._send(peer, "append", *arguments)

    def append(
        self, leader: str, term: int, before: int, before_term: int, entries: Sequence[Entry], commit: int
    ) -> None:
        """The primary sends entries, or none: a heartbeat."""
        self._learn_term(term)
        if term < self.term:
            self._send(leader, "appended", self.name, self.term, False, 0)
            return
        self._postpone_election()
        has_news = self.leader != leader
        self.leader = leader
        storage = self.storage
        if before > storage.last or storage.term_at(before) != before_term:
            self._send(leader, "appended", self.name, term, False, min(storage.last, before - 1))
            return
        for index, entry in enumerate(entries, before + 1):
            if index <= storage.last:
                if storage.log[index - 1] is entry or storage.term_at(index) == entry.term:
                    continue
                self._roll_back(index - 1)
            storage.append(entry)
            self.time = max(self.time, entry.time)
            has_news = True
        end = before + len(entries)
        self._send(leader, "appended", self.name, term, True, end)
        if min(commit, end) > self.commit:
            self._advance(min(commit, end))
            has_news = False
        if has_news:
            self._on_change("")

    def _roll_back(self, index: int) -> None:
        if index < self.commit:
            raise WorldError(f"{self.name} rolls back to {index}, but {self.commit} is committed")
        self.rolled_back += self.storage.truncate(index)
        self._on_change("rolled back")

    def appended(self, peer: str, term: int, has_appended: bool, last: int) -> None:
        """A member answers `append`."""
        self._learn_term(term)
        if not self.is_primary or term != self.term:
            return
        self._heard[peer] = self._now()
        if not has_appended:
            self._next[peer] = max(self._match[peer] + 1, min(self._next[peer], last + 1))
            self._push_to(peer)
            return
        if last <= self._match[peer]:
            return
        self._match[peer] = last
        self._next[peer] = max(self._next[peer], last + 1)
        majority = sorted([self.storage.last, *self._match.values()])[(len(self.peers) + 1) // 2]
        if majority > self.commit and self.storage.term_at(majority) == self.term:
            self._advance(majority)

    def _advance(self, commit: int) -> None:
        self.commit = self.disk.committed = commit
        self._on_change("")

    def learn_time(self, time: Any) -> None:
        """A client has gossiped a cluster time."""
        if isinstance(time, Timestamp):
            self.time = max(self.time, time)
