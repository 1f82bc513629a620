"""The examples of methods in the API reference, run against a real server on both event loops.

Every public method of the handles has one. Where the server is too old, a scripted core replies instead.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson.codec_options import CodecOptions

from motorlite import AsyncMongoClient
from motorlite.encryption import AsyncClientEncryption
from motorlite.testing.scripted import ScriptedDeployment
from scripts.site.examples import CLASSES, FOLDER, Example, examples
from tests.support.clients import scripted_client
from tests.support.data_keys import PROVIDERS
from tests.support.fake_core import batch, fake_client
from tests.support.handles import HANDLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

PARTS: Final = (
    {"_id": 1, "name": "bolt", "stock": 10},
    {"_id": 2, "name": "nut", "stock": 20},
    {"_id": 3, "name": "screw", "stock": 30},
)
PRINTED: Final = re.compile(r"^ *# > (.*)$", re.MULTILINE)
# What servers of the tests do not have: the search of Atlas, and bulk writes of clients.
COUNTS: Final = {"nErrors": 0, "nInserted": 1, "nMatched": 0, "nModified": 0, "nUpserted": 1, "nDeleted": 0}
REPLIES: Final[dict[str, list[Any]]] = {
    "AsyncMongoClient.bulk_write": [batch([], 0) | COUNTS],
    "AsyncCollection.create_search_index": [{"ok": 1, "indexesCreated": [{"id": "1", "name": "by_name"}]}],
    "AsyncCollection.create_search_indexes": [{"ok": 1, "indexesCreated": [{"id": "1", "name": "by_name"}]}],
    "AsyncCollection.drop_search_index": [{"ok": 1}],
    "AsyncCollection.list_search_indexes": [batch([{"name": "by_name", "status": "READY"}])],
    "AsyncCollection.update_search_index": [{"ok": 1}],
}

EXPLAINED: Final = (*HANDLES, AsyncClientEncryption)
# For MongoDB 7.0.
OF_LATER_SERVERS: Final = "AsyncClientEncryption.create_encrypted_collection"


def methods(handle: type) -> dict[str, Any]:
    """The public methods of a class by name, and the function that each is."""
    return {
        name: found
        for name in dir(handle)
        if not name.startswith("_") and inspect.isfunction(found := inspect.getattr_static(handle, name))
    }


def test_every_method_of_the_handles_has_an_example() -> None:
    """Cursors share some methods: one example is enough for what is one function."""
    shown = {str(example) for example in examples()}
    explained = {
        methods(handle).get(name)
        for handle in EXPLAINED
        for name in methods(handle)
        if f"{handle.__name__}.{name}" in shown
    }
    missing = [
        f"{handle.__name__}.{name}"
        for handle in EXPLAINED
        for name, found in methods(handle).items()
        if found not in explained
    ]
    assert missing == []


def test_every_example_is_about_a_method() -> None:
    known = {f"{handle.__name__}.{name}" for handle in EXPLAINED for name in methods(handle)}
    assert {str(example) for example in examples()} <= known
    assert set(CLASSES) == {path.stem for path in FOLDER.glob("*.py")}
    assert set(REPLIES) <= known


def test_examples_are_short() -> None:
    assert [str(example) for example in examples() if example.text.count("\n") > 15] == []


@pytest.fixture
def shop(replica_set: LocalServer) -> Iterator[LocalServer]:
    """A server with three parts in the database `shop`."""
    replica_set.command({"insert": "parts", "documents": list(PARTS)}, "shop")
    yield replica_set
    replica_set.command({"dropDatabase": 1}, "shop")


def function(example: Example, address: str) -> Any:
    """The function of an example, which connects to this address."""
    source = (FOLDER / f"{example.file}.py").read_text(encoding="utf-8").replace("localhost:27017", address)
    names: dict[str, Any] = {}
    exec(compile(source, f"{example.file}.py", "exec", dont_inherit=True), names)
    return names[example.method]


RUN: Final = [each for each in examples() if str(each) not in {*REPLIES, OF_LATER_SERVERS}]


@pytest.mark.anyio
@pytest.mark.parametrize("example", RUN, ids=str)
async def test_an_example_prints_what_it_says(
    example: Example, shop: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    host, port = next(iter(shop.addresses))
    async with (
        AsyncMongoClient(shop.uri) as client,
        client.start_session() as session,
        AsyncClientEncryption(PROVIDERS, "shop.keys", client, CodecOptions[Any]()) as encryption,
    ):
        given = {
            "client": client,
            "shop": client.shop,
            "parts": client.shop.parts,
            "session": session,
            "encryption": encryption,
        }
        await function(example, f"{host}:{port}")(given[example.argument])
    assert capsys.readouterr().out.splitlines() == PRINTED.findall(example.text)


@pytest.mark.anyio
@pytest.mark.parametrize("example", [each for each in examples() if str(each) in REPLIES], ids=str)
async def test_an_example_for_another_server_prints_what_it_says(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    client, core = fake_client()
    core.reply(*REPLIES[str(example)])
    await function(example, "")({"client": client, "parts": client.shop.parts}[example.argument])
    assert capsys.readouterr().out.splitlines() == PRINTED.findall(example.text)


@pytest.mark.anyio
async def test_the_example_for_a_later_server_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [each for each in examples() if str(each) == OF_LATER_SERVERS]
    async with scripted_client(ScriptedDeployment(wire_version=21)) as client:
        await function(example, "")(client.shop)
    assert capsys.readouterr().out.splitlines() == PRINTED.findall(example.text)
