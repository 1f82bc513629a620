"""`LocalServer` with real servers: topologies, authentication, TLS, attaching, killing."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from motorlite.errors import InvalidOperation, OperationFailure, PyMongoError
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


def test_failpoints_act_and_are_switched_off(standalone: LocalServer, fail: Fail) -> None:
    fail(standalone, failpoints.overload(times=2, commands=["ping"]))
    for _ in range(2):
        with pytest.raises(OperationFailure) as caught:
            standalone.command({"ping": 1})
        assert caught.value.code == 462
        assert caught.value.error_labels == {"SystemOverloadedError", "RetryableError"}
    standalone.command({"ping": 1})
    fail(standalone, failpoints.fail_command(["ping"], close_connection=True, times=1))
    with pytest.raises(ConnectionResetError):
        standalone.command({"ping": 1})


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


def test_a_uri_goes_before_that_of_the_environment(standalone: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:1/")
    assert LocalServer.start(uri=standalone.uri).addresses == standalone.addresses


def test_the_default_overload_spares_the_way_back(standalone: LocalServer, fail: Fail) -> None:
    fail(standalone, failpoints.overload(probability=1.0))
    with pytest.raises(OperationFailure):
        standalone.command({"find": "c"}, "motorlite_test_none")
    standalone.command(failpoints.off())
    standalone.command({"find": "c"}, "motorlite_test_none")


def test_a_killed_server_keeps_its_data_and_a_frozen_one_answers_later() -> None:
    with LocalServer.start(own=True) as server:
        insert = {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"j": True}}
        server.command(insert, "motorlite_test_kill")
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            server.command({"ping": 1})
        server.restart()
        # Not count: a server that was killed has forgotten how many documents there are, not which.
        assert server.command({"find": "c"}, "motorlite_test_kill")["cursor"]["firstBatch"] == [{"_id": 1}]
        server.freeze()
        with pytest.raises(TimeoutError):
            run_command(server.addresses[0], {"ping": 1}, "admin", Access(), timeout=0.2)
        server.thaw()
        server.command({"ping": 1})


@pytest.mark.parametrize("topology", ["standalone", "replicaset"])
def test_authentication(topology: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer.start(topology, auth=True) as server:
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
    with LocalServer.start(tls=True) as server:
        host, port = server.addresses[0]
        assert port is not None
        server.command({"ping": 1})
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


def test_a_replica_set_with_authentication_and_tls() -> None:
    with LocalServer.start("replicaset", auth=True, tls=True) as server:
        assert server.command({"replSetGetStatus": 1})["myState"] == 1
        assert f"tlsCAFile={quote(str(server.ca_file), safe='')}" in server.uri


def test_parameters_reach_the_server() -> None:
    with LocalServer.start(parameters={"cursorTimeoutMillis": 12345, "ttlMonitorEnabled": False}) as server:
        reply = server.command({"getParameter": 1, "cursorTimeoutMillis": 1, "ttlMonitorEnabled": 1})
        assert (reply["cursorTimeoutMillis"], reply["ttlMonitorEnabled"]) == (12345, False)


def test_a_wrong_parameter_is_an_error_that_shows_what_mongod_said() -> None:
    with pytest.raises(RuntimeError, match="noSuchParameter"):
        LocalServer.start(parameters={"noSuchParameter": 1})


def test_attaching_finds_out_what_the_deployment_is(replica_set: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", replica_set.uri)
    with LocalServer.start() as server:
        assert (server.started, server.replica_set, server.version) == (False, "rs0", replica_set.version)
    replica_set.command({"ping": 1})  # still there
    with LocalServer.start("standalone") as another:
        assert another.started
        assert another.addresses != replica_set.addresses


def test_an_unknown_command_is_the_drivers_error(deployment: LocalServer) -> None:
    with pytest.raises(PyMongoError, match="noSuchCommand") as caught:
        deployment.command({"noSuchCommand": 1})
    assert getattr(caught.value, "code", None) == 59


TEST_RUN = """
import sys
from motorlite.testing import LocalServer
server = LocalServer.start("replicaset", own=True)
server.command({"insert": "c", "documents": [{}]}, "motorlite_test_killed")
host, port = server.addresses[0]
print(port, server._members._processes.folder, flush=True)
sys.stdin.read()
"""


def test_a_killed_test_run_leaves_nothing_behind() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", TEST_RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    with run:
        assert run.stdout is not None
        port, folder = run.stdout.readline().split()
        assert mongods_of(folder)
        run.kill()
    wait_until(lambda: not Path(folder).exists(), "the folder to be removed")
    assert not mongods_of(folder)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), 5)


def mongods_of(folder: str) -> list[str]:
    """The processes that have a file of `folder` on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:  # ended while we looked
            continue
        if folder.encode() in line:
            found.append(path.parent.name)
    return found
