"""`LocalServer` with real servers: topologies, authentication, TLS, attaching, killing."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from motorlite.errors import InvalidOperation, OperationFailure
from motorlite.testing import LocalServer, ServerNotFound, failpoints
from motorlite.testing.server import local_commands
from motorlite.testing.server.local_commands import Access, Credential, run_command, wait_until

if TYPE_CHECKING:
    from tests.live.conftest import Fail

REPOSITORY = Path(__file__).resolve().parents[2]


def states(server: LocalServer) -> list[str]:
    members: list[dict[str, Any]] = server.command({"replSetGetStatus": 1})["members"]
    return sorted(member["stateStr"] for member in members)


def test_a_standalone_server(standalone: LocalServer, database_name: str) -> None:
    assert standalone.started
    assert standalone.topology == "standalone"
    assert standalone.replica_set is None
    assert standalone.username is standalone.password is standalone.ca_file is None
    assert int(standalone.version.split(".")[0]) >= 4
    host, port = standalone.addresses[0]
    assert standalone.uri == f"mongodb://{host}:{port}/"
    standalone.command({"insert": "c", "documents": [{"_id": 1}]}, database_name)
    assert standalone.command({"count": "c"}, database_name)["n"] == 1


def test_a_replica_set_of_one_can_be_written_to_at_once(replica_set: LocalServer, database_name: str) -> None:
    assert replica_set.uri.endswith("/?replicaSet=rs0")
    reply = replica_set.command({"insert": "c", "documents": [{}], "writeConcern": {"w": "majority"}}, database_name)
    assert reply["n"] == 1


def test_a_replica_set_of_three_and_the_loss_of_its_primary(replica_set3: LocalServer, database_name: str) -> None:
    assert len(replica_set3.addresses) == 3
    # What the primary knows of the others is as old as their last heartbeat.
    wait_until(lambda: states(replica_set3) == ["PRIMARY", "SECONDARY", "SECONDARY"], "heartbeats")
    lost = replica_set3.wait_for_primary()
    replica_set3.kill(lost)
    insert = {"insert": "c", "documents": [{}], "writeConcern": {"w": 2}}
    assert replica_set3.command(insert, database_name)["n"] == 1  # finds the new primary by itself
    assert replica_set3.wait_for_primary() != lost
    replica_set3.restart(lost)
    wait_until(lambda: states(replica_set3) == ["PRIMARY", "SECONDARY", "SECONDARY"], "the lost one to be back")


def test_a_standalone_server_behind_a_proxy(monkeypatch: pytest.MonkeyPatch, standalone: LocalServer) -> None:
    monkeypatch.setenv("MONGODB_URI", standalone.uri)
    assert LocalServer.start().proxies == {}
    with LocalServer.start(proxied=True) as server:
        assert server.started
        (address,) = server.addresses
        proxy = server.proxies[address]
        assert proxy.address == address != proxy.target
        assert f":{address[1]}/" in server.uri
        proxy.refuse()
        server.command({"ping": 1}, address=address)  # goes round it
        with pytest.raises(ConnectionRefusedError):
            run_command(address, {"ping": 1}, "admin", Access())
        server.kill()
        server.restart()
        proxy.heal()
        run_command(address, {"ping": 1}, "admin", Access())
    with pytest.raises(ConnectionRefusedError):
        run_command(address, {"ping": 1}, "admin", Access())


def test_members_reach_each_other_through_their_proxies() -> None:
    with LocalServer.start("replicaset", nodes=2, proxied=True) as server:
        reply = server.command({"isMaster": 1})
        assert sorted(reply["hosts"]) == sorted(f"{host}:{port}" for host, port in server.addresses)
        for proxy in server.proxies.values():
            wait_until(lambda proxy=proxy: proxy.counts.open > proxy.counts.open_clients, "members")  # type: ignore[misc]  # bound now
        # What they write for the majority passes the other one's proxy.
        insert = {"insert": "c", "documents": [{}], "writeConcern": {"w": 2, "wtimeout": 20_000}}
        assert "writeConcernError" not in server.command(insert, "motorlite_test_proxied")


@pytest.mark.slow
def test_a_partition_and_a_full_disk(standalone: LocalServer) -> None:
    try:
        server = LocalServer.start("replicaset", nodes=3, proxied=True, disk_mb=128)
    except PermissionError as error:
        pytest.skip(f"this system permits no disks of our own: {error}")
    with server:
        insert: dict[str, Any] = {"insert": "c", "documents": [{}], "writeConcern": {"w": 3, "wtimeout": 20_000}}
        assert "writeConcernError" not in server.command(insert, "motorlite_test_kit")
        old = server.wait_for_primary()
        server.partition([old, "clients"], (address for address in server.addresses if address != old))
        for wrong in ([("nowhere", 1)], [old, old]):
            with pytest.raises(ValueError, match="groups must name each host once"):
                server.partition(wrong)
        with pytest.raises(InvalidOperation, match="start with disk_mb"):
            standalone.fill_disk()
        wait_until(lambda: server.wait_for_primary() != old, "the others to elect a primary")
        # On the side of clients there is no primary: who connects through the proxies reaches the old one alone.
        assert not run_command(old, {"isMaster": 1}, "admin", Access())["ismaster"]
        cut_off = next(address for address in server.addresses if address != old)
        with pytest.raises(TimeoutError):
            run_command(cut_off, {"isMaster": 1}, "admin", Access(), timeout=0.2)
        server.heal()
        run_command(cut_off, {"isMaster": 1}, "admin", Access())
        server.restore()
        primary = server.wait_for_primary()
        server.fill_disk(primary)
        new = {"create": "another"}
        with pytest.raises((OperationFailure, OSError), match=r"No space left|reset|closed"):
            server.command(new, "motorlite_test_kit", address=primary)
        server.free_disk(primary)
        server.restore()
        assert server.command(insert, "motorlite_test_kit")["n"] == 1


def test_a_broken_deployment_is_restored() -> None:
    with LocalServer.start("replicaset", proxied=True) as server:
        (address,) = server.addresses
        # It also fails what `restore` itself asks a member.
        server.command(failpoints.fail_command(["isMaster", "hello"], close_connection=True))
        server.proxies[address].harms = "clients"
        server.proxies[address].refuse()
        server.freeze()
        server.restore()
        assert server.proxies[address].harms == "all"
        run_command(address, {"hello": 1}, "admin", Access())
        server.kill()
        server.restore()
        assert server.command({"isMaster": 1})["ismaster"]
        # As through a client.
        run_command(server.proxies[address].target, failpoints.fail_command(["ping"], error_code=2), "admin", Access())
        server.restore()
        assert server.command({"ping": 1})["ok"] == 1


def test_a_server_without_test_commands_is_restored() -> None:
    with LocalServer.start(parameters={"enableTestCommands": 0}) as server:
        server.freeze()
        server.restore()
        assert server.command({"ping": 1})["ok"] == 1


def test_what_was_not_started_here_is_not_restored(standalone: LocalServer) -> None:
    with pytest.raises(InvalidOperation, match="not started here"):
        LocalServer.start(uri=standalone.uri).restore()


def test_the_default_overload_spares_the_way_back(standalone: LocalServer, fail: Fail) -> None:
    fail(standalone, failpoints.overload(probability=1.0))
    with pytest.raises(OperationFailure):
        standalone.command({"find": "c"}, "motorlite_test_none")
    standalone.command(failpoints.off())
    standalone.command({"find": "c"}, "motorlite_test_none")


def test_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer.start(auth=True) as server:
        address = server.addresses[0]
        assert server.command({"listDatabases": 1, "nameOnly": True})["ok"] == 1
        with pytest.raises(OperationFailure, match="requires authentication"):
            run_command(address, {"listDatabases": 1}, "admin", Access())
        for wrong in (Credential("motorlite", "wrong"), Credential("nobody", "wrong")):
            with pytest.raises(OperationFailure, match="Authentication failed"):
                run_command(address, {"ping": 1}, "admin", Access(credential=wrong))
        monkeypatch.setenv("MONGODB_URI", server.uri)
        attached = LocalServer.start()
        assert (attached.started, attached.username, attached.password) == (
            False,
            server.username,
            server.password,
        )
        attached.command({"listDatabases": 1})


def test_tls_with_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer.start("replicaset", auth=True, tls=True) as server:
        host, port = server.addresses[0]
        assert port is not None
        assert server.command({"replSetGetStatus": 1})["myState"] == 1
        assert f"tlsCAFile={quote(str(server.ca_file), safe='')}" in server.uri
        with pytest.raises((ConnectionResetError, TimeoutError)):
            run_command((host, port), {"ping": 1}, "admin", Access())
        with pytest.raises(ssl.SSLCertVerificationError):
            run_command((host, port), {"ping": 1}, "admin", Access(ssl.create_default_context()))
        context = local_commands.tls_context(server.ca_file, None)
        with (
            socket.create_connection((host, port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as encrypted,
        ):
            assert encrypted.getpeercert()
        monkeypatch.setenv("MONGODB_URI", server.uri)
        assert LocalServer.start().ca_file == str(server.ca_file)
        monkeypatch.setenv("MONGODB_URI", f"mongodb://{host}:{port}/?tls=true")
        with pytest.raises(ServerNotFound, match="certificate verify failed"):
            LocalServer.start()


def test_attaching_finds_out_what_the_deployment_is(replica_set: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", replica_set.uri)
    with LocalServer.start() as server:
        assert (server.started, server.replica_set, server.version) == (False, "rs0", replica_set.version)
    replica_set.command({"ping": 1})  # still there
    with LocalServer.start("standalone") as another:
        assert another.started
        assert another.addresses != replica_set.addresses
