"""Net: a real MongoDB server for tests: attached to, or started here and gone without a trace afterwards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Self

from motorlite import errors
from motorlite.testing import local_commands, local_uri, mongod_arguments
from motorlite.testing.local_commands import Access, Credential
from motorlite.testing.mongod_binary import ServerNotFound
from motorlite.testing.mongod_members import Members
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from motorlite.testing.proxy import FaultProxy
    from motorlite.values import Address, Document

Topology = Literal["standalone", "replicaset"]


class LocalServer:
    """A MongoDB deployment on this machine: a standalone server or a replica set.

    Use it as a context manager, or call `stop`::

        with LocalServer.start(topology="replicaset") as server:
            async with AsyncMongoClient(server.uri) as client:
                ...

    All methods block. No process and no folder is left behind, also when this process is killed. Not for use
    from several threads at once.

    Attributes:
        uri: The connection string, with credentials and TLS files where they are needed.
        addresses: The servers, as pairs of host and port; with `proxied`, those of the proxies.
        proxies: By these addresses, the proxy in front of each server; empty unless `proxied`.
        replica_set: The name of the replica set, or None.
        username: The user of `uri` (with the role root on a server that was started here), or None.
        password: The password of that user, or None.
        ca_file: The certificate authority to trust, or None.
        client_certificate_file: The client's key and certificate in one PEM file, or None.
        started: Whether the servers were started here; False means attached to those of ``MONGODB_URI``.
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
        # Where commands go first; found anew when that server is no longer the primary.
        self._primary = addresses[0]
        hello = self._run({"isMaster": 1}, "admin", self._primary)
        self.replica_set: str | None = hello.get("setName")
        self.version: str = self._run({"buildInfo": 1}, "admin", self._primary)["version"]

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
    ) -> Self:
        """Attach to the deployment that ``MONGODB_URI`` names if that will do, or start one.

        A server is looked for in ``MONGODB_URI``, ``MONGOD`` (the path of a mongod), ``mongod`` on ``PATH``,
        and the wheel that ``motorlite[testing]`` installs. The deployment of ``MONGODB_URI`` will do when
        nothing but its kind is asked for and it is of that kind.

        Args:
            topology: ``"standalone"`` or ``"replicaset"``; None accepts any deployment, and starts a
                standalone.
            nodes: The number of members of the replica set.
            auth: Demand authentication, with one user who may do everything.
            tls: Demand TLS, with certificates made for this server.
            parameters: Server parameters, in addition to those that tests need (``enableTestCommands``).
            own: Start a server even when ``MONGODB_URI`` is set, for tests that set failpoints or kill
                servers.
            proxied: Start a server behind a `FaultProxy`, or a replica set with one in front of each member. Its
                members announce the proxies' addresses, so clients and the other members go through them.

        Raises:
            ServerNotFound: there is no server to be had; the message says what was tried and what to install.
                Or: the address in ``MONGODB_URI`` is not this machine's and ``MOTORLITE_ALLOW_REMOTE=1`` is
                    not set.
            ValueError: the arguments contradict each other.
            RuntimeError: the server ended while it was starting; the message has its last output.
        """
        if topology not in (None, "standalone", "replicaset"):
            raise ValueError(f"topology must be 'standalone' or 'replicaset', not {topology!r}")
        if nodes < 1 or (nodes > 1 and topology != "replicaset"):
            raise ValueError(f"nodes={nodes} is not possible: a standalone has one node, a replica set at least one")
        uri = os.environ.get("MONGODB_URI")
        if uri and not (own or auth or tls or parameters or proxied or nodes > 1):
            attached = cls._attach(uri)
            if topology in (None, attached.topology):
                return attached
        replica_set = mongod_arguments.REPLICA_SET if topology == "replicaset" else None
        members = Members.start(nodes, replica_set, auth=auth, tls=tls, parameters=parameters or {}, proxied=proxied)
        server = cls(_uri_of(members), members.addresses, members.access, members)
        if members.certificates is not None:
            server.ca_file = members.certificates.ca_file
            server.client_certificate_file = members.certificates.client_file
        return server

    @property
    def topology(self) -> Topology:
        """The kind of this deployment."""
        return "standalone" if self.replica_set is None else "replicaset"

    def command(self, document: Mapping[str, Any], database: str = "admin", address: Address | None = None) -> Document:
        """Run one command over a connection of its own, for what a test does beside the driver.

        Args:
            document: The command.
            database: The database to run it on.
            address: The server; None means the primary. A proxy is gone round.

        Returns:
            The reply.

        Raises:
            PyMongoError: the server answered with an error; the class tells which, as in the driver.
            OSError: the server could not be reached or did not answer.
        """
        if address is not None:
            return self._run(document, database, address)
        try:
            return self._run(document, database, self._primary)
        except (errors.NotPrimaryError, ConnectionError):
            if self.replica_set is None:
                raise
        return self._run(document, database, self.wait_for_primary())

    def wait_for_primary(self) -> Address:
        """Wait until the replica set has a primary, and return its address.

        Raises:
            TimeoutError: there was none for a minute.
        """
        local_commands.wait_until(self._found_primary, "a primary")
        return self._primary

    def kill(self, address: Address | None = None) -> None:
        """End one server at once (SIGKILL); None means the first one. Its data stays for `restart`."""
        self._own().kill(address or self.addresses[0])

    def restart(self, address: Address | None = None) -> None:
        """Start a killed server again, on its port and its data, and wait until it can be used."""
        self._own().restart(address or self.addresses[0])

    def freeze(self, address: Address | None = None) -> None:
        """Let one server hang (SIGSTOP): connections stay open, and nothing is answered until `thaw`."""
        self._own().freeze(address or self.addresses[0])

    def thaw(self, address: Address | None = None) -> None:
        """Let a frozen server go on."""
        self._own().thaw(address or self.addresses[0])

    def stop(self) -> None:
        """End the servers and remove their files; does nothing to a deployment that was attached to."""
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
    def _attach(cls, uri: str) -> Self:
        try:
            target = local_uri.read_uri(uri)
        except ValueError as error:
            raise ServerNotFound(str(error)) from error
        hosts = ",".join(map(format_address, target.addresses))
        if not target.is_local and os.environ.get("MOTORLITE_ALLOW_REMOTE") != "1":
            raise ServerNotFound(
                f"MONGODB_URI names {hosts}, which is not a loopback address. "
                "Tests write to that deployment; set MOTORLITE_ALLOW_REMOTE=1 if that is meant.",
            )
        ca_file = target.options.get("tlscafile")
        client_file = target.options.get("tlscertificatekeyfile")
        context = credential = None
        if target.tls:
            context = local_commands.tls_context(ca_file, client_file, verify=target.verifies)
        if target.username is not None and target.password is not None:
            credential = Credential(target.username, target.password, target.source)
        try:
            server = cls(uri, target.addresses, Access(context, credential), None)
        except (OSError, errors.PyMongoError) as error:
            raise ServerNotFound(f"MONGODB_URI names {hosts}, which cannot be used: {error}") from error
        server.ca_file, server.client_certificate_file = ca_file, client_file
        return server

    def _own(self) -> Members:
        if self._members is None:
            raise errors.InvalidOperation("the deployment of MONGODB_URI was not started here; start with own=True")
        return self._members

    def _run(self, document: Mapping[str, Any], database: str, address: Address) -> Document:
        return local_commands.run_command(self._behind(address), document, database, self._access)

    def _behind(self, address: Address) -> Address:
        return address if self._members is None else self._members.behind(address)

    def _found_primary(self) -> bool:
        for address in self.addresses:
            if local_commands.state(self._behind(address), self._access).get("ismaster"):
                self._primary = address
                return True
        return False


def _uri_of(members: Members) -> str:
    credential = members.access.credential
    return mongod_arguments.connection_string(
        members.addresses,
        replica_set=members.replica_set,
        credential=(credential.username, credential.password) if credential else None,
        certificates=members.certificates,
    )
