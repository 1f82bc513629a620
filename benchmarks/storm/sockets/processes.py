"""Net: the processes of servers, ingress and clients, as their parent sees them."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from queue import Empty, Queue
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from benchmarks.documents import COLLECTION, DATABASE, document
from benchmarks.processes import ROOT, end
from benchmarks.storm.drivers import DOCUMENTS
from motorlite._base.values import format_address
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import wait_until
from motorlite.testing.server.mongod_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.load import Record
    from benchmarks.storm.scenario import Scenario
    from motorlite._base.values import Address


ANSWER_SECONDS: Final = 60.0


class ProcessFailedError(Exception):
    """A process ended, reported an error, or did not answer in time."""


class ClientsFailedError(ProcessFailedError):
    """The same of a process with clients: the driver is missing, hangs, or raised an error outside of a request."""


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


class _Child:
    """A process that reads from standard input, and whose output a thread reads into a queue."""

    error: type[ProcessFailedError] = ProcessFailedError

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: BinaryIO = self._process.stdin  # type: ignore[assignment]  # opened in binary mode
        self._messages: Queue[Any] = Queue()
        self._thread = threading.Thread(target=self._read, args=(self._process.stdout,), name=name, daemon=True)
        self._thread.start()

    def _read(self, pipe: Any) -> None:
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        try:
            self._input.write(data)
            self._input.flush()
        except BrokenPipeError:
            raise self.error(f"{self.name} has ended") from None

    def _next(self, seconds: float = ANSWER_SECONDS) -> Any:
        """Return the next message; None: the process has ended.

        Raises:
            ProcessFailedError: There was none in time.
        """
        try:
            return self._messages.get(timeout=seconds)
        except Empty:
            raise self.error(f"{self.name} did not answer within {seconds:.0f} s") from None

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process and wait for it; a second call does nothing."""
        end(self._process, self._thread)


class Ingress(_Child):
    """The ingress in front of some servers. It begins without limits.

    Args:
        targets: The addresses of the servers.

    Attributes:
        addresses: The addresses for clients, in the same order.
    """

    def __init__(self, targets: Sequence[Address], *arguments: str) -> None:
        self.addresses: tuple[Address, ...] = tuple(("127.0.0.1", free_port()) for _ in targets)
        servers: list[str] = []
        for (host, port), target in zip(self.addresses, targets, strict=True):
            servers += ["--server", f"{host}:{port}={target[0]}:{target[1]}"]
        # Called in another thread with the report of each step.
        self.on_step: Callable[[dict[str, Any]], None] | None = None
        super().__init__("the ingress", ["benchmarks.storm.ingress", *servers, *(arguments or ("--unlimited",))])
        self._answer()

    def order(self, order: str, **details: Any) -> Any:
        """Give an order and return the answer (benchmarks/storm/ingress/orders.py).

        Raises:
            ProcessFailedError: The order failed, or the process did.
        """
        self._send(json.dumps({"order": order, **details}).encode() + b"\n")
        return self._answer()

    def _answer(self) -> Any:
        message = self._next()
        if message is None:
            raise ProcessFailedError("the ingress has ended")
        if "error" in message:
            raise ProcessFailedError(f"the ingress: {message['error']}")
        return message["value"]

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            message = json.loads(line)
            if "step" not in message:
                self._messages.put(message)
            elif self.on_step is not None:
                self.on_step(message)
        self._messages.put(None)


class Clients(_Child):
    """The process with the clients of one arm. Messages are Python objects.

    Args:
        arm: The name of the arm.
    """

    error = ClientsFailedError

    def __init__(self, arm: str) -> None:
        super().__init__(f"the process of {arm}", ["benchmarks.storm.sockets.client"])

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            ClientsFailedError: The process has ended.
        """
        self._send(pickle.dumps(message))

    def is_silent(self, seconds: float) -> bool:
        """Wait for a message, which stays. Returns whether there is none in that time."""
        end = monotonic() + seconds
        while self._messages.empty() and monotonic() < end:
            sleep(0.002)
        return self._messages.empty()

    def receive(self, seconds: float = ANSWER_SECONDS) -> Any:
        """Return the next message.

        Raises:
            ClientsFailedError: The process failed, ended, or sent nothing in time.
        """
        message = self._next(seconds)
        if message is None:
            raise self.error(f"{self.name} has ended")
        if isinstance(message, Exception):
            raise self.error(f"{self.name}: {message}") from message
        return message

    def _read(self, pipe: Any) -> None:
        with contextlib.suppress(EOFError):
            while True:
                self._messages.put(pickle.load(pipe))
        self._messages.put(None)


class Deployment:
    """A standalone server, or a replica set whose members announce the addresses of the ingress.

    Args:
        members: The number of servers.

    Attributes:
        ingress: The process between them and all others, members included.
    """

    def __init__(self, members: int) -> None:
        if members == 1:
            self._server = LocalServer.start("standalone", own=True)
        else:
            self._server = LocalServer.start("replicaset", nodes=members, own=True)
        try:
            self.ingress: Ingress = Ingress(self._server.addresses)
        except BaseException:
            self._server.stop()
            raise
        try:
            if members > 1:
                self._announce()
            self._server.command({"dropDatabase": 1}, DATABASE)
            documents = [document(number) for number in range(DOCUMENTS)]
            self._server.command({"insert": COLLECTION, "documents": documents}, DATABASE)
        except BaseException:
            self.close()
            raise

    @property
    def uri(self) -> str:
        """The connection string for clients."""
        hosts = ",".join(map(format_address, self.ingress.addresses))
        replica_set = self._server.replica_set
        return f"mongodb://{hosts}/" + (f"?replicaSet={replica_set}" if replica_set else "")

    @property
    def version(self) -> str:
        """The servers' version."""
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

    def close(self) -> None:
        """End all processes."""
        self.ingress.close()
        self._server.stop()
