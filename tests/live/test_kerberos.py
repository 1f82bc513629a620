"""GSSAPI with a real KDC, and a scripted server that accepts its tickets with the same library.

MongoDB Community has no GSSAPI, so that no mongod takes part.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import ConfigurationError, OperationFailure, PyMongoError
from motorlite.testing.scripted import ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.kdc import HOST, LACKING, PASSWORD, REALM, USER, Acceptor, Realm, write_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(LACKING is not None, reason=str(LACKING))]

FOUND = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


@pytest.fixture(scope="module")
def running_realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as realm:
        yield realm


@pytest.fixture
def realm(running_realm: Realm, monkeypatch: pytest.MonkeyPatch) -> Realm:
    """The realm, for this process too; without a ticket."""
    for name, value in running_realm.environment.items():
        monkeypatch.setenv(name, value)
    running_realm.kdestroy()
    return running_realm


def server_of(realm: Realm, host: str = HOST, **options: Any) -> tuple[ScriptedDeployment, Acceptor]:
    deployment = ScriptedDeployment([f"{host}:27017"])
    acceptor = Acceptor(realm, **options)
    server = deployment[f"{host}:27017"]
    server.on("saslStart", acceptor.start)
    server.on("saslContinue", acceptor.proceed)
    server.on("find", FOUND)
    return deployment, acceptor


async def find_one(deployment: ScriptedDeployment, **options: Any) -> Any:
    given = {"username": USER, "authMechanism": "GSSAPI", "retryReads": False, **options}
    async with scripted_client(deployment, **given) as client:
        return await client.db.coll.find_one()


async def refusal(deployment: ScriptedDeployment, **options: Any) -> str:
    with pytest.raises(OperationFailure, match="GSSAPI authentication failed") as caught:
        await find_one(deployment, **options)
    assert PASSWORD not in str(caught.value)
    assert "payload" not in caught.value.details
    return str(caught.value)


async def test_a_ticket_of_the_cache(realm: Realm) -> None:
    realm.kinit()
    deployment, acceptor = server_of(realm)
    assert await find_one(deployment) == {"_id": 1}
    assert acceptor.users == [(USER, USER)]
    assert [next(iter(command)) for command in acceptor.commands] == ["saslStart", "saslContinue", "saslContinue"]


async def test_a_password(realm: Realm) -> None:
    deployment, acceptor = server_of(realm)
    assert await find_one(deployment, password=PASSWORD) == {"_id": 1}
    assert acceptor.users == [(USER, USER)]
    assert not (realm.folder / "tickets").exists(), "the ticket is the client's own"


async def test_a_connection_string(realm: Realm) -> None:
    realm.kinit()
    realm.add_service(f"mongo/other.motorlite.test@{REALM}")
    deployment, acceptor = server_of(realm)
    properties = f"SERVICE_NAME:mongo,SERVICE_HOST:other.motorlite.test,SERVICE_REALM:{REALM}"
    name = USER.replace("@", "%40")
    uri = f"mongodb://{name}@{HOST}/?authMechanism=GSSAPI&authMechanismProperties={properties}"
    async with scripted_client(deployment, uri=uri) as client:
        assert await client.db.coll.find_one() == {"_id": 1}
    assert acceptor.users == [(USER, USER)]


async def test_reauthentication(realm: Realm) -> None:
    realm.kinit()
    deployment, acceptor = server_of(realm)
    deployment[f"{HOST}:27017"].on("find", failure(391), FOUND)
    assert await find_one(deployment) == {"_id": 1}
    assert acceptor.users == [(USER, USER)] * 2
    assert len({command.get("$db") for command in acceptor.commands}) == 1


@pytest.mark.parametrize("how", ["forward", "forwardAndReverse", True, "none", False])
async def test_the_canonical_name(realm: Realm, how: str | bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed has another name than the service."""
    forward = {"alias.motorlite.test": "cluster.motorlite.test"}
    reverse = {"192.0.2.7": HOST.upper()}
    realm.kinit()
    realm.add_service(f"mongodb/cluster.motorlite.test@{REALM}")
    realm.add_service(f"mongodb/alias.motorlite.test@{REALM}")

    def getaddrinfo(host: str, _port: object, **_options: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, forward[host], ("192.0.2.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", lambda address, _flags: (reverse[address[0]], "0"))
    deployment, acceptor = server_of(realm, "alias.motorlite.test")
    assert await find_one(deployment, authMechanismProperties={"CANONICALIZE_HOST_NAME": how}) == {"_id": 1}
    service = {
        "forward": "cluster.motorlite.test",
        "forwardAndReverse": HOST,
        True: HOST,
        "none": "alias.motorlite.test",
        False: "alias.motorlite.test",
    }[how]
    assert str(acceptor.service) == f"mongodb/{service}@{REALM}"


# --- what goes wrong, and what to do ---


async def test_no_ticket(realm: Realm) -> None:
    deployment, acceptor = server_of(realm)
    message = await refusal(deployment)
    assert f"there is no ticket for '{USER}': run kinit {USER}" in message
    assert acceptor.commands == [], "found out before the server is asked"


async def test_a_ticket_of_another_user(realm: Realm) -> None:
    realm.kinit()
    deployment, _ = server_of(realm)
    assert f"there is no ticket for 'bob@{REALM}'" in await refusal(deployment, username=f"bob@{REALM}")


@pytest.mark.slow
async def test_an_expired_ticket(realm: Realm) -> None:
    realm.kinit("-l", "1s")
    time.sleep(2.1)  # noqa: ASYNC251  # libkrb5 has the clock of the system, and ends a ticket after a whole second
    deployment, _ = server_of(realm)
    assert f"the ticket of '{USER}' has expired: run kinit {USER}" in await refusal(deployment)


async def test_a_wrong_realm(realm: Realm) -> None:
    realm.kinit()
    deployment, _ = server_of(realm)
    message = await refusal(deployment, authMechanismProperties={"SERVICE_REALM": "OTHER.TEST"})
    assert f"'mongodb/{HOST}@OTHER.TEST' is in a realm that does not trust that of '{USER}'" in message
    assert "check SERVICE_REALM" in message


async def test_a_user_of_a_realm_without_a_kdc(realm: Realm) -> None:
    deployment, _ = server_of(realm)
    message = await refusal(deployment, username="ada@OTHER.TEST", password="x")
    assert "no KDC of the realm could be asked" in message
    assert "OTHER.TEST" in message


async def test_a_service_that_the_realm_does_not_have(realm: Realm) -> None:
    realm.kinit()
    deployment, _ = server_of(realm, "nothing.motorlite.test")
    message = await refusal(deployment)
    assert "the realm has no service 'mongodb/nothing.motorlite.test'" in message
    assert "SERVICE_HOST and CANONICALIZE_HOST_NAME" in message


async def test_a_kdc_that_does_not_answer(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop goes on while libkrb5 waits, and the client does not wait as long."""
    realm.kinit()
    deployment, acceptor = server_of(realm)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("KRB5_CONFIG", str(write_configuration(tmp_path, silent.getsockname()[1])))
        ticks = 0

        async def count() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        async with anyio.create_task_group() as group:
            group.start_soon(count)
            with pytest.raises(PyMongoError, match="GSSAPI: Kerberos gave no ticket for the service in time"):
                await find_one(deployment, connectTimeoutMS=300, serverSelectionTimeoutMS=1000)
            group.cancel_scope.cancel()
    assert ticks > 3
    assert acceptor.commands == []


async def test_a_wrong_password(realm: Realm) -> None:
    deployment, _ = server_of(realm)
    assert f"the password of '{USER}' is wrong" in await refusal(deployment, password="hunter2")


async def test_an_unknown_user(realm: Realm) -> None:
    deployment, _ = server_of(realm)
    message = await refusal(deployment, username=f"bob@{REALM}", password="x")
    assert f"the realm has no user 'bob@{REALM}'" in message


async def test_a_server_that_requires_a_layer(realm: Realm) -> None:
    realm.kinit()
    deployment, acceptor = server_of(realm, layers=6)
    assert "the server requires a security layer; use TLS instead" in await refusal(deployment)
    assert acceptor.users == []


async def test_a_server_without_the_key(realm: Realm) -> None:
    """It cannot prove that it is the service, whatever it answers."""
    realm.kinit()
    deployment, acceptor = server_of(realm)
    answer = {"conversationId": 1, "done": False, "payload": b"forged", "ok": 1}
    deployment[f"{HOST}:27017"].on("saslStart", answer)
    message = await refusal(deployment)
    assert f"the server has not proved that it is 'mongodb/{HOST}' (Kerberos: Invalid token was supplied)" in message
    assert acceptor.users == []


async def test_a_host_name_that_cannot_be_resolved(realm: Realm) -> None:
    realm.kinit()
    deployment, _ = server_of(realm, "nothing.invalid")
    with pytest.raises(ConfigurationError, match=r"CANONICALIZE_HOST_NAME=forward cannot resolve 'nothing\.invalid'"):
        await find_one(deployment, authMechanismProperties={"CANONICALIZE_HOST_NAME": "forward"})
