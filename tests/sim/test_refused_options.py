"""A client whose connection string has a wrong option of TLS or authentication sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import ConfigurationError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import Client, make_client
from tests.support.srv import Records

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio


async def iterate(client: Client) -> None:
    async for _ in client.db.coll.find():
        pass


OPERATIONS: list[Callable[[Client], Awaitable[object]]] = [
    lambda client: client.db.coll.insert_one({}),
    lambda client: client.db.coll.find_one({}),
    lambda client: client.db.coll.count_documents({}),
    lambda client: client.db.command("ping"),
    lambda client: client.list_database_names(),
    lambda client: client.aconnect(),
    lambda client: client.server_info(),
    iterate,
]


def made(uri: str, deployment: ScriptedDeployment, records: Records, **options: Any) -> Client:
    with pytest.warns(UserWarning, match="a client with this connection string sends nothing"):
        return make_client(deployment, world={"resolver": records.resolver}, uri=uri, **options)


@pytest.mark.parametrize("uri", ["mongodb://a.example.com:1/", "mongodb+srv://cluster.example.com/"])
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("tls=maybe", "tls"),
        ("ssl=", "tls"),
        ("tls=%FF", "tls"),
        ("tlsCAFile=", "tlsCAFile"),
        ("tlsInsecure=0", "tlsInsecure"),
        ("authMechanism=SCRAM-SHA-512", "authMechanism"),
        ("authMechanismProperties=x", "authMechanismProperties"),
    ],
)
async def test_nothing_is_sent_and_operations_say_why(uri: str, option: str, name: str) -> None:
    deployment, records = ScriptedDeployment(["a.example.com:1"]), Records("a.example.com:1")
    client = made(f"{uri}?{option}", deployment, records)
    async with client:
        for operation in OPERATIONS:
            with pytest.raises(ConfigurationError, match=rf"nothing is sent.*\b{name}\b"):
                await operation(client)
        await anyio.sleep(60)
        assert client.stats().servers == {}
    assert deployment["a.example.com:1"].connections_made == 0
    assert records.queries == []


async def test_also_without_a_context_manager() -> None:
    deployment, records = ScriptedDeployment(["a:1"]), Records()
    client = made("mongodb://u:p@a:1/?authMechanism=none", deployment, records)
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match="nothing is sent, because the connection string is invalid: authM"
        ):
            await client.db.command("ping")
        await anyio.sleep(20)
    await client.close()
    assert deployment["a:1"].connections_made == 0


async def test_a_keyword_argument_corrects_the_connection_string() -> None:
    deployment, records = ScriptedDeployment(["a:1"]), Records()
    async with made("mongodb://a:1/?tls=maybe", deployment, records, tls=False) as client:
        await client.db.command("ping")
    await deployment.close()
    assert deployment["a:1"].connections_made
