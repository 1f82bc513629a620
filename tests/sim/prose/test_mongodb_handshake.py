"""The prose tests of the handshake specification that look at what is sent, or need a server of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import DriverInfo, OverloadRetry, ServerApi
from motorlite._base.version import __version__
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.auth_servers import threadless
from tests.support.clients import scripted_client
from tests.support.scram_server import ScramServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncMongoClient
    from motorlite._base.values import Document

    Fields = tuple[str, str | None, str | None]

pytestmark = pytest.mark.anyio

LIBRARY = ("library", "1.2", "Library Platform")
FRAMEWORK = ("framework", "2.0", "Framework Platform")


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"])


# --- prose tests ---


@pytest.mark.parametrize("uri_options", [{}, {"username": "user", "password": "pencil"}], ids=["none", "credentials"])
async def test_2_an_arbitrary_auth_mechanism_is_accepted(
    deployment: ScriptedDeployment, uri_options: dict[str, Any]
) -> None:
    """Prose test 2: a mechanism that nobody knows in saslSupportedMechs is no error."""
    server, scram = deployment["a:1"], ScramServer("SCRAM-SHA-256", b"pencil")
    server.hello = {"saslSupportedMechs": ["ARBITRARY", "SCRAM-SHA-256"]}
    server.on("saslStart", scram.answer)
    server.on("saslContinue", scram.answer)
    async with scripted_client(deployment, world={"runtime": threadless}, **uri_options) as client:
        assert (await client.admin.command("ping"))["ok"] == 1
    assert scram.is_authenticated is bool(uri_options)


# --- client metadata update prose tests ---


class Handshakes:
    """A client whose connections are idle after a millisecond, and the metadata that its server received."""

    def __init__(self, client: AsyncMongoClient[dict[str, Any]], deployment: ScriptedDeployment) -> None:
        self._client = client
        self._server = deployment["a:1"]

    def append(self, fields: Fields) -> None:
        self._client.append_metadata(DriverInfo(*fields))

    async def ping(self) -> Document:
        """Send a ping, wait until its connection is idle, and return what was said when that was opened."""
        assert (await self._client.admin.command("ping"))["ok"] == 1
        await anyio.sleep(0.005)
        number = self._server.received[-1].connection
        first, *later = (hello for hello in self._server.hellos if hello.connection == number)
        assert not later
        document: Document = first.document["client"]
        return document


@pytest.fixture
async def handshakes(deployment: ScriptedDeployment) -> AsyncIterator[Handshakes]:
    """A client without metadata of its own."""
    async with scripted_client(deployment, maxIdleTimeMS=1) as client:
        yield Handshakes(client, deployment)


@pytest.fixture
async def of_library(deployment: ScriptedDeployment) -> AsyncIterator[Handshakes]:
    """A client that was made by a library."""
    async with scripted_client(deployment, maxIdleTimeMS=1, driver=DriverInfo(*LIBRARY)) as client:
        yield Handshakes(client, deployment)


def joined(*parts: str | None) -> str:
    return "|".join(part for part in parts if part)


def check_appended(before: Document, after: Document, *, fields: Fields) -> None:
    """`after` is `before` with `fields` appended, and the driver's own values stand in front."""
    name, version, platform = fields
    assert after["driver"]["name"] == joined("motorlite|library", name)
    assert after["driver"]["version"] == joined(f"{__version__}|1.2", version)
    assert after["platform"] == joined(before["platform"], platform)
    assert before["platform"].endswith("|Library Platform")
    assert set(after) == set(before)
    for field in set(before) - {"driver", "platform"}:
        assert after[field] == before[field]


FRAMEWORKS = pytest.mark.parametrize(
    "fields",
    [FRAMEWORK, ("framework", "2.0", None), ("framework", None, "Framework Platform"), ("framework", None, None)],
    ids=["case 1", "case 2", "case 3", "case 4"],
)


@FRAMEWORKS
async def test_metadata_1_the_driver_updates_metadata(of_library: Handshakes, fields: Fields) -> None:
    """Client metadata update prose test 1: appended to what the client was made with."""
    before = await of_library.ping()
    of_library.append(fields)
    check_appended(before, await of_library.ping(), fields=fields)


@FRAMEWORKS
async def test_metadata_2_multiple_successive_updates(handshakes: Handshakes, fields: Fields) -> None:
    """Client metadata update prose test 2: appended to what was appended."""
    handshakes.append(LIBRARY)
    before = await handshakes.ping()
    handshakes.append(fields)
    check_appended(before, await handshakes.ping(), fields=fields)


