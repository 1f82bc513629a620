"""Authentication on a real server: every mechanism that it has, names and passwords of all kinds, reauthentication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import ConfigurationError, OperationFailure, ServerSelectionTimeoutError
from tests.live.users import add_user, certificate_subject, client, tls_options, who
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


def reauthentication(command: str) -> dict[str, Any]:
    return {
        "configureFailPoint": "failCommand",
        "mode": {"times": 1},
        "data": {"failCommands": [command], "errorCode": 391},
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("a,b=c", "x"),
        ("=2C,=3D", "x"),
        ("päss:w/ö@rd", "a:b@c/d%e,f=g"),
        ("\u2168", "\u2163"),
        (" ", " "),
        ("n" * 200, "p" * 500),
    ],
)
async def test_special_characters(secured: LocalServer, mechanism: str, name: str, password: str) -> None:
    add_user(secured, name, password)
    async with client(secured, username=name, password=password, authMechanism=mechanism) as connected:
        assert await who(connected) == [{"user": name, "db": "admin"}]


@pytest.mark.parametrize("password", ["a\x01b", "\U0001f600", "\u06271", "a\u0221"])
async def test_passwords_that_saslprep_refuses(secured: LocalServer, password: str) -> None:
    """Server and driver agree on them; SCRAM-SHA-1 takes them as they are."""
    with pytest.raises(OperationFailure, match="STRINGPREP"):
        add_user(secured, password=password)
    name = add_user(secured, password=password, mechanisms=["SCRAM-SHA-1"])
    async with client(secured, username=name, password=password) as connected:
        assert await who(connected) == [{"user": name, "db": "admin"}]
    async with client(secured, username=name, password=password, authMechanism="SCRAM-SHA-256") as connected:
        # The server refuses the first message, before the password is needed.
        with pytest.raises(OperationFailure):
            await who(connected)
    name = add_user(secured)
    async with client(secured, username=name, password=password, authMechanism="SCRAM-SHA-256") as connected:
        with pytest.raises(ConfigurationError, match="SASLprep") as caught:
            await who(connected)
    assert password not in str(caught.value)


@pytest.mark.parametrize("is_named", [False, True])
async def test_x509(secured: LocalServer, is_named: bool) -> None:
    subject = certificate_subject(secured)
    add_user(secured, subject, None, database="$external")
    options = {"username": subject} if is_named else {}
    async with client(secured, authMechanism="MONGODB-X509", **options) as connected:
        assert await who(connected) == [{"user": subject, "db": "$external"}]


async def test_x509_without_the_user(secured: LocalServer) -> None:
    add_user(secured, certificate_subject(secured), None, database="$external")
    async with client(secured, authMechanism="MONGODB-X509", username="CN=somebody else") as connected:
        with pytest.raises(OperationFailure) as caught:
            await who(connected)
    assert caught.value.code == 18


async def test_x509_without_a_certificate(secured: LocalServer) -> None:
    async with client(secured, authMechanism="MONGODB-X509", tlsCertificateKeyFile=None) as connected:
        with pytest.raises(OperationFailure, match="No verified subject name"):
            await who(connected)


async def test_another_host_name(secured: LocalServer) -> None:
    # For the resolver another spelling of 127.0.0.1, for TLS a name that the certificate does not have.
    uri = f"mongodb://127.1:{secured.addresses[0][1]}/"
    async with make_client(uri, **tls_options(secured), serverSelectionTimeoutMS=500) as connected:
        with pytest.raises(ServerSelectionTimeoutError, match=r"127\.1.*(certificate is not valid for|match)"):
            await who(connected)
    async with make_client(uri, **tls_options(secured), tlsAllowInvalidHostnames=True) as connected:
        assert await who(connected) == []


async def test_trusting_everybody(secured: LocalServer) -> None:
    name = add_user(secured)
    for switch in ("tlsInsecure", "tlsAllowInvalidCertificates"):
        options = {"tlsCAFile": None, switch: True}
        async with client(secured, username=name, password="pencil", **options) as connected:
            assert await who(connected) == [{"user": name, "db": "admin"}]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", "MONGODB-X509"])
@pytest.mark.parametrize("command", ["find", "getMore"])
async def test_reauthentication(secured: LocalServer, mechanism: str, command: str, fail: Fail) -> None:
    if mechanism == "MONGODB-X509":
        add_user(secured, certificate_subject(secured), None, database="$external")
        options: dict[str, Any] = {}
    else:
        options = {"username": add_user(secured), "password": "pencil"}
    record = Recorder()
    async with client(secured, authMechanism=mechanism, event_listeners=[record], **options) as connected:
        collection = connected["motorlite_test_reauthentication"]["coll"]
        await collection.delete_many({})
        await collection.insert_many([{"_id": number} for number in range(5)])
        user = await who(connected)
        record.clear()
        fail(secured, reauthentication(command))
        assert len(await collection.find({}, batch_size=2).to_list()) == 5
        await collection.insert_one({"_id": 5})
        assert await who(connected) == user
        assert await collection.count_documents({}) == 6
    assert record.history.count(f"failed {command}") == 1
    again = record.history.index(f"failed {command}")
    assert record.history[again + 1 : again + 3] == [f"started {command}", f"succeeded {command}"]
    assert [(event.reason, event.rule) for event in record.retries] == [("reauthentication required", "always")]
    assert not [name for name in record.names if name in ("saslStart", "saslContinue", "authenticate", "hello")]
