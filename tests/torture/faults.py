"""Net: makes the faults of a plan happen to a replica set and its load, and ends them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from motorlite._base.values import format_address
from motorlite.errors import PyMongoError
from motorlite.testing import failpoints
from motorlite.testing.server.local_commands import wait_until
from motorlite.testing.server.local_server import CLIENTS
from tests.torture.plan import MEMBERS, PRIMARY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from motorlite._base.values import Address, Document
    from motorlite.testing import FaultProxy, LocalServer
    from motorlite.testing.server.local_server import Clients
    from tests.torture.plan import Fault

    Act: TypeAlias = Callable[["Injector", Fault], None]

# The load's name: failpoints spare the commands of members and of this process.
APP_NAME: Final = "torture"
# Seconds until a member that does not answer counts as frozen or dead.
PATIENCE: Final = 1.0
# Seconds until a majority of the members has taken a new configuration.
AGREEMENT: Final = 5.0
REAUTHENTICATION_REQUIRED: Final = 391
# In lines of errors and fatal errors of a mongod's log, how many of the last of them are shown, and how much of each.
SERIOUS: Final = ('"s":"E"', '"s":"F"')
LAST, LONGEST = 6, 1000


class Victim(Protocol):
    """The process of the load."""

    def order(self, **order: Any) -> None:
        """Send it an order."""

    def kill(self) -> None:
        """End it with SIGKILL."""

    def start(self) -> None:
        """Start it again."""


class Injector:
    """Begins and ends faults.

    Attributes:
        injected: How often each kind of fault happened.
        missed: How often it could not, because of another fault: there was no primary to step down, for example.
        deaths: What members wrote before they ended by themselves.
    """

    def __init__(self, server: LocalServer, load: Victim) -> None:
        self.injected: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.deaths: list[str] = []
        self._server = server
        self._load = load
        self._primary = server.wait_for_primary()
        # Members that are not to run now.
        self._down: set[Address] = set()
        # The member that a fault has chosen.
        self._chosen: dict[Fault, Address] = {}
        # The fault that loses replies now.
        self._losing: Fault | None = None
        self._configuration: Document = server.command({"replSetGetConfig": 1})["config"]

    def begin(self, fault: Fault) -> None:
        """Make a fault happen."""
        member = fault.details.get("member")
        if member is not None:
            self._chosen[fault] = self._roles()[member]
        try:
            self.acts[fault.kind][0](self, fault)
        except (OSError, PyMongoError):
            self.missed[fault.kind] += 1
        else:
            self.injected[fault.kind] += 1

    def end(self, fault: Fault) -> None:
        """End it."""
        act = self.acts[fault.kind][1]
        if act is not None:
            act(self, fault)
        self._chosen.pop(fault, None)

    def watch(self) -> None:
        """Start members that have ended by themselves."""
        for address in self._server.addresses:
            if address not in self._down and self._server.has_ended(address):
                self.deaths.append(f"the member on port {address[1]} ended by itself: {self._last_words(address)}")
                self._server.restart(address, wait=False)

    def repair(self) -> None:
        """End everything, and wait until all members are back with their first configuration."""
        self._down.clear()
        self._server.restore()
        wait_until(self._is_configured, "the members to take their first configuration")

    # --- members ---

    def _roles(self) -> dict[str, Address]:
        """Who is who now, as far as the members answer."""
        for address in self._server.addresses:
            if self._says(address).get("ismaster"):
                self._primary = address
        others = [address for address in self._server.addresses if address != self._primary]
        return dict(zip(MEMBERS, (self._primary, *others), strict=True))

    def _says(self, address: Address) -> Document:
        try:
            return self._server.command({"isMaster": 1}, address=address, timeout=PATIENCE)
        except (OSError, PyMongoError):
            return {}

    def _last_words(self, address: Address) -> str:
        """The last errors in a member's log."""
        lines = self._server.log_path(address).read_text(errors="replace").splitlines()
        return "\n".join([line[:LONGEST] for line in lines if any(each in line for each in SERIOUS)][-LAST:])

    def _command(self, document: Mapping[str, Any], address: Address) -> Document:
        return self._server.command(document, address=address, timeout=PATIENCE)

    def _kill(self, fault: Fault) -> None:
        self._down.add(self._chosen[fault])
        self._server.kill(self._chosen[fault])

    def _restart(self, fault: Fault) -> None:
        self._down.discard(self._chosen[fault])
        self._server.restart(self._chosen[fault], wait=False)

    def _freeze(self, fault: Fault) -> None:
        self._server.freeze(self._chosen[fault])

    def _thaw(self, fault: Fault) -> None:
        self._server.thaw(self._chosen[fault])

    def _fill(self, fault: Fault) -> None:
        self._down.add(self._chosen[fault])
        self._server.fill_disk(self._chosen[fault])

    def _drain(self, fault: Fault) -> None:
        address = self._chosen[fault]
        self._down.discard(address)
        self._server.free_disk(address)
        if self._server.has_ended(address):
            self.injected["full disk ended a member"] += 1
            self._server.restart(address, wait=False)

    # --- the network ---

    def _partition(self, fault: Fault) -> None:
        roles = self._roles()
        groups: list[list[Address | Clients]] = [
            [CLIENTS if host == CLIENTS else roles[host] for host in group] for group in fault.details["groups"]
        ]
        self._server.partition(*groups)

    def _proxy(self, fault: Fault) -> FaultProxy:
        proxy = self._server.proxies[self._chosen[fault]]
        proxy.harms = fault.details.get("harms", CLIENTS)
        return proxy

    def _delay(self, fault: Fault) -> None:
        self._proxy(fault).delay(fault.details["seconds"])

    def _limit(self, fault: Fault) -> None:
        self._proxy(fault).limit(fault.details["bytes_per_second"])

    def _reset(self, fault: Fault) -> None:
        self._proxy(fault).reset()

    def _hang_up(self, fault: Fault) -> None:
        self._proxy(fault).hang_up()

    def _refuse(self, fault: Fault) -> None:
        self._proxy(fault).refuse()

    def _swallow(self, fault: Fault) -> None:
        self._proxy(fault).black_hole(fault.details["towards"])

    def _cut(self, fault: Fault) -> None:
        self._proxy(fault).cut_after(fault.details["count"], fault.details["towards"])

    def _lose_replies(self, fault: Fault) -> None:
        self._losing = fault
        # On all members: the primary may change meanwhile.
        for proxy in self._server.proxies.values():
            proxy.lose_replies(*fault.details["commands"], times=fault.details["times"])

    def _lose_no_replies(self, _fault: Fault) -> None:
        self._losing = None
        for proxy in self._server.proxies.values():
            proxy.lose_replies()
        self.injected["replies lost"] = sum(proxy.counts.lost_replies for proxy in self._server.proxies.values())

    def _mend(self, _fault: Fault) -> None:
        self._server.heal()
        for proxy in self._server.proxies.values():
            proxy.harms = "all"
        if self._losing is not None:  # healed too, but not over yet
            self._lose_replies(self._losing)

    # --- answers ---

    def _step_down(self, fault: Fault) -> None:
        seconds = fault.details["seconds"]
        order = {"replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 0, "force": True}
        self._command(order, self._roles()[PRIMARY])

    def _abort_transactions(self, fault: Fault) -> None:
        """As an operator does, or the server after a while: also those that are just about to be committed."""
        primary = self._roles()[PRIMARY]
        for _ in range(fault.details["times"]):
            self._command({"killAllSessions": []}, primary)

    def _reconfigure(self, fault: Fault) -> None:
        members: list[Document] = []
        without_vote = self._roles().get(fault.details["without_vote"])
        for old, priority in zip(self._configuration["members"], fault.details["priorities"], strict=True):
            has_vote = without_vote is None or old["host"] != format_address(without_vote)
            members.append({**old, "priority": priority if has_vote else 0, "votes": int(has_vote)})
        self._configure(members)

    def _configure_again(self, _fault: Fault) -> None:
        if not self._is_configured():
            self.missed["end of reconfigure"] += 1  # `repair` does it

    def _is_configured(self) -> bool:
        try:
            self._configure(self._configuration["members"])
        except (OSError, PyMongoError):
            return False
        return True

    def _configure(self, members: Sequence[Mapping[str, Any]]) -> None:
        primary = self._roles()[PRIMARY]
        now = self._command({"replSetGetConfig": 1}, primary)["config"]
        order = {"replSetReconfig": {**now, "version": now["version"] + 1, "members": members}}
        self._server.command(order, address=primary, timeout=AGREEMENT)

    def _overload(self, fault: Fault) -> None:
        roles = self._roles()
        for member in fault.details["members"]:
            self._command(failpoints.overload(fault.details["probability"], app_name=APP_NAME), roles[member])

    def _fail(self, fault: Fault, **effect: Any) -> None:
        document = failpoints.fail_command(
            failpoints.ORDINARY_COMMANDS, probability=fault.details["probability"], app_name=APP_NAME, **effect
        )
        for address in self._server.addresses:
            self._command(document, address)

    def _refuse_commands(self, fault: Fault) -> None:
        self._fail(fault, error_code=fault.details["code"])

    def _ask_for_authentication(self, fault: Fault) -> None:
        self._fail(fault, error_code=REAUTHENTICATION_REQUIRED)

    def _lose_commands(self, fault: Fault) -> None:
        self._fail(fault, close_connection=True)

    def _doubt_write_concern(self, fault: Fault) -> None:
        self._fail(fault, write_concern_error={"code": fault.details["code"], "errmsg": "unsure"})

    def _slow_down(self, fault: Fault) -> None:
        self._fail(fault, block_ms=fault.details["block_ms"])

    def _succeed(self, fault: Fault) -> None:
        for address in self._server.addresses:
            try:
                self._command(failpoints.off(), address)
            except (OSError, PyMongoError):
                self.missed[f"end of {fault.kind}"] += 1  # it goes on, until the next one or `repair`

    # --- the client ---

    def _cancel(self, fault: Fault) -> None:
        self._load.order(order="cancel", per_second=fault.details["per_second"])

    def _cancel_no_more(self, _fault: Fault) -> None:
        self._load.order(order="cancel", per_second=0)

    def _kill_load(self, _fault: Fault) -> None:
        self._load.kill()

    def _start_load(self, _fault: Fault) -> None:
        self._load.start()

    # What begins each kind, and what ends it, unless that is over at once.
    acts: Final[dict[str, tuple[Act, Act | None]]] = {
        "kill": (_kill, _restart),
        "freeze": (_freeze, _thaw),
        "full disk": (_fill, _drain),
        "partition": (_partition, _mend),
        "delay": (_delay, _mend),
        "limit": (_limit, _mend),
        "reset": (_reset, _mend),
        "hang up": (_hang_up, _mend),
        "refuse": (_refuse, _mend),
        "black hole": (_swallow, _mend),
        "cut in a frame": (_cut, _mend),
        "lose replies": (_lose_replies, _lose_no_replies),
        "step down": (_step_down, None),
        "abort transactions": (_abort_transactions, None),
        "reconfigure": (_reconfigure, _configure_again),
        "overload": (_overload, _succeed),
        "refuse commands": (_refuse_commands, _succeed),
        "lose commands": (_lose_commands, _succeed),
        "unsure write concern": (_doubt_write_concern, _succeed),
        "slow": (_slow_down, _succeed),
        "ask for authentication again": (_ask_for_authentication, _succeed),
        "cancel": (_cancel, _cancel_no_more),
        "kill the load": (_kill_load, _start_load),
    }