@pytest.mark.parametrize(
    "fields",
    [
        LIBRARY,
        ("framework", "1.2", "Library Platform"),
        ("library", "2.0", "Library Platform"),
        ("library", "1.2", "Framework Platform"),
        ("framework", "2.0", "Library Platform"),
        ("framework", "1.2", "Framework Platform"),
        ("library", "2.0", "Framework Platform"),
    ],
    ids=[f"case {number}" for number in range(1, 8)],
)
async def test_metadata_3_successive_updates_with_duplicate_data(handshakes: Handshakes, fields: Fields) -> None:
    """Client metadata update prose test 3: only what is the same in all its fields is a duplicate."""
    handshakes.append(LIBRARY)
    before = await handshakes.ping()
    handshakes.append(fields)
    appended: Fields = ("", None, None) if fields == LIBRARY else fields
    check_appended(before, await handshakes.ping(), fields=appended)


async def test_metadata_4_multiple_updates_with_duplicate_data(handshakes: Handshakes) -> None:
    """Client metadata update prose test 4: a duplicate of what was not appended last."""
    handshakes.append(LIBRARY)
    await handshakes.ping()
    handshakes.append(FRAMEWORK)
    before = await handshakes.ping()
    handshakes.append(LIBRARY)
    assert await handshakes.ping() == before


async def test_metadata_5_identical_to_initial_metadata(of_library: Handshakes) -> None:
    """Client metadata update prose test 5: a duplicate of what the client was made with."""
    before = await of_library.ping()
    of_library.append(LIBRARY)
    assert await of_library.ping() == before
    assert before["driver"]["name"] == "motorlite|library"


async def test_metadata_6_identical_to_initial_metadata_with_others_between(of_library: Handshakes) -> None:
    """Client metadata update prose test 6: the same after another one was appended."""
    await of_library.ping()
    of_library.append(("framework", "1.2", "Library Platform"))
    before = await of_library.ping()
    assert before["driver"]["name"] == "motorlite|library|framework"
    of_library.append(LIBRARY)
    assert await of_library.ping() == before


# Case 1 is struck out in the specification: the name must be given.
EMPTY = pytest.mark.parametrize(
    ("first", "then"),
    [
        (("library", None, "Library Platform"), ("library", "", "Library Platform")),
        (("library", "1.2", None), ("library", "1.2", "")),
    ],
    ids=["case 2", "case 3"],
)


@EMPTY
async def test_metadata_7_empty_strings_are_unset(handshakes: Handshakes, first: Fields, then: Fields) -> None:
    """Client metadata update prose test 7: an empty string makes no difference."""
    handshakes.append(first)
    before = await handshakes.ping()
    handshakes.append(then)
    assert await handshakes.ping() == before
    assert before["driver"]["name"] == "motorlite|library"


@EMPTY
async def test_metadata_8_empty_strings_are_unset_in_initial_metadata(
    deployment: ScriptedDeployment, first: Fields, then: Fields
) -> None:
    """Client metadata update prose test 8: nor where the client was made with the other one."""
    async with scripted_client(deployment, maxIdleTimeMS=1, driver=DriverInfo(*first)) as client:
        found = Handshakes(client, deployment)
        before = await found.ping()
        found.append(then)
        assert await found.ping() == before
        assert before["driver"]["name"] == "motorlite|library"


@pytest.mark.parametrize(
    ("policy", "announced"), [(None, True), (OverloadRetry.revision_2026_07(), "2")], ids=["default", "newest"]
)
@pytest.mark.parametrize("api", [None, ServerApi("1")], ids=["legacy hello", "hello"])
@pytest.mark.parametrize("streaming", [False, True], ids=["polling", "streaming"])
@pytest.mark.parametrize("topology", ["standalone", "replica set", "sharded"])
async def test_metadata_9_handshakes_announce_backpressure(
    topology: str, streaming: bool, api: ServerApi | None, policy: OverloadRetry | None, announced: bool | str
) -> None:
    """Client metadata update prose test 9: with the numbers of the newest revision its version is announced.

    The default numbers are those of the revision with a token bucket, whose servers are told ``true``.
    """
    arguments: dict[str, Any] = {"replica_set": "rs"} if topology == "replica set" else {}
    deployment = ScriptedDeployment(["a:1"], mongos=topology == "sharded", streaming=streaming, **arguments)
    server = deployment["a:1"]
    async with scripted_client(deployment, overload_policy=policy, server_api=api) as client:
        assert (await client.admin.command("ping"))["ok"] == 1
        # Long enough for the measurement of round-trip times to connect, and for two more checks by each monitor.
        await anyio.sleep(25)
    connections: dict[int, list[Document]] = {}
    for hello in server.hellos:
        connections.setdefault(hello.connection, []).append(hello.document)
    assert len(connections) == (3 if streaming else 2)
    for first, *later in connections.values():
        assert first["backpressure"] == announced
        assert first["client"]["driver"]["name"] == "motorlite"
        assert not [document for document in later if "backpressure" in document or "client" in document]
    assert max(len(hellos) for hellos in connections.values()) >= 3
    assert not [command for command in server.commands() if "backpressure" in command]
