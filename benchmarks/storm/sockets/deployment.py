"""Net: real servers behind the ingress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.documents import COLLECTION, DATABASE, document
from benchmarks.storm.drivers import DOCUMENTS
from benchmarks.storm.sockets.processes import Ingress
from motorlite._base.values import format_address
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import wait_until

if TYPE_CHECKING:
    from motorlite._base.values import Address


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
