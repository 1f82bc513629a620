"""The prose tests of the authentication specification that a real server shows: SCRAM and the negotiation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from motorlite._base.values import format_address
from motorlite._connection import handshake
from motorlite._connection.auth import scram
from motorlite.errors import OperationFailure
from tests.live.users import add_user, client, tls_options, who
from tests.support.clients import Client, make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

USERS = {"sha1": ["SCRAM-SHA-1"], "sha256": ["SCRAM-SHA-256"], "both": ["SCRAM-SHA-1", "SCRAM-SHA-256"]}
SHA_1, SHA_256 = "SCRAM-SHA-1", "SCRAM-SHA-256"


@pytest.fixture(scope="module", autouse=True)
def users(secured: LocalServer) -> None:
    for name, mechanisms in USERS.items():
        add_user(secured, name, name, mechanisms=mechanisms)
    add_user(secured, "IX", "IX", mechanisms=[SHA_256])
    add_user(secured, "\u2168", "\u2163", mechanisms=[SHA_256])


def by_uri(server: LocalServer, userinfo: str, mechanism: str | None = None) -> Client:
    hosts = ",".join(map(format_address, server.addresses))
    query = f"?authMechanism={mechanism}" if mechanism else ""
    return make_client(f"mongodb://{userinfo}@{hosts}/admin{query}", **tls_options(server))


def used_mechanisms(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which mechanism is agreed on, as the connections are made."""
    found: list[str] = []
    converse = scram.converse

    def spy(mechanism: str, *args: Any) -> Any:
        found.append(mechanism)
        return converse(mechanism, *args)

    monkeypatch.setattr(scram, "converse", spy)
    return found


@pytest.mark.parametrize(
    ("name", "mechanism"), [(name, mechanism) for name, known in USERS.items() for mechanism in (None, *known)]
)
async def test_scram_2_every_mechanism_that_a_user_has(
    secured: LocalServer, name: str, mechanism: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = used_mechanisms(monkeypatch)
    options: dict[str, Any] = {} if mechanism is None else {"authMechanism": mechanism}
    for connected in (
        client(secured, username=name, password=name, **options),
        by_uri(secured, f"{name}:{name}", mechanism),
    ):
        async with connected:
            assert (await connected["admin"].command("dbstats"))["ok"] == 1
            assert await who(connected) == [{"user": name, "db": "admin"}]
    expected = mechanism or (SHA_1 if name == "sha1" else SHA_256)
    assert used == [expected] * 2


@pytest.mark.parametrize(("name", "mechanism"), [("sha1", SHA_256), ("sha256", SHA_1)])
async def test_scram_3_a_mechanism_that_the_user_does_not_have(secured: LocalServer, name: str, mechanism: str) -> None:
    async with client(secured, username=name, password=name, authMechanism=mechanism) as connected:
        with pytest.raises(OperationFailure):
            await who(connected)


async def test_scram_3_a_user_who_does_not_exist(secured: LocalServer) -> None:
    errors = []
    for name, password in (("nobody", "pencil"), ("both", "wrong")):
        async with client(secured, username=name, password=password) as connected:
            with pytest.raises(OperationFailure) as caught:
                await who(connected)
            errors.append(caught.value)
    unknown, wrong = errors
    assert type(unknown) is type(wrong)
    assert unknown.code == wrong.code == 18


@pytest.mark.parametrize(
    ("name", "password"), [("IX", "IX"), ("IX", "I\u00adX"), ("\u2168", "IV"), ("\u2168", "I\u00adV")]
)
async def test_scram_4_saslprep(secured: LocalServer, name: str, password: str) -> None:
    for connected in (
        client(secured, username=name, password=password),
        by_uri(secured, f"{quote(name)}:{quote(password)}"),
        by_uri(secured, f"{quote(name)}:{quote(password)}", SHA_256),
    ):
        async with connected:
            assert await who(connected) == [{"user": name, "db": "admin"}]


async def test_speculative_authentication(secured: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first message travels in the handshake, which saves a round trip."""
    replies: list[Any] = []
    parse = handshake.parse_hello

    def spy(*args: Any, **arguments: Any) -> Any:
        found = parse(*args, **arguments)
        replies.append(found.speculative_reply)
        return found

    monkeypatch.setattr("motorlite._connection.establish.parse_hello", spy)
    async with client(secured, username="both", password="both") as connected:
        await who(connected)
    assert [reply for reply in replies if reply is not None]
