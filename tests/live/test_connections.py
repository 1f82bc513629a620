"""Finding, reaching and losing servers: TLS, authentication, pools, replica sets."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from cryptography import x509

from motorlite import WriteConcern
from motorlite._base.values import format_address
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from motorlite.testing import LocalServer, failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

QUICKLY: dict[str, Any] = {"serverSelectionTimeoutMS": 1_000}


@pytest.fixture(scope="module")
def secure() -> Iterator[LocalServer]:
    """A server that wants TLS and authentication."""
    with LocalServer.start(auth=True, tls=True) as server:
        subject = x509.load_pem_x509_certificate(client_certificate(server)).subject.rfc4514_string()
        roles = [{"role": role, "db": "admin"} for role in ("readWriteAnyDatabase", "dbAdminAnyDatabase")]
        server.command({"createUser": subject, "roles": roles}, "$external")
        for name, password, mechanism in USERS:
            user = {"createUser": name, "pwd": password, "roles": roles, "mechanisms": [mechanism]}
            server.command(user)
        yield server


@pytest.fixture(scope="module")
def mortal() -> Iterator[LocalServer]:
    """A server that tests kill and freeze; each leaves it running."""
    with LocalServer.start(own=True) as server:
        yield server


USERS = [
    ("sha1", "päss/w:ö@rd", "SCRAM-SHA-1"),
    ("sha256", "IX", "SCRAM-SHA-256"),
    ("us/er@ex:ample", "p%41", "SCRAM-SHA-256"),
]


def client_certificate(server: LocalServer) -> bytes:
    pem = Path(str(server.client_certificate_file)).read_bytes()
    start = pem.index(b"-----BEGIN CERTIFICATE-----")
    return pem[start:]


def port_of(server: LocalServer) -> int:
    port = server.addresses[0][1]
    assert port is not None
    return port


async def tried(uri: str, **options: Any) -> PyMongoError:
    """The error that a client gets which cannot reach its server."""
    started = anyio.current_time()
    async with make_client(uri, **QUICKLY, **options) as client:
        with pytest.raises(PyMongoError) as caught:
            await client.motorlite_test_none.c.find_one()
    assert anyio.current_time() - started < 20  # without QUICKLY it would be half a minute
    return caught.value


# --- TLS ---


async def test_tls_with_the_right_authority(secure: LocalServer, database_name: str) -> None:
    async with make_client(secure) as client:
        await client[database_name].c.insert_many(numbered(3, text="x" * 100_000))
        assert len(await client[database_name].c.find().to_list()) == 3
        await client.drop_database(database_name)


async def test_tls_with_another_authority(secure: LocalServer) -> None:
    error = await tried(f"mongodb://127.0.0.1:{port_of(secure)}/?tls=true")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "certificate verify failed" in str(error)
    error = await tried(f"mongodb://127.0.0.1:{port_of(secure)}/?tls=true&tlsInsecure=true")
    assert isinstance(error, OperationFailure)  # not authenticated, but connected
    assert error.code == 13


async def test_tls_with_another_host_name(secure: LocalServer) -> None:
    # For the resolver another spelling of 127.0.0.1, for TLS a name that the certificate does not have.
    options = {"tls": True, "tlsCAFile": str(secure.ca_file)}
    error = await tried(f"mongodb://127.1:{port_of(secure)}/", **options)
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "127.1" in str(error)
    assert "certificate is not valid for" in str(error) or "match" in str(error)
    error = await tried(f"mongodb://127.1:{port_of(secure)}/", tlsAllowInvalidHostnames=True, **options)
    assert isinstance(error, OperationFailure)


async def test_no_tls_where_the_server_wants_it(secure: LocalServer) -> None:
    error = await tried(f"mongodb://127.0.0.1:{port_of(secure)}/")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "closed" in str(error)


async def test_tls_where_the_server_has_none(standalone: LocalServer) -> None:
    error = await tried(f"mongodb://127.0.0.1:{port_of(standalone)}/?tls=true")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "127.0.0.1" in str(error)


async def test_files_that_cannot_be_used(tmp_path: Path, secure: LocalServer) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    for option in ("tlsCAFile", "tlsCertificateKeyFile"):
        for path in (nonsense, tmp_path / "missing.pem"):
            options: dict[str, Any] = {option: str(path)}
            with pytest.raises(ConfigurationError, match=rf"{option} .*{path.stem}\.pem.* cannot be used"):
                make_client(f"mongodb://127.0.0.1:{port_of(secure)}/", **options)


async def test_a_client_certificate_authenticates(secure: LocalServer, database_name: str) -> None:
    uri = f"mongodb://127.0.0.1:{port_of(secure)}/?authMechanism=MONGODB-X509&authSource=$external"
    files: dict[str, Any] = {"tlsCAFile": str(secure.ca_file)}
    async with make_client(uri, tlsCertificateKeyFile=str(secure.client_certificate_file), **files) as client:
        await client[database_name].c.insert_one({"_id": 1})
        status = await client.admin.command("connectionStatus")
        (user,) = status["authInfo"]["authenticatedUsers"]
        assert user["db"] == "$external"
        await client.drop_database(database_name)
    error = await tried(uri, **files)
    assert isinstance(error, OperationFailure)
    assert error.code == 18


# --- authentication ---


@pytest.mark.parametrize(("user", "password", "mechanism"), USERS)
async def test_scram(secure: LocalServer, database_name: str, user: str, password: str, mechanism: str) -> None:
    uri = f"mongodb://127.0.0.1:{port_of(secure)}/"
    files: dict[str, Any] = {"tls": True, "tlsCAFile": str(secure.ca_file)}
    choices: list[dict[str, Any]] = [{}, {"authMechanism": mechanism}]
    for options in choices:
        async with make_client(uri, username=user, password=password, **files, **options) as client:
            await client[database_name].c.insert_one({})
            status = await client.admin.command("connectionStatus")
            assert status["authInfo"]["authenticatedUsers"] == [{"user": user, "db": "admin"}]
    error = await tried(uri, username=user, password="wrong", **files)
    assert isinstance(error, OperationFailure)
    assert (error.code, error.attempts) == (18, 1)
    assert "wrong" not in str(error).replace("something wrong", "")
    error = await tried(uri, username=user, password=password, authSource="elsewhere", **files)
    assert (getattr(error, "code", None), error.retry_refusal) == (18, None)


async def test_the_wrong_mechanism_and_an_unknown_user(secure: LocalServer) -> None:
    files: dict[str, Any] = {"tls": True, "tlsCAFile": str(secure.ca_file)}
    uri = f"mongodb://127.0.0.1:{port_of(secure)}/"
    error = await tried(uri, username="sha256", password="IX", authMechanism="SCRAM-SHA-1", **files)
    assert isinstance(error, OperationFailure)
    error = await tried(uri, username="nobody", password="x", **files)
    assert isinstance(error, OperationFailure)
    assert error.code == 18


async def test_many_connections_authenticate_at_once(secure: LocalServer, database_name: str) -> None:
    async with make_client(secure, maxPoolSize=10, maxConnecting=5) as client:
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(client[database_name].c.find_one)
        (server,) = client.stats().servers.values()
        assert 1 <= server.idle <= 10


# --- pools ---


async def test_min_pool_size(deployment: LocalServer) -> None:
    async with make_client(deployment, minPoolSize=3) as client:
        await client.aconnect(timeoutMS=0)
        primary = deployment.wait_for_primary()
        await until(lambda: client.stats().servers[primary].idle >= 3)
        await anyio.sleep(0.02)
        assert client.stats().servers[primary].connections_created == 3


async def test_max_pool_size_and_a_fair_queue(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, maxPoolSize=2, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        record.clear()
        asked: list[int] = []

        async def find(number: int) -> None:
            asked.append(number)
            await collection.find_one({"$where": "sleep(100) || true", "number": {"$ne": number}})

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(find, number)
            await until(lambda: any(server.waiting == 10 for server in client.stats().servers.values()))
        sent = [command["filter"]["number"]["$ne"] for command in record.commands("find")]
        # Two that get their connections in one turn of the loop may run in any order.
        assert all(abs(asked.index(number) - place) <= 1 for place, number in enumerate(sent))
        assert all(server.connections_created <= 2 for server in client.stats().servers.values())


async def test_idle_connections_are_given_up(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment, maxIdleTimeMS=50) as client:
        primary = deployment.wait_for_primary()
        await client[database_name].c.find_one()
        assert client.stats().servers[primary].connections_created == 1
        await anyio.sleep(0.1)
        await client[database_name].c.find_one()
        assert client.stats().servers[primary].connections_created == 2
        assert client.stats().servers[primary].idle == 1


# --- replica sets ---


async def test_one_seed_is_enough(replica_set3: LocalServer) -> None:
    for address in replica_set3.addresses:
        for query in ("?replicaSet=rs0", "?directConnection=false"):
            async with make_client(f"mongodb://{format_address(address)}/{query}") as client:
                # The seed may be a secondary that is known before the primary is.
                await client.admin.command("ping")
                assert await client.primary == replica_set3.wait_for_primary()
                await until(lambda: len(client.nodes) == 3)
                assert client.nodes == set(replica_set3.addresses)


async def test_an_unreachable_seed_does_no_harm(replica_set3: LocalServer) -> None:
    seeds = f"127.0.0.1:1,{format_address(replica_set3.addresses[1])}"
    async with make_client(f"mongodb://{seeds}/?replicaSet=rs0") as client:
        await client.admin.command("ping")
        await until(lambda: client.nodes == set(replica_set3.addresses))


async def test_a_direct_connection_to_a_secondary(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, w=3) as client:
        await client[database_name].c.insert_one({"_id": 1})
        secondary = min(await client.secondaries)
    uri = f"mongodb://{format_address(secondary)}/?directConnection=true"
    async with make_client(uri) as client:
        assert await client[database_name].c.find_one() == {"_id": 1}
        assert client.nodes == {secondary}
        assert not await client.is_primary
        with pytest.raises(NotPrimaryError, match="not primary") as caught:
            await client[database_name].c.insert_one({})
        assert caught.value.code == 10107


async def test_read_preferences(replica_set3: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set3, localThresholdMS=60_000, event_listeners=[record]) as client:
        primary = replica_set3.wait_for_primary()
        await client.aconnect(timeoutMS=0)
        await until(lambda: len(client.nodes) == 3)
        secondaries = set(replica_set3.addresses) - {primary}
        expected: list[tuple[Any, set[Any]]] = [
            (Primary(), {primary}),
            (PrimaryPreferred(), {primary}),
            (Secondary(), secondaries),
            (SecondaryPreferred(), secondaries),
            (Nearest(), {primary, *secondaries}),
        ]
        for preference, addresses in expected:
            record.clear()
            collection = client[database_name].c.with_options(read_preference=preference)
            for _ in range(40):
                await collection.find_one()
            assert {event.connection_id for event in record.started_events} == addresses, preference
        # Writes go to the primary, whatever the preference.
        record.clear()
        await client[database_name].c.with_options(read_preference=Secondary()).insert_one({})
        assert record.started_events[0].connection_id == primary


async def test_a_read_preference_that_no_server_satisfies(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, **QUICKLY) as client:
        tagged = client[database_name].c.with_options(read_preference=Secondary(tag_sets=[{"dc": "nowhere"}]))
        with pytest.raises(ServerSelectionTimeoutError, match=r"secondary.*nowhere"):
            await tagged.find_one()
        await client[database_name].c.find_one()


async def test_getmore_goes_where_the_cursor_is(replica_set3: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set3, w=3, localThresholdMS=60_000, event_listeners=[record]) as client:
        await client[database_name].c.insert_many(numbered(10))
        await until(lambda: len(client.nodes) == 3)
        collection = client[database_name].c.with_options(read_preference=Nearest())
        for _ in range(6):
            record.clear()
            cursor = await collection.find(batch_size=3)
            await cursor.to_list(6)
            await cursor.close()
            assert record.names == ["find", "getMore", "killCursors"]
            assert {event.connection_id for event in record.started_events} == {cursor.address}


async def test_another_replica_set_name(replica_set: LocalServer) -> None:
    error = await tried(f"mongodb://{format_address(replica_set.addresses[0])}/?replicaSet=other")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "'other'" in str(error)
    assert "replicaSet" in str(error)


async def test_a_replica_set_name_for_a_standalone(standalone: LocalServer) -> None:
    error = await tried(f"mongodb://{format_address(standalone.addresses[0])}/?replicaSet=rs0")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "rs0" in str(error)


async def test_a_killed_primary_is_replaced_and_no_acknowledged_write_is_lost(
    replica_set3: LocalServer, database_name: str
) -> None:
    async with make_client(replica_set3, w="majority") as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": -1})
        acknowledged: list[int] = []
        killed = replica_set3.wait_for_primary()
        try:
            with anyio.fail_after(50):
                async with anyio.create_task_group() as tasks:

                    async def insert(start: int) -> None:
                        for number in range(start, start + 40):
                            await collection.insert_one({"_id": number})
                            acknowledged.append(number)

                    for start in (0, 100, 200):
                        tasks.start_soon(insert, start)
                    await until(lambda: len(acknowledged) >= 15)
                    await anyio.to_thread.run_sync(replica_set3.kill, killed)
            assert len(acknowledged) == 120
            assert await client.primary != killed
            found = await collection.distinct("_id", {"_id": {"$gte": 0}})
            assert sorted(found) == sorted(acknowledged)
        finally:
            await anyio.to_thread.run_sync(replica_set3.restart, killed)


# --- servers that are not there ---


async def test_nobody_listens() -> None:
    error = await tried("mongodb://127.0.0.1:1,127.0.0.1:2/")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "127.0.0.1:1" in str(error)
    assert "127.0.0.1:2" in str(error)
    assert str(error).count(f"Errno {errno.ECONNREFUSED}") == 2


async def test_a_host_name_that_does_not_exist() -> None:
    error = await tried("mongodb://no-such-host.invalid/")
    assert isinstance(error, ServerSelectionTimeoutError)
    assert "no-such-host.invalid" in str(error)


async def test_a_server_that_was_killed_and_is_back(mortal: LocalServer, database_name: str) -> None:
    async with make_client(mortal, **QUICKLY) as client:
        journalled = WriteConcern(j=True)
        collection = client[database_name].c.with_options(write_concern=journalled)
        await collection.insert_one({"_id": 1})
        await anyio.to_thread.run_sync(mortal.kill)
        try:
            started = anyio.current_time()
            for operation in (collection.find_one(), collection.insert_one({"_id": 2}), collection.find_one()):
                with pytest.raises(AutoReconnect, match=str(port_of(mortal))):
                    await operation
            assert anyio.current_time() - started < 20
        finally:
            await anyio.to_thread.run_sync(mortal.restart)
        # The same client, without a word from the application.
        assert await collection.find_one() == {"_id": 1}
        await client.drop_database(database_name)


@pytest.mark.filterwarnings("ignore:socketTimeoutMS ends only")
async def test_a_server_that_does_not_answer(mortal: LocalServer, database_name: str) -> None:
    async with make_client(mortal, socketTimeoutMS=100, retryReads=False, **QUICKLY) as client:
        collection = client[database_name].c
        await collection.find_one()
        mortal.freeze()
        try:
            started = anyio.current_time()
            with pytest.raises(NetworkTimeout) as caught:
                await collection.find_one()
            # The timer of a connection may end up to a millisecond early.
            assert 0.099 <= anyio.current_time() - started < 5
            assert caught.value.timeout
            with pytest.raises(PyMongoError) as other:
                await collection.find_one(timeoutMS=50)
            assert other.value.timeout
        finally:
            mortal.thaw()
        assert await collection.find_one() is None


async def test_all_connections_lost_at_once(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set, maxPoolSize=5) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(collection.find_one, {"$where": "sleep(20) || true"})
        fail(replica_set, failpoints.fail_command(["find"], close_connection=True, times=2))
        assert await collection.find_one(timeoutMS=5_000) == {"_id": 1}
        (server,) = client.stats().servers.values()
        # One error is enough to distrust all the others.
        assert server.generation >= 1
        assert server.idle == 1
