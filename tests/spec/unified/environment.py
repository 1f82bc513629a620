"""A deployment to run tests on, and what is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import quote

from anyio import current_time, sleep

from motorlite._base.values import format_address
from motorlite.errors import OperationFailure
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import CommandConnection
from tests.spec.unified.outcomes import Failed
from tests.spec.unified.schema import version
from tests.support.mongos.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from motorlite._base.values import Address

# The last one is a facade too, which adds the command for bulk writes of a client to the older server.
Topology = Literal["single", "replicaset", "sharded", "load-balanced", "sharded-8.0"]
FACADES: Final = ("sharded", "load-balanced", "sharded-8.0")

# Seconds between two looks at something that has no event.
_LOOK = 0.005
_NAMESPACE_NOT_FOUND = 26
_INTERRUPTED = 11601
# For writes before others that wait for more.
_FIRST = {"writeConcern": {"w": 1}}


class Environment:
    """A deployment, and commands to it beside the driver ("internal MongoClient").

    Those are sent by the test tools' own code, so that a broken driver cannot hide that it is broken.
    """

    def __init__(self, server: LocalServer, topology: Topology, *, has_auth: bool, shares: bool = False) -> None:
        self.server = server
        self._shares = shares
        # A replica set with a facade in front of it.
        is_new = topology == "sharded-8.0"
        self._cluster = Cluster(server, has_bulk_writes=is_new) if topology in FACADES else None
        self._members = len(server.addresses)
        # Kept for all commands to a server that is the only one: connecting takes longer than most of them.
        self._connection: CommandConnection | None = None
        self.topology = topology
        self.has_auth = has_auth
        self.version: tuple[int, ...] = (8, 0, 0) if is_new else version(server.version)
        self.parameters: Mapping[str, Any] = self.command({"getParameter": "*"})

    @classmethod
    def start(cls, topology: Topology, *, has_auth: bool, members: int = 1) -> Self:
        """Start a deployment of this kind; a replica set has so many members."""
        kind: Literal["standalone", "replicaset"] = "standalone" if topology == "single" else "replicaset"
        # Tests of the versioned API want a second version; nothing else sees it.
        server = LocalServer.start(kind, nodes=members, auth=has_auth, own=True, parameters={"acceptApiVersion2": True})
        return cls(server, topology, has_auth=has_auth)

    def facade(self, topology: Topology) -> Environment:
        """A sharded cluster, or one behind a load balancer, that this replica set is behind; it has to stop first."""
        return Environment(self.server, topology, has_auth=self.has_auth, shares=True)

    @property
    def name(self) -> str:
        """For example ``"replicaset+auth"``."""
        return f"{self.topology}+auth" if self.has_auth else self.topology

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._disconnect()
        if not self._shares:
            self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def uri(self, *, is_direct: bool = False, has_many_mongos: bool = False) -> str:
        """The connection string for a client; one that connects directly names no replica set.

        `has_many_mongos` is for clusters, behind a load balancer or not.
        """
        server = self.server
        user = ""
        if server.username is not None and server.password is not None:
            user = f"{quote(server.username, safe='')}:{quote(server.password, safe='')}@"
        if self._cluster is not None and self.topology == "load-balanced":
            return f"mongodb://{user}{format_address(self._cluster.balancers[has_many_mongos])}/?loadBalanced=true"
        if self._cluster is not None:
            hosts = self._cluster.addresses if has_many_mongos else self._cluster.addresses[:1]
            return f"mongodb://{user}{','.join(map(format_address, hosts))}/"
        hosts = list(server.addresses[:1] if is_direct else server.addresses)
        options = f"?replicaSet={server.replica_set}" if server.replica_set and not is_direct else ""
        return f"mongodb://{user}{','.join(map(format_address, hosts))}/{options}"

    # --- beside the driver ---

    def command(self, document: Mapping[str, Any], database: str = "admin") -> Mapping[str, Any]:
        """Run a command and return the reply."""
        if self._members > 1:
            return self.server.command(document, database)
        try:
            if self._connection is None:
                self._connection = CommandConnection(self.server.addresses[0], self.server._access)
            return self._connection.run(document, database)
        except OSError:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def command_mongos(self, address: Address, document: Mapping[str, Any]) -> None:
        """Run an admin command on one mongos of a sharded cluster."""
        assert self._cluster is not None
        self._cluster.command(self._cluster.addresses.index(address), document)

    def set_fail_point(self, document: Mapping[str, Any]) -> None:
        """Set a fail point where a client with a single host meets it: on the primary, or on the first mongos."""
        if self._cluster is None:
            self.command(document)
        else:
            self._cluster.command(0, document)

    def turn_fail_points_off(self, names: Iterable[str]) -> None:
        """Turn fail points off on every server: the primary may be another than it was."""
        if self._cluster is not None:
            self._cluster.turn_fail_points_off()
            names = set(names) - {"failCommand"}
        for name in names:
            off = {"configureFailPoint": name, "mode": "off"}
            if self._members == 1:
                self.command(off)
            else:
                for address in self.server.addresses:
                    self.server.command(off, address=address)

    def check_facade(self) -> None:
        """Check that nothing went wrong in the facade itself.

        Raises:
            ExceptionGroup: something did.
        """
        if self._cluster is not None and self._cluster.failures:
            failures, self._cluster.failures = self._cluster.failures, []
            raise ExceptionGroup("the facade failed", failures)

    def kill_sessions(self) -> None:
        """End all sessions on the server, with what a failed test has left open ("Terminating Open Transactions")."""
        try:
            self.command({"killAllSessions": []})
        except OperationFailure as error:
            if error.code != _INTERRUPTED:  # its own session is among them
                raise

    def wait_for_writes(self) -> None:
        """Return when the server has finished the write commands that it is executing."""
        writing = [{f"command.{name}": {"$exists": True}} for name in ("insert", "update", "delete", "findAndModify")]
        for _ in range(10_000):
            if not self.command({"currentOp": 1, "active": True, "$or": writing})["inprog"]:
                return
        raise TimeoutError("the server does not come to the end of a write")

    def set_up(self, data: Mapping[str, Any]) -> None:
        """Make a collection what one entry of `initialData` says."""
        name, database = data["collectionName"], data["databaseName"]
        # The last command waits for all members, and with it for the earlier ones: any member may be read from.
        written = {"writeConcern": {"w": self._members if self._members > 1 else "majority"}}
        options, documents = data.get("createOptions"), data["documents"]
        commands: list[dict[str, Any]] = []
        if options is not None or not documents:
            commands.append({"create": name, **(options or {}), **_FIRST})
        if documents:
            commands.append({"insert": name, "documents": documents})
        commands[-1] |= written
        self._drop(name, database)
        for command in commands:
            reply = self.command(command, database)
            if "writeErrors" in reply or "writeConcernError" in reply:
                raise RuntimeError(f"the initial data of {database}.{name} could not be written: {reply!r}")

    def _drop(self, name: str, database: str) -> None:
        try:
            self.command({"drop": name, **_FIRST}, database)
        except OperationFailure as error:
            if error.code != _NAMESPACE_NOT_FOUND:
                raise

    def documents(self, database: str, collection: str) -> list[Mapping[str, Any]]:
        """All documents of a collection by `_id`."""
        find = {"find": collection, "sort": {"_id": 1}, "batchSize": 100_000, "readConcern": {"level": "local"}}
        found: list[Mapping[str, Any]] = self.command(find, database)["cursor"]["firstBatch"]
        return found

    def collection_exists(self, database: str, collection: str) -> bool:
        listing = {"listCollections": 1, "filter": {"name": collection}}
        return bool(self.command(listing, database)["cursor"]["firstBatch"])

    def index_exists(self, database: str, collection: str, index: str) -> bool:
        try:
            found = self.command({"listIndexes": collection}, database)["cursor"]["firstBatch"]
        except OperationFailure as error:
            if error.code != _NAMESPACE_NOT_FOUND:
                raise
            return False
        return any(one["name"] == index for one in found)

    # --- waiting ---

    @staticmethod
    async def poll(condition: Callable[[], object], seconds: float, what: str) -> None:
        """Wait until something holds. No cancel scope is used for it: the driver heeds their deadlines.

        Raises:
            Failed: it did not hold in time.
        """
        end = current_time() + seconds
        while not condition():
            if current_time() > end:
                raise Failed(f"waited {seconds:g} s in vain for {what}")
            await sleep(_LOOK)
