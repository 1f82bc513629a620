"""What `LocalServer` does with the servers that it has started; processes and connections are made up."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import InvalidOperation, NotPrimaryError
from motorlite.testing import LocalServer
from motorlite.testing.server import local_commands, mongod_binary, mongod_members
from motorlite.testing.server.mongod_members import CREDENTIAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._base.values import Address, Document
    from motorlite.testing.server.local_commands import Access


class Machine:
    """Processes, proxies and what the servers answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # "up", "frozen" or "ended", by the port of the server.
        self.states: dict[str, str] = {}
        self.disks: dict[Path, str] = {}
        self.is_closed = False
        self.members: list[str] = []
        # The commands that a test looks at, with the port that they went to.
        self.seen: list[tuple[str, Mapping[str, Any]]] = []
        self.credentials: list[object] = []
        self.looks_until_healthy = 0

    # --- in the place of Processes ---

    def start(self, key: str, _arguments: list[str]) -> None:
        self.states[key] = "up"

    def kill(self, key: str) -> None:
        self.states[key] = "ended"

    def freeze(self, key: str) -> None:
        self.states[key] = "frozen"

    def thaw(self, key: str) -> None:
        self.states[key] = "up"

    def has_ended(self, key: str) -> bool:
        return self.states[key] == "ended"

    def log_path(self, key: str) -> Path:
        return self.folder / f"{key}.log"

    def mount(self, folder: Path, megabytes: int) -> None:
        self.disks[folder] = f"{megabytes} MiB"

    def fill(self, folder: Path) -> None:
        self.disks[folder] = "full"

    def drain(self, folder: Path) -> None:
        self.disks[folder] = "drained"

    def close(self) -> None:
        self.is_closed = True

    # --- in the place of CommandConnection ---

    @contextmanager
    def connection(self, address: Address, access: Access, _timeout: float) -> Iterator[SimpleNamespace]:
        key = str(address[1])
        if self.states.get(key) == "frozen":
            raise TimeoutError("no reply")
        if self.states.get(key) != "up":
            raise ConnectionRefusedError(f"nothing listens on {key}")
        self.credentials.append(access.credential)
        yield SimpleNamespace(run=lambda document, database: self.run(key, document))

    @property
    def primary(self) -> str | None:
        """The first member that is up."""
        return next((key for key in self.states if self.states[key] == "up"), None)

    def run(self, key: str, document: Mapping[str, Any]) -> Document:
        name = next(iter(document))
        if name != "isMaster":
            self.seen.append((key, document))
        if name == "replSetInitiate":
            self.members = [member["host"] for member in document[name]["members"]]
        is_primary = not self.members or key == self.primary
        if name == "isMaster":
            found = {"ismaster": is_primary, "secondary": not is_primary}
            return {**found, **({"setName": "rs0"} if self.members else {})}
        if name == "insert" and not is_primary:
            raise NotPrimaryError("not primary")
        if name == "replSetGetStatus":
            self.looks_until_healthy -= 1
            return {"members": [{"health": float(self.looks_until_healthy < 0)}]}
        return {"ok": 1.0, "version": "7.0.1"}

    def commands(self, name: str) -> list[tuple[str, Mapping[str, Any]]]:
        return [(key, document) for key, document in self.seen if name in document]


class Proxy:
    """Knows what it was told."""

    def __init__(self, target: Address, port: int) -> None:
        self.target = target
        self.port = port
        self.harms = "all"
        self.cut: tuple[set[Address], bool] | None = None
        self.is_closed = False

    def cut_off(self, *hosts: Address, clients: bool) -> None:
        self.cut = (set(hosts), clients)

    def heal(self) -> None:
        self.cut = None

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(mongod_members, "Processes", lambda: made)
    monkeypatch.setattr(mongod_members, "FaultProxy", Proxy)
    monkeypatch.setattr(mongod_binary, "find", lambda: SimpleNamespace(path=Path("/opt/mongod")))
    monkeypatch.setattr(local_commands, "CommandConnection", made.connection)
    monkeypatch.setattr(local_commands, "LOOK_SECONDS", 0.0)
    monkeypatch.delenv("MONGODB_URI", raising=False)
    return made


