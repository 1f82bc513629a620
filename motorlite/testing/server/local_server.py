"""Net: a real MongoDB server for tests: an existing one, or one that is started here and removed afterwards."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from motorlite import errors
from motorlite._base.values import format_address
from motorlite.testing.server import local_commands, local_uri, mongod_arguments
from motorlite.testing.server.local_commands import Access, Credential
from motorlite.testing.server.mongod_binary import ServerNotFound
from motorlite.testing.server.mongod_members import Members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from motorlite._base.values import Address, Document
    from motorlite.testing.proxy import FaultProxy

Topology = Literal["standalone", "replicaset"]
"""What a local server is: one alone, or the members of a replica set."""
Clients = Literal["clients"]
"""All clients, in a partition."""
CLIENTS: Final = "clients"
FAIL_COMMAND: Final = "failCommand"
LAST_PORT: Final = 65_535


class LocalServer:
    """A MongoDB deployment on this machine: a standalone server or a replica set.

    Use it as a context manager, or call `stop`::

        with LocalServer.start(topology="replicaset") as server:
            async with AsyncMongoClient(server.uri) as client:
                ...

    All methods block. No process or folder remains, even if this process is killed. Not for use from several threads at
    once. Methods for one server raise ValueError for an address that is not in `addresses`.

    Attributes:
        uri: The connection string, with credentials and TLS files if required.
        addresses: The servers' addresses as pairs of host and port; with `proxied`, those of their proxies.
        proxies: The proxy in front of each server, by these addresses; empty unless `proxied`.
        replica_set: The name of the replica set, or None.
        username: The user in `uri` (with the role root on a server that was started here), or None.
        password: That user's password, or None.
        ca_file: The certificate authority to trust, or None.
        client_certificate_file: The client's key and certificate in one PEM file, or None.
        started: Whether the servers were started here; False if attached to those of ``MONGODB_URI`` or `uri`.
        version: The server's version, for example ``"6.0.5"``.
    """

    def __init__(self, uri: str, addresses: tuple[Address, ...], access: Access, members: Members | None) -> None:
        self.uri: str = uri
        self.addresses: tuple[Address, ...] = addresses
        self.proxies: Mapping[Address, FaultProxy] = members.proxies if members is not None else {}
        self.started: bool = members is not None
        self.username: str | None = access.credential.username if access.credential else None
        self.password: str | None = access.credential.password if access.credential else None
        self.ca_file: Path | str | None = None
        self.client_certificate_file: Path | str | None = None
        self._access = access
        self._members = members
        # The last known primary; updated when that server is no longer the primary.
        self._primary = addresses[0]
        # The failpoints that `command` has set, for `restore`.
        self._failpoints: set[str] = set()
        timeout = local_commands.ATTACH_SECONDS if members is None else local_commands.TIMEOUT_SECONDS
        with local_commands.CommandConnection(self._behind(self._primary), access, timeout) as connection:
            self.replica_set: str | None = connection.run({"isMaster": 1}, "admin").get("setName")
            self.version: str = connection.run({"buildInfo": 1}, "admin")["version"]

    @classmethod
    def start(
        cls,
        topology: Topology | None = None,
        *,
        nodes: int = 1,
        auth: bool = False,
        tls: bool = False,
        parameters: Mapping[str, Any] | None = None,
        own: bool = False,
        proxied: bool = False,
        disk_mb: int | None = None,
        uri: str | None = None,
        port: int | None = None,
    ) -> Self:
        """Attach to the deployment in ``MONGODB_URI`` if it is suitable, or start one.

        Sources, in order: ``MONGODB_URI``, ``MONGOD`` (the path of a mongod), ``mongod`` on ``PATH``, and the wheel
        that ``motorlite[testing]`` installs. The deployment in ``MONGODB_URI`` is suitable if the arguments request
        only a topology and it has that topology.

        Args:
            topology: ``"standalone"`` or ``"replicaset"``; None accepts any deployment, and starts a
                standalone server.
            nodes: The number of replica set members.
            auth: Require authentication; creates one user with all privileges.
            tls: Require TLS, with certificates made for this server.
            parameters: Server parameters, in addition to those that tests need (``enableTestCommands``).
            own: Start a server even if ``MONGODB_URI`` is set, for tests that set failpoints or kill servers.
            proxied: Start a server behind a `FaultProxy`, or a replica set with one in front of each member. The
                members announce the proxies' addresses, so clients and other members connect through them.
            disk_mb: Start servers whose data are on disks of their own, of this size in MiB and in memory, which
                `fill_disk` fills; an empty member needs about 100. Linux only, and root or user namespaces are needed.
            uri: Attach to this deployment, whatever ``MONGODB_URI`` says. It need not be local. The other arguments
                describe a server to start and cannot be combined with it.
            port: Start a server on this port; further members have the next ones. With `proxied`, these are the ports
                of the proxies. None: any free ports.

        Raises:
            ServerNotFound: no server is available; the message lists the sources tried and the packages to install.
                Or the address in ``MONGODB_URI`` is not local and ``MOTORLITE_ALLOW_REMOTE=1`` is not set.
            ValueError: the arguments contradict each other, or `port` is not possible.
            OSError: `port`, or a port after it that a member needs, is in use or not permitted; the message names it.
                Or the system does not permit the disks of `disk_mb`.
            RuntimeError: the server ended during startup; the message contains its last output.
        """
        if topology not in (None, "standalone", "replicaset"):
            raise ValueError(f"topology must be 'standalone' or 'replicaset', not {topology!r}")
        if nodes < 1 or (nodes > 1 and topology != "replicaset"):
            raise ValueError(f"nodes={nodes} is not possible: a standalone has one node, a replica set at least one")
        if port is not None and not 1 <= port <= LAST_PORT + 1 - nodes:
            raise ValueError(f"port={port} is not possible: ports are from 1 to {LAST_PORT}, and each node needs one")
        if disk_mb is not None and disk_mb < 1:
            raise ValueError(f"disk_mb={disk_mb} is not possible: it is the size of a disk in MiB")
        has_numbers = nodes > 1 or disk_mb is not None or port is not None
        is_plain = not (own or auth or tls or parameters or proxied or has_numbers)
        if uri is not None:
            if topology is not None or not is_plain:
                raise ValueError("uri attaches to a deployment; the other arguments describe one to start")
            return cls._attach(uri, "uri", may_be_remote=True)
        if is_plain and (found := os.environ.get("MONGODB_URI")):
            attached = cls._attach(found, "MONGODB_URI", may_be_remote=os.environ.get("MOTORLITE_ALLOW_REMOTE") == "1")
            if topology in (None, attached.topology):
                return attached
        replica_set = mongod_arguments.REPLICA_SET if topology == "replicaset" else None
        members = Members.start(
            nodes,
            replica_set,
            auth=auth,
            tls=tls,
            parameters=parameters or {},
            proxied=proxied,
            disk_mb=disk_mb,
            port=port,
        )
        server = cls(_uri_of(members), members.addresses, members.access, members)
        if members.certificates is not None:
            server.ca_file = members.certificates.ca_file
            server.client_certificate_file = members.certificates.client_file
        return server

    @property
    def topology(self) -> Topology:
        """The topology of this deployment."""
        return "standalone" if self.replica_set is None else "replicaset"

    def command(
        self,
        document: Mapping[str, Any],
        database: str = "admin",
        address: Address | None = None,
        *,
        timeout: float = local_commands.TIMEOUT_SECONDS,
    ) -> Document:
        """Run one command over a separate connection, independent of the driver under test.

        Args:
            document: The command.
            database: The database to run it on.
            address: The server; None means the primary. The connection bypasses proxies.
            timeout: Seconds to wait for the server, which may be frozen.

        Returns:
            The reply.

        Raises:
            PyMongoError: the server's reply is an error; the class depends on the error, as in the driver.
            OSError: the server could not be reached or did not reply.
        """
        if name := document.get("configureFailPoint"):
            self._failpoints.add(name)
        if address is not None:
            return self._run(document, database, address, timeout)
        try:
            return self._run(document, database, self._primary, timeout)
        except (errors.NotPrimaryError, ConnectionError):
            if self.replica_set is None:
                raise
        return self._run(document, database, self.wait_for_primary(), timeout)

    def wait_for_primary(self) -> Address:
        """Wait until the replica set has a primary, and return its address.

        Raises:
            TimeoutError: no primary was available within a minute.
        """
        local_commands.wait_until(self._found_primary, "a primary")
        return self._primary

    def kill(self, address: Address | None = None) -> None:
        """Kill one server (SIGKILL), by default the first one. Its data remains for `restart`."""
        self._own().kill(address or self.addresses[0])

    def restart(self, address: Address | None = None, *, wait: bool = True) -> None:
        """Restart a killed server on its port and data, and wait until it is usable, unless `wait` is False.

        Raises:
            InvalidOperation: the server still runs.
        """
        self._own().restart(address or self.addresses[0], wait=wait)

    def has_ended(self, address: Address | None = None) -> bool:
        """Whether a server has ended: it was killed, or it gave up, as one with a full disk does."""
        return self._own().has_ended(address or self.addresses[0])

    def log_path(self, address: Address | None = None) -> Path:
        """The file with the output of one server; it is removed with the server."""
        return self._own().log_path(address or self.addresses[0])

    def freeze(self, address: Address | None = None) -> None:
        """Make one server hang (SIGSTOP): connections stay open, and the server replies to nothing until `thaw`."""
        self._own().freeze(address or self.addresses[0])

    def thaw(self, address: Address | None = None) -> None:
        """Resume a frozen server."""
        self._own().thaw(address or self.addresses[0])

    def fill_disk(self, address: Address | None = None) -> None:
        """Fill the disk of one server, which must have been started with `disk_mb`.

        It refuses what needs a new file ("No space left on device"), and ends itself once it cannot write its journal.
        `free_disk` and then, if it `has_ended`, `restart` bring it back.
        """
        processes, disk = self._own().disk(address or self.addresses[0])
        processes.fill(disk)

    def free_disk(self, address: Address | None = None) -> None:
        """Give the disk of one server its free space again; the server itself may have ended."""
        processes, disk = self._own().disk(address or self.addresses[0])
        processes.drain(disk)

    def partition(self, *groups: Iterable[Address | Clients]) -> None:
        """Cut the network between groups of hosts: from now on, nothing passes from one group to another.

        As with a cable that is pulled, connections stay open, and what was sent meanwhile arrives when `heal` mends
        the network. Hosts in no group reach all others. A new partition replaces the old one. (The proxies know members
        by what these send if ``enableTestCommands`` is on, which is the default here.) For example::

            primary, *others = server.addresses
            server.partition([primary, "clients"], others)

        Args:
            *groups: Servers by their addresses; ``"clients"`` are all clients.

        Raises:
            InvalidOperation: the deployment was not started here with ``proxied=True``, or it has TLS, which hides from
                the proxies who connects.
            ValueError: a host is unknown, or in two groups.
        """
        members = self._own()
        if not members.proxies or members.certificates is not None:
            raise errors.InvalidOperation("a partition needs servers started with proxied=True and without tls")
        named = [(host, number) for number, group in enumerate(groups) for host in group]
        sides = dict(named)
        if len(sides) != len(named) or not sides.keys() <= {*self.addresses, CLIENTS}:
            raise ValueError(f"groups must name each host once, out of {CLIENTS!r} and {self.addresses}, not {groups}")
        for address, proxy in members.proxies.items():
            others = [host for host, side in sides.items() if side != sides.get(address, side)]
            proxy.cut_off(
                *(members.behind(host) for host in others if host != CLIENTS),
                clients=CLIENTS in others,
            )

    def heal(self) -> None:
        """End the partition, and all faults of the proxies."""
        self._own().heal()

    def restore(self) -> None:
        """Undo what a test did to the servers, so that the next test can use them.

        Restarts servers that have ended, resumes frozen ones, frees disks, heals proxies, switches off the failpoint
        failCommand and those that `command` has set, and waits until the replica set has a primary that sees all
        members. Data and users remain.

        Raises:
            InvalidOperation: the deployment was not started here.
            TimeoutError: a server was not usable within a minute.
        """
        members = self._own()
        members.revive()
        # A client can set failpoints too; this one is the most usual.
        for name, address in product({*self._failpoints, FAIL_COMMAND}, self.addresses):
            # It is just starting, and has no failpoints; or it was started without `enableTestCommands`.
            with suppress(OSError, errors.OperationFailure):
                self._run({"configureFailPoint": name, "mode": "off"}, "admin", address)
        self._failpoints.clear()
        members.await_all()
        if self.replica_set is not None:
            self.wait_for_primary()
            local_commands.wait_until(self._are_all_healthy, "the primary to see all members")

    def stop(self) -> None:
        """End the servers and remove their files; has no effect on an attached deployment."""
        if self._members is not None:
            self._members.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        hosts = ",".join(map(format_address, self.addresses))
        origin = "started" if self.started else "attached"
        return f"<LocalServer {self.topology} {hosts} version {self.version}, {origin}>"

    @classmethod
    def _attach(cls, uri: str, source: str, *, may_be_remote: bool) -> Self:
        try:
            target = local_uri.read_uri(uri, source)
        except ValueError as error:
            raise ServerNotFound(str(error)) from error
        hosts = ",".join(map(format_address, target.addresses))
        if not target.is_local and not may_be_remote:
            raise ServerNotFound(
                f"{source} names {hosts}, which is not a loopback address. "
                "Tests write to that deployment; set MOTORLITE_ALLOW_REMOTE=1 if that is meant.",
            )
        ca_file = target.options.get("tlscafile")
        client_file = target.options.get("tlscertificatekeyfile")
        context = credential = None
        if target.tls:
            try:
                context = local_commands.tls_context(ca_file, client_file, verify=target.verifies)
            except OSError as error:  # which does not name the file
                files = " or ".join(filter(None, (ca_file, client_file)))
                raise ServerNotFound(f"{source} names {files} for TLS, which cannot be used: {error}") from error
        if target.username is not None and target.password is not None:
            credential = Credential(target.username, target.password, target.source)
        try:
            server = cls(uri, target.addresses, Access(context, credential), None)
        except (OSError, errors.PyMongoError) as error:
            raise ServerNotFound(f"{source} names {hosts}, which cannot be used: {error}") from error
        server.ca_file, server.client_certificate_file = ca_file, client_file
        return server

    def _own(self) -> Members:
        if self._members is None:
            raise errors.InvalidOperation("this deployment was not started here; start with own=True")
        return self._members

    def _run(
        self,
        document: Mapping[str, Any],
        database: str,
        address: Address,
        timeout: float = local_commands.TIMEOUT_SECONDS,
    ) -> Document:
        return local_commands.run_command(self._behind(address), document, database, self._access, timeout)

    def _behind(self, address: Address) -> Address:
        return address if self._members is None else self._members.behind(address)

    def _found_primary(self) -> bool:
        for address in self.addresses:
            if local_commands.state(self._behind(address), self._access).get("ismaster"):
                self._primary = address
                return True
        return False

    def _are_all_healthy(self) -> bool:
        return all(member["health"] == 1 for member in self.command({"replSetGetStatus": 1})["members"])


def _uri_of(members: Members) -> str:
    credential = members.access.credential
    return mongod_arguments.connection_string(
        members.addresses,
        replica_set=members.replica_set,
        credential=(credential.username, credential.password) if credential else None,
        certificates=members.certificates,
    )
