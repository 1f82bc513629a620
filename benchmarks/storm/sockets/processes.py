"""Net: the processes of servers, ingress and clients, as their parent sees them."""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from benchmarks.documents import COLLECTION, DATABASE, document
from benchmarks.processes import Child, ChildFailedError
from benchmarks.storm.drivers import DOCUMENTS
from motorlite._base.values import format_address
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import wait_until
from motorlite.testing.server.mongod_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.load import Record
    from benchmarks.storm.scenario import Scenario
    from motorlite._base.values import Address


ANSWER_SECONDS: Final = 60.0


class ClientsFailedError(ChildFailedError):
    """A process with clients failed: the driver is missing, hangs, or raised an error outside of a request."""


@dataclass(frozen=True, slots=True)
class Task:
    """A run to do."""

    scenario: Scenario
    arm: Arm
    seed: int
    uri: str


@dataclass(frozen=True, slots=True)
class Done:
    """What became of it."""

    record: Record
    cpu_seconds: float
    versions: dict[str, str]
    surprises: dict[str, int]


class Ingress(Child):
    """The ingress in front of some servers, by their addresses; those for clients are `addresses`, in the same order.

    It begins without limits.
    """

    def __init__(self, targets: Sequence[Address]) -> None:
        self.addresses: tuple[Address, ...] = tuple(("127.0.0.1", free_port()) for _ in targets)
        pairs = zip(self.addresses, targets, strict=True)
        servers = [word for pair in pairs for word in ("--server", "=".join(map(format_address, pair)))]
        # Called in another thread with the report of each step.
        self.on_step: Callable[[dict[str, Any]], None] | None = None
        super().__init__("the ingress", "benchmarks.storm.ingress", *servers, "--unlimited")
        self.receive(ANSWER_SECONDS)  # "ready"

    def order(self, order: str, **details: Any) -> Any:
        """Give an order and return the answer (benchmarks/storm/ingress/orders.py).

        Raises:
            ChildFailedError: The order failed, or the process did.
        """
        self.send({"order": order, **details})
        return self.receive(ANSWER_SECONDS)["value"]

    def messages(self, pipe: Any) -> Iterator[Any]:
        for message in super().messages(pipe):
            if "step" not in message:
                yield message
            elif self.on_step is not None:
                self.on_step(message)


class Clients(Child):
    """The process with the clients of one arm. Messages are Python objects."""

    error = ClientsFailedError

    def __init__(self, arm: str) -> None:
        super().__init__(f"the process of {arm}", "benchmarks.storm.sockets.client")

    def is_silent(self, seconds: float) -> bool:
        """Wait for a message, which stays. Returns whether there is none in that time."""
        end = monotonic() + seconds
        while self._messages.empty() and monotonic() < end:
            sleep(0.002)
        return self._messages.empty()

    def encode(self, message: Any) -> bytes:
        return pickle.dumps(message)

    def messages(self, pipe: Any) -> Iterator[Any]:
        with contextlib.suppress(EOFError):
            while True:
                yield pickle.load(pipe)


class Deployment:
    """A standalone server, or a replica set whose members announce the addresses of the ingress.

    The ingress is between them and all others, members included.
    """

    def __init__(self, members: int) -> None:
        if members == 1:
            self._server = LocalServer.start("standalone", own=True)
        else:
            self._server = LocalServer.start("replicaset", nodes=members, own=True)
        with contextlib.ExitStack() as stack:
            stack.callback(self._server.stop)
            self.ingress: Ingress = stack.enter_context(Ingress(self._server.addresses))
            if members > 1:
                self._announce()
            self._server.command({"dropDatabase": 1}, DATABASE)
            documents = [document(number) for number in range(DOCUMENTS)]
            self._server.command({"insert": COLLECTION, "documents": documents}, DATABASE)
            # Ends all processes, last the servers.
            self.close = stack.pop_all().close

    @property
    def uri(self) -> str:
        hosts = ",".join(map(format_address, self.ingress.addresses))
        replica_set = self._server.replica_set
        return f"mongodb://{hosts}/" + (f"?replicaSet={replica_set}" if replica_set else "")

    @property
    def version(self) -> str:
        return self._server.version

    def cpu_seconds(self) -> float:
        """The CPU time of all servers so far, user and system."""
        total = 0
        for address in self._server.addresses:
            found = self._server.command({"serverStatus": 1}, address=address)["extra_info"]
            total += found["user_time_us"] + found["system_time_us"]
        return total / 1e6

    def restore(self) -> None:
        """Lift all limits, and make the first member the primary again. A run may have failed before its end."""
        for order in ("end", "release", "reset"):
            self.ingress.order(order)
        if self._server.replica_set is None:
            return
        first = self._server.addresses[0]
        wait_until(lambda: self._is_primary(first), "the first member to become the primary again")

    def _is_primary(self, address: Address) -> bool:
        try:
            if self._server.command({"hello": 1}, address=address).get("isWritablePrimary"):
                return True
            self._server.command({"replSetStepUp": 1}, address=address)
        except (OSError, PyMongoError):
            pass  # it has not caught up yet
        return False

    def _announce(self) -> None:
        """Let the members know each other, and clients them, by the addresses of the ingress."""
        self._server.wait_for_primary()
        configuration: dict[str, Any] = self._server.command({"replSetGetConfig": 1})["config"]
        for member, address in zip(configuration["members"], self.ingress.addresses, strict=True):
            member["host"] = format_address(address)
        configuration["version"] += 1
        configuration.pop("term", None)
        self._server.command({"replSetReconfig": configuration, "force": True})
        self._server.wait_for_primary()
