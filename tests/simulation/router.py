"""Shell: a router of a simulation, as a mongos: it passes commands on to members, and knows what began with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from tests.simulation.member import LABELS, OVERLOADED, Member, Node
from tests.support.mongos.errors import (
    CURSOR_NOT_FOUND,
    HOST_UNREACHABLE,
    NO_SUCH_TRANSACTION,
    TRANSACTION_COMMITTED,
    CommandError,
)
from tests.support.mongos.transactions import Transactions, is_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from motorlite._base.values import Address
    from tests.simulation.documents import Document
    from tests.simulation.member import Asker
    from tests.simulation.network import Network

_POLL: Final = 0.5
# Seconds after which a member that does not answer counts as unreachable.
_PATIENCE: Final = 4.0
_WORK: Final = 0.0001
_READS: Final = frozenset({"find", "aggregate", "listIndexes", "listCollections"})
_STATE_CHANGES: Final = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})


@dataclass(slots=True, eq=False)
class Forwarded:
    """A command on its way to a member: for the member, what a connection is."""

    router: Router
    number: int
    member: Member
    then: Callable[[Document | None], None]
    process: int
    is_closed: bool = False

    @property
    def state(self) -> Forwarded:
        return self

    def reset(self) -> None:
        """The member breaks the connection."""
        self.router.give_up(self)

    def send_reply(self, reply: Document) -> None:
        """The member answers."""
        network = self.router.network
        network.packet(self.member.name, self.router.name, self.router.answered, self, reply, is_lossless=True)


class Router(Node):
    """A router.

    Args:
        address: Its address; its host is its name.
        members: The members behind it.
        network: The network.
        chance: What its randomness comes from.
    """

    def __init__(self, address: Address, members: Sequence[Member], network: Network, chance: Random) -> None:
        super().__init__(address, network, chance)
        self._members = members
        self._transactions = Transactions()
        # The members that its open cursors are on.
        self._cursors: dict[int, Member] = {}
        self._waiting: dict[int, Forwarded] = {}
        self._made = 0
        # What it has last heard of each member: term, and whether it is the primary.
        self._heard: dict[str, tuple[int, bool]] = {}
        # Their processes: when one has ended, its connections have.
        self._known: dict[str, int] = {}

    def boot(self) -> None:
        self._transactions = Transactions()
        self._cursors, self._waiting, self._heard = {}, {}, {}
        self._poll()

    def hello(self) -> Document:
        return {"isWritablePrimary": True, "msg": "isdbgrid"}

    def forget_cursors(self) -> None:
        self._cursors = {}

    # --- the members ---

    def _poll(self) -> None:
        for member in self._members:
            self.network.packet(self.name, member.name, self._ask, member, member.process)
            if member.process != self._known.get(member.name, member.process):
                self._lose(member)
            self._known[member.name] = member.process
        self.later(_POLL, self._poll)

    def _ask(self, member: Member, process: int) -> None:
        if member.is_up and member.process == process:
            heard = member.replica.term, member.replica.is_primary
            self.network.packet(member.name, self.name, self._hear, self.process, member.name, heard)

    def _hear(self, process: int, name: str, heard: tuple[int, bool]) -> None:
        if process == self.process:
            self._heard[name] = heard

    def _lose(self, member: Member) -> None:
        """The process of a member has ended, and its connections with it."""
        for forwarded in [each for each in self._waiting.values() if each.member is member]:
            self.give_up(forwarded)

    def _target(self, command: Document) -> Member | None:
        name = next(iter(command))
        if name in ("getMore", "killCursors"):
            number = command["getMore"] if name == "getMore" else command["cursors"][0]
            if number not in self._cursors:
                raise CommandError(CURSOR_NOT_FOUND, f"cursor id {number} not found")
            return self._cursors[number]
        mode = command.get("$readPreference", {}).get("mode", "primary") if name in _READS else "primary"
        primaries = [member for member in self._members if self._heard.get(member.name, (0, False))[1]]
        primary = max(primaries, key=lambda member: self._heard[member.name][0], default=None)
        if mode not in ("primary", "primaryPreferred") or (mode == "primaryPreferred" and primary is None):
            return self.chance.choice([member for member in self._members if member is not primary])
        return primary

    def _when_there(
        self, command: Document, finish: Callable[[Document], None], then: Callable[[Member], None], until: float
    ) -> None:
        """Find the member that a command is for; a primary may have to be elected first."""
        try:
            member = self._target(command)
            if member is None and self.network.now() > until:
                raise CommandError(133, 'Could not find host matching read preference { mode: "primary" }')
        except CommandError as error:
            finish(error.reply(command))
            return
        if member is None:
            self.later(_POLL / 5, self._when_there, command, finish, then, until)
        else:
            then(member)

    # --- commands ---

    def receive(self, connection: Asker, request_id: int, document: Document, *, is_answered: bool) -> None:
        def finish(reply: Document) -> None:
            self._finish(connection, request_id, next(iter(document)), reply, is_answered=is_answered)

        delay = self.station.admit(self.network.now(), _WORK)
        try:
            if delay is None:
                raise CommandError(OVERLOADED, "the router has too much to do", LABELS)
            if self.failures and self.chance.random() < self.failures:
                raise CommandError(HOST_UNREACHABLE, "the router cannot reach the shard")
            if (refusal := self.refusal()) is not None:
                raise refusal
        except CommandError as error:
            self.later(_WORK, finish, error.reply(document))
        else:
            self.later(delay, self._begin, document, finish)

    def _begin(self, command: Document, finish: Callable[[Document], None]) -> None:
        try:
            must_recover = is_statement(command) and self._transactions.admit(command) == "recover"
        except CommandError as error:
            finish(error.reply(command))
            return
        proceed = self._recover if must_recover else self._pass_on
        until = self.network.now() + min(_PATIENCE, command.get("maxTimeMS", inf) / 1000)
        self._when_there(command, finish, partial(proceed, command, finish), until)

    def _recover(self, command: Document, finish: Callable[[Document], None], member: Member) -> None:
        """Find out how a transaction of another router ended; one that is open is aborted."""
        about = {name: command[name] for name in ("lsid", "txnNumber", "autocommit", "$db")}

        def decide(reply: Document) -> None:
            code = reply.get("code")
            if reply["ok"] or code == NO_SUCH_TRANSACTION:
                error = CommandError(NO_SUCH_TRANSACTION, f"Transaction {command['txnNumber']} has been aborted.")
                finish(error.reply(command))
            elif code == TRANSACTION_COMMITTED:
                self._forward(command, member, finish)
            else:
                finish(CommandError(int(reply["code"]), reply["errmsg"]).reply(command))

        self._forward({"abortTransaction": 1, **about}, member, decide)

    def _pass_on(self, command: Document, finish: Callable[[Document], None], member: Member) -> None:
        def done(reply: Document) -> None:
            self._learn(command, reply, member)
            if reply["ok"] and is_statement(command):
                token = self._transactions.token_after(command)
                reply = {**reply, "recoveryToken": token} if token else reply
            elif "getMore" in command and reply.get("code") == HOST_UNREACHABLE:
                reply = {**reply, "errorLabels": ["ResumableChangeStreamError"]}
            finish(reply)

        self._forward(command, member, done)

    def _learn(self, command: Document, reply: Document, member: Member) -> None:
        cursor = reply.get("cursor", {})
        if cursor.get("id"):
            self._cursors[cursor["id"]] = member
        elif "getMore" in command and reply["ok"]:
            self._cursors.pop(command["getMore"], None)
        if reply.get("code") in _STATE_CHANGES:
            self._heard.pop(member.name, None)

    def _forward(self, command: Document, member: Member, then: Callable[[Document], None]) -> None:
        self._made += 1

        def finish(reply: Document | None) -> None:
            then(self._unreachable(command, member) if reply is None else reply)

        forwarded = self._waiting[self._made] = Forwarded(self, self._made, member, finish, self.process)
        self.network.packet(self.name, member.name, self._arrive, forwarded, command, is_lossless=True)
        patience = _PATIENCE + command.get("maxTimeMS", 0) / 1000
        self.later(patience, self.give_up, forwarded)

    @staticmethod
    def _unreachable(command: Document, member: Member) -> Document:
        return CommandError(HOST_UNREACHABLE, f"Error connecting to {member.name}").reply(command)

    def _arrive(self, forwarded: Forwarded, command: Document) -> None:
        member = forwarded.member
        if member.is_up and not member.is_frozen:
            member.receive(forwarded, forwarded.number, command, is_answered=True)
        else:
            self.give_up(forwarded)

    def answered(self, forwarded: Forwarded, reply: Document | None) -> None:
        """A member has answered, or will not (None)."""
        if self._waiting.pop(forwarded.number, None) is forwarded and forwarded.process == self.process:
            if self.is_frozen:
                self.later(0.0, forwarded.then, reply)
            else:
                forwarded.then(reply)

    def give_up(self, forwarded: Forwarded) -> None:
        """Nothing comes of a command that was passed on."""
        forwarded.is_closed = True
        self.answered(forwarded, None)

    def _finish(self, connection: Asker, request_id: int, name: str, reply: Document, *, is_answered: bool) -> None:
        if not is_answered or connection.state.is_closed:
            return
        if self.loses_reply(name):
            connection.reset()
            return
        self.later(self.slow_replies, self.answer, connection, request_id, reply)