def test_a_standalone_server(machine: Machine) -> None:
    with LocalServer.start() as server:
        ((_, port),) = server.addresses
        assert (server.topology, server.started, server.version) == ("standalone", True, "7.0.1")
        assert server.uri == f"mongodb://127.0.0.1:{port}/"
        assert repr(server) == f"<LocalServer standalone 127.0.0.1:{port} version 7.0.1, started>"
        assert server.log_path() == machine.folder / f"{port}.log"
        assert server.wait_for_primary() == ("127.0.0.1", port)
        server.kill()
        assert server.has_ended()
        with pytest.raises(ConnectionRefusedError):
            server.command({"ping": 1})
        server.restart()
        assert not server.has_ended()
        server.freeze()
        with pytest.raises(TimeoutError):
            server.command({"ping": 1})
        server.thaw()
        assert server.command({"ping": 1})["ok"] == 1.0
    assert machine.is_closed


@pytest.mark.parametrize(
    "method", ["kill", "restart", "freeze", "thaw", "has_ended", "log_path", "fill_disk", "free_disk"]
)
def test_an_address_that_no_server_has_harms_none(machine: Machine, method: str) -> None:
    with LocalServer.start(disk_mb=128) as server:
        wrong = ("localhost", server.addresses[0][1])
        with pytest.raises(ValueError, match=r"no server has the address \('localhost'"):
            getattr(server, method)(wrong)
        assert not server.has_ended()


def test_a_server_that_runs_is_not_started_again(machine: Machine) -> None:
    with LocalServer.start() as server:
        server.freeze()
        with pytest.raises(InvalidOperation, match=r"127.0.0.1:[0-9]+ still runs; kill it first"):
            server.restart()
        assert list(machine.states.values()) == ["frozen"]


def test_a_server_that_is_not_waited_for(machine: Machine) -> None:
    with LocalServer.start() as server:
        server.kill()
        server.restart(wait=False)
        assert not server.has_ended()


def test_a_replica_set_with_a_user(machine: Machine) -> None:
    with LocalServer.start("replicaset", nodes=2, auth=True) as server:
        assert server.replica_set == "rs0"
        assert machine.members == [f"127.0.0.1:{port}" for _, port in server.addresses]
        ((_, user),) = machine.commands("createUser")
        assert user["writeConcern"] == {"w": 2}
        assert (server.username, server.password) == (CREDENTIAL.username, CREDENTIAL.password)
        assert "motorlite:password%2F%40%3A%25@" in server.uri
        assert machine.credentials[-1] == CREDENTIAL
        assert (machine.folder / "keyfile").stat().st_mode & 0o077 == 0


def test_a_command_goes_to_the_primary_of_the_moment(machine: Machine) -> None:
    with LocalServer.start("replicaset", nodes=2) as server:
        first, second = (str(port) for _, port in server.addresses)
        server.command({"insert": "c"})
        server.kill()
        server.command({"insert": "c"})
        server.restart(wait=False)
        # It is a secondary now.
        machine.states = {second: "up", first: "up"}
        server.command({"insert": "c"})
        assert [key for key, _ in machine.commands("insert")] == [first, second, second]
        server.command({"ping": 1}, address=server.addresses[0])
        assert machine.commands("ping")[-1][0] == first


def test_tls(machine: Machine) -> None:
    with LocalServer.start(tls=True) as server:
        assert server.ca_file is not None
        assert Path(server.ca_file).is_file()
        assert server.client_certificate_file is not None
        assert "tlsCAFile=" in server.uri


