"""Net: starts the mongods of a deployment and turns them into a usable standalone server or replica set."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from motorlite import errors
from motorlite._base.values import format_address
from motorlite.testing.proxy import FaultProxy
from motorlite.testing.server import local_commands, mongod_arguments, mongod_binary
from motorlite.testing.server.certificates import make_certificates
from motorlite.testing.server.local_commands import Access, Credential
from motorlite.testing.server.mongod_processes import PortUnavailable, Processes, check_port, free_port

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from motorlite._base.values import Address
    from motorlite.testing.server.certificates import Certificates

HOST: Final = "127.0.0.1"
# Every character after the first word must be escaped in a URI.
CREDENTIAL: Final = Credential("motorlite", "password/@:%")
# A free port may, rarely, be taken between its choice and its use.
START_ATTEMPTS: Final = 3
PORT_TAKEN: Final = "Address already in use"


class Members:
    """The running mongods of one deployment.

    Attributes:
        addresses: The addresses that clients and other members use: those of the mongods, or those of their proxies.
        proxies: The proxies in front of the mongods, by these addresses; empty without proxies.
        replica_set: The name of the replica set, or None for a standalone server.
        certificates: The TLS files, or None.
        access: TLS and credentials for commands to the mongods.
    """

    def __init__(
        self,
        ports: Sequence[int],
        replica_set: str | None,
        auth: bool,
        tls: bool,
        parameters: Mapping[str, Any],
        proxied: bool,
        disk_mb: int | None,
    ) -> None:
        mongod = mongod_binary.find().path
        self._processes = Processes()
        self.proxies: dict[Address, FaultProxy] = {}
        try:
            folder = self._processes.folder
            self.replica_set: str | None = replica_set
            self.certificates: Certificates | None = make_certificates(folder) if tls else None
            self.access: Access = Access(_client_context(self.certificates))
            key_file = _make_key_file(folder) if auth and replica_set else None
            self._command_lines: dict[Address, list[str]] = {}
            # The folders that are disks of their own.
            self._disks: dict[Address, Path] = {}
            for announced in ports:
                address: Address = (HOST, announced)
                port = announced
                if proxied:
                    port = free_port()
                    self.proxies[address] = FaultProxy((HOST, port), port=announced)
                data = folder / str(port)
                data.mkdir()
                if disk_mb is not None:
                    self._processes.mount(data, disk_mb)
                    self._disks[address] = data
                self._command_lines[address] = mongod_arguments.command_line(
                    mongod,
                    data,
                    port,
                    replica_set=replica_set,
                    key_file=key_file,
                    auth=auth,
                    certificates=self.certificates,
                    parameters=parameters,
                )
            self.addresses: tuple[Address, ...] = tuple(self._command_lines)
            self._make_ready(auth)
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(
        cls,
        nodes: int,
        replica_set: str | None,
        *,
        auth: bool,
        tls: bool,
        parameters: Mapping[str, Any],
        proxied: bool,
        disk_mb: int | None = None,
        port: int | None = None,
    ) -> Members:
        """Start the mongods; choose other ports if another process took one first.

        Args:
            disk_mb: The size of a disk of its own for each member, in MiB; None: they share the disk of their folder.
            port: The first member's port, and that of its proxy if it has one; the others have the next ones.

        Raises:
            ServerNotFound: there is no mongod to start.
            PortUnavailable: one of the ports from `port` on cannot be used.
            RuntimeError: a mongod ended during startup.
        """

        def start(ports: Sequence[int]) -> Members:
            return cls(ports, replica_set, auth, tls, parameters, proxied, disk_mb)

        if port is not None:
            return _on_ports(range(port, port + nodes), start)
        for _ in range(START_ATTEMPTS - 1):
            try:
                return start(_free_ports(nodes))
            except RuntimeError as error:
                if PORT_TAKEN not in str(error):
                    raise
        return start(_free_ports(nodes))

    def restart(self, address: Address, *, wait: bool) -> None:
        """Restart a killed mongod on its port and data, and wait until it is usable."""
        if not self.has_ended(address):
            # A second one would end at once, and take the handle that ends the first one.
            raise errors.InvalidOperation(f"the server at {format_address(address)} still runs; kill it first")
        self._start(address)
        if wait:
            self._await_answer(address)
            self._await_member(address)

    def kill(self, address: Address) -> None:
        """Kill a mongod (SIGKILL)."""
        self._processes.kill(self._key(address))

    def freeze(self, address: Address) -> None:
        """Stop a mongod (SIGSTOP)."""
        self._processes.freeze(self._key(address))

    def thaw(self, address: Address) -> None:
        """Continue a mongod (SIGCONT)."""
        self._processes.thaw(self._key(address))

    def has_ended(self, address: Address) -> bool:
        """Whether a mongod has ended, by itself or by `kill`."""
        return self._processes.has_ended(self._key(address))

    def log_path(self, address: Address) -> Path:
        """The file with the output of a mongod."""
        return self._processes.log_path(self._key(address))

    def disk(self, address: Address) -> tuple[Processes, Path]:
        """The disk of a member of its own, and who can fill it.

        Raises:
            InvalidOperation: it has none.
        """
        if not self._disks:
            raise errors.InvalidOperation("the servers have no disks of their own; start with disk_mb")
        return self._processes, self._disks[self._known(address)]

    def heal(self) -> None:
        """End all faults of the proxies."""
        for proxy in self.proxies.values():
            proxy.heal()
            proxy.harms = "all"

    def revive(self) -> None:
        """Heal proxies, drain disks, start mongods that have ended, and resume frozen ones."""
        self.heal()
        for disk in self._disks.values():
            self._processes.drain(disk)
        for address in self.addresses:
            if self.has_ended(address):
                self._start(address)
            else:
                self.thaw(address)

    def await_all(self) -> None:
        """Wait until all mongods are usable."""
        for address in self.addresses:
            self._await_answer(address)
            self._await_member(address)

    def close(self) -> None:
        """End all mongods and remove their files."""
        for proxy in self.proxies.values():
            proxy.close()
        self._processes.close()

    def behind(self, address: Address) -> Address:
        """The mongod's own address, not that of its proxy."""
        proxy = self.proxies.get(address)
        return address if proxy is None else proxy.target

    def _start(self, address: Address) -> None:
        self._processes.start(self._key(address), self._command_lines[address])

    def _make_ready(self, auth: bool) -> None:
        first = self.behind(self.addresses[0])
        for address in self.addresses:
            self._start(address)
        for address in self.addresses:
            self._await_answer(address)
        if self.replica_set is not None:
            configuration = mongod_arguments.replica_set_configuration(self.replica_set, self.addresses)
            local_commands.run_command(first, {"replSetInitiate": configuration}, "admin", self.access)
            local_commands.wait_until(self._has_primary, "the first election")
        if auth:
            # Allowed from this machine without authentication as long as no user exists.
            user: dict[str, Any] = {
                "createUser": CREDENTIAL.username,
                "pwd": CREDENTIAL.password,
                "roles": ["root"],
            }
            user["writeConcern"] = {"w": len(self.addresses)}
            local_commands.run_command(first, user, "admin", self.access)
            self.access = Access(self.access.tls, CREDENTIAL)
        self.await_all()

    def _key(self, address: Address) -> str:
        return str(self.behind(self._known(address))[1])

    def _known(self, address: Address) -> Address:
        # The supervisor does not survive an unknown key, and no mongod survives the supervisor.
        if address not in self.addresses:
            raise ValueError(f"no server has the address {address!r}; they have {self.addresses}")
        return address

    def _has_primary(self) -> bool:
        return bool(local_commands.state(self.behind(self.addresses[0]), self.access).get("ismaster"))

    def _await_answer(self, address: Address) -> None:
        key = self._key(address)

        def answers() -> bool:
            if self._processes.has_ended(key):
                raise RuntimeError(f"mongod ended while it was starting:\n{self._processes.log_tail(key)}")
            return bool(local_commands.state(self.behind(address), self.access))

        local_commands.wait_until(answers, f"the mongod on port {address[1]} to answer")

    def _await_member(self, address: Address) -> None:
        def is_member() -> bool:
            hello = local_commands.state(self.behind(address), self.access)
            return bool(hello.get("ismaster") or hello.get("secondary"))

        local_commands.wait_until(is_member, f"port {address[1]} to be a primary or a secondary")


def _free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def _on_ports(ports: Sequence[int], start: Callable[[Sequence[int]], Members]) -> Members:
    """Start on these ports and no others."""
    for port in ports:
        check_port(port)
    try:
        return start(ports)
    except RuntimeError as error:
        if PORT_TAKEN not in str(error):
            raise
        names = " or ".join(map(str, ports))
        raise PortUnavailable(f"port {names} of {HOST} was taken while the server started") from error


def _client_context(certificates: Certificates | None) -> ssl.SSLContext | None:
    if certificates is None:
        return None
    return local_commands.tls_context(certificates.ca_file, certificates.client_file)


def _make_key_file(folder: Path) -> Path:
    """Create the key file with which replica set members authenticate to each other."""
    path = folder / "keyfile"
    path.touch(mode=0o600)
    path.write_bytes(b64encode(os.urandom(96)))
    return path
