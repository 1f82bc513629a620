"""Compression against a scripted server: what is negotiated, what is compressed, on which connections."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncMongoClient
from motorlite._net.current import current_runtime
from motorlite._net.runtime import WaitTimeout
from motorlite._operations.single_writes import Insert
from motorlite._wire.compression import Zlib
from motorlite.errors import ExecutionTimeout, ProtocolError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.core import FOUND, driver, find, insert
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.testing.scripted import ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def deployment() -> ScriptedDeployment:
    found = ScriptedDeployment(["a:1"])
    found["a:1"].compressors = ["snappy", "zlib"]
    found["a:1"].on("find", FOUND)
    return found


def compressors_of(server: ScriptedServer, name: str) -> list[str | None]:
    return [received.compressor for received in server.received if received.name == name]


@pytest.mark.parametrize(
    ("ours", "used"),
    [
        (["zlib"], "zlib"),
        (["zstd", "zlib", "snappy"], "zlib"),
        (["snappy", "zlib"], "snappy"),
        (["zstd"], None),
        ([], None),
    ],
    ids=lambda value: str(value),
)
async def test_negotiation(deployment: ScriptedDeployment, ours: list[str], used: str | None) -> None:
    server = deployment["a:1"]
    async with driver(deployment, compressors=ours, connect=False) as client:
        assert (await client.run(find())).reply.documents == [{"_id": 1}]
        await client.run(insert())
        (connection,) = client.server("a").pool.state.idle
        assert (type(connection.stream).__name__ == "MemoryStream") is (used is None), "no cost where there is no use"
    assert compressors_of(server, "find") == [used]
    assert compressors_of(server, "insert") == [used]
    offers = {received.connection: received.document["compression"] for received in server.hellos}
    assert list(offers.values()) == [[], ours], "the monitor's connection, which came first, and the pool's"


async def test_the_reply_to_hello_may_be_compressed(deployment: ScriptedDeployment) -> None:
    """But not on a monitor's connection, which offers none."""
    server = deployment["a:1"]
    async with driver(deployment, compressors=["zlib"], connect=False) as client:
        await client.run(find())
        server.reply_compressor = Zlib()
        client.server("a").pool.state.idle[0].stream.abort()
        assert (await client.run(find())).reply.documents == [{"_id": 1}]
        assert client.types() == {"a": "Standalone"}
        monitor = client.server("a").monitor
        assert monitor is not None
        monitor.request_check()
        await until(lambda: client.types() == {"a": "Unknown"})
        assert isinstance(client.description("a").error, ProtocolError)
        assert "opcode 2012" in str(client.description("a").error)


async def test_streaming_monitors_are_not_compressed() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", streaming=True)
    server = deployment["a:1"]
    server.compressors = ["zlib"]
    async with driver(deployment, compressors=["zlib"], connect=False) as client:
        await client.run(find())
        awaited = len(server.hellos)
        deployment.step_down(None)
        server.announce()
        await until(lambda: client.types() == {"a": "RSOther"} or client.types() == {"a": "RSSecondary"})
        assert len(server.hellos) == awaited, "exhaust"
    assert {received.compressor for received in server.hellos} == {None}
    assert compressors_of(server, "find") == ["zlib"]


def test_a_missing_library_is_told_and_the_compressor_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "snappy", None)
    with pytest.warns(UserWarning, match=r"^compressor 'snappy' is ignored: it needs motorlite\[snappy\]$") as told:
        found: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://a/?compressors=snappy,zlib")
    assert [warning.filename for warning in told] == [__file__]
    core: Any = found._core
    assert [compressor.name for compressor in core._compressors] == ["zlib"]


def test_the_level_of_zlib_reaches_the_compressor() -> None:
    found: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://a/?zlibCompressionLevel=9", compressors="zlib")
    core: Any = found._core
    (compressor,) = core._compressors
    assert compressor.compress(b"text " * 200) == zlib.compress(b"text " * 200, 9) != zlib.compress(b"text " * 200)


async def test_compressing_counts_against_the_deadline_and_not_against_the_socket(
    deployment: ScriptedDeployment,
) -> None:
    """A large request is compressed in a thread, which here takes two seconds."""

    def slow() -> Any:
        runtime: Any = current_runtime()

        async def in_thread(function: Callable[[], Any], until: float) -> Any:
            await runtime.sleep(min(2.0, until - runtime.now()))
            if runtime.now() >= until:
                raise WaitTimeout
            return function()

        runtime.run_in_thread = in_thread
        return runtime

    server = deployment["a:1"]
    large = Insert("db", "coll", {"text": "x" * 300_000})
    async with driver(deployment, compressors=["zlib"], socketTimeoutMS=1000, world={"runtime": slow}) as client:
        begin = client.core.now()
        await client.run(large)
        assert client.core.now() - begin == pytest.approx(2), "the socket's limit begins when something is written"
        assert compressors_of(server, "insert") == ["zlib"]
        client.recorder.clear()
        begin = client.core.now()
        with pytest.raises(ExecutionTimeout) as caught:
            await client.run(large, timeout=0.5)
        assert client.core.now() - begin == pytest.approx(0.5)
        assert (caught.value.phase, caught.value.timeout, caught.value.reached_server) == (
            "before sending",
            True,
            False,
        )
        assert caught.value.client_limit == 0.5
        assert len(compressors_of(server, "insert")) == 1, "nothing was sent"
        assert not client.recorder.command_events
        # So nothing is wrong with the connection.
        assert len(client.server().pool.state.idle) == 1
        await client.run(find())
    assert server.connections_made == 2, "the monitor's and this one"