def test_disks(machine: Machine) -> None:
    with LocalServer.start(disk_mb=100) as server:
        (disk,) = machine.disks
        assert machine.disks[disk] == "100 MiB"
        server.fill_disk()
        assert machine.disks[disk] == "full"
        server.free_disk()
        assert machine.disks[disk] == "drained"
    with LocalServer.start() as plain, pytest.raises(InvalidOperation, match="start with disk_mb"):
        plain.fill_disk()


def test_a_partition(machine: Machine) -> None:
    with LocalServer.start("replicaset", nodes=3, proxied=True) as server:
        a, b, c = server.addresses
        targets = {address: proxy.target for address, proxy in server.proxies.items()}
        assert not set(targets.values()) & set(server.addresses)
        server.partition([a, "clients"], [b, c])
        cut = {address: proxy.cut for address, proxy in server.proxies.items()}  # type: ignore[attr-defined]
        assert cut == {
            a: ({targets[b], targets[c]}, False),
            b: ({targets[a]}, True),
            c: ({targets[a]}, True),
        }
        # A host that is in no group reaches all.
        server.partition([a], [b])
        assert server.proxies[c].cut == (set(), False)  # type: ignore[attr-defined]
        server.heal()
        assert [proxy.cut for proxy in server.proxies.values()] == [None] * 3  # type: ignore[attr-defined]
        for groups in ([[a], [a, b]], [[("127.0.0.1", 1)]]):
            with pytest.raises(ValueError, match="name each host once"):
                server.partition(*groups)
        proxies = list(server.proxies.values())
    assert all(proxy.is_closed for proxy in proxies)  # type: ignore[attr-defined]
    with LocalServer.start() as plain, pytest.raises(InvalidOperation, match="proxied=True"):
        plain.partition([plain.addresses[0]], ["clients"])


def test_everything_is_restored(machine: Machine) -> None:
    with LocalServer.start("replicaset", nodes=3, proxied=True, disk_mb=100) as server:
        a, b, c = server.addresses
        server.command({"configureFailPoint": "hangBeforeCommit", "mode": "alwaysOn"}, address=b)
        server.partition([a], [b, c])
        server.fill_disk(c)
        server.freeze(b)
        server.kill(c)
        machine.seen.clear()
        machine.looks_until_healthy = 2
        server.restore()
        assert set(machine.states.values()) == {"up"}
        assert all(proxy.cut is None for proxy in server.proxies.values())  # type: ignore[attr-defined]
        assert set(machine.disks.values()) == {"drained"}
        off = [
            (document["configureFailPoint"], document["mode"]) for _, document in machine.commands("configureFailPoint")
        ]
        assert sorted(off) == [("failCommand", "off")] * 3 + [("hangBeforeCommit", "off")] * 3
        assert len(machine.commands("replSetGetStatus")) == 3
        machine.seen.clear()
        server.restore()
        assert {document["configureFailPoint"] for _, document in machine.commands("configureFailPoint")} == {
            "failCommand"
        }


def test_a_standalone_server_is_restored(machine: Machine) -> None:
    with LocalServer.start() as server:
        server.kill()
        server.restore()
        assert not server.has_ended()
        assert not machine.commands("replSetGetStatus")


def test_ports_are_chosen_anew_when_one_is_taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def start(key: str, _arguments: list[str]) -> None:
        tries.append(key)
        machine.states[key] = "ended" if len(tries) < 3 else "up"

    monkeypatch.setattr(machine, "start", start)
    monkeypatch.setattr(machine, "log_tail", lambda _key: "Address already in use", raising=False)
    with LocalServer.start() as server:
        assert str(server.addresses[0][1]) == tries[2]
        assert len(set(tries)) == 3


def test_another_reason_to_end_is_shown_at_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "start", lambda key, _arguments: machine.kill(key))
    monkeypatch.setattr(machine, "log_tail", lambda _key: "unknown option", raising=False)
    with pytest.raises(RuntimeError, match="unknown option"):
        LocalServer.start()
    assert len(machine.states) == 1
    assert machine.is_closed
