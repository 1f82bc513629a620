"""Clients of a scripted deployment, by public means alone."""

from __future__ import annotations

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite.errors import ConfigurationError, NetworkTimeout, OperationFailure
from motorlite.operations import DeleteOne
from motorlite.retry import BestEffort
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure, overloaded

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FOUND = {"cursor": {"id": 0, "ns": "shop.parts", "firstBatch": [{"_id": 7}]}}


async def test_a_client_of_the_deployment() -> None:
    async with ScriptedDeployment(["a:1", "b:1"], replica_set="rs") as deployment:
        deployment["a:1"].on("find", FOUND)
        async with deployment.client(appname="shop", timeoutMS=5_000) as client:
            assert type(client) is AsyncMongoClient
            assert await client.shop.parts.find_one(7) == {"_id": 7}
            (command,) = deployment["a:1"].commands("find")
            assert (command["filter"], command["maxTimeMS"]) == ({"_id": 7}, 5_000)
            assert deployment["a:1"].hellos[0].document["client"]["application"] == {"name": "shop"}
            assert {str(address) for address in client.nodes} == {"('a', 1)", "('b', 1)"}
        assert not deployment["a:1"].open_connections


async def test_before_an_event_loop_runs_and_without_a_block() -> None:
    deployment = ScriptedDeployment()
    client = deployment.client()
    assert await client.admin.command("ping") == {"ok": 1, "n": 1}
    await client.close()
    await deployment.close()


@pytest.mark.parametrize(("jitter", "seconds"), [(0, 0.0), (0.5, 0.15), (1, 0.3), (None, None)])
async def test_a_jitter_of_the_test(jitter: float | None, seconds: float | None) -> None:
    delays = set()
    async with ScriptedDeployment() as deployment, deployment.client(jitter=jitter) as client:
        await client.admin.command("ping")
        for _ in range(5):
            deployment["a:1"].on("find", overloaded(), overloaded(), FOUND)
            started = anyio.current_time()
            assert await client.shop.parts.find_one() == {"_id": 7}
            delays.add(round(anyio.current_time() - started, 9))
    if seconds is None:
        # Otherwise it is random.
        assert len(delays) == 5
        assert max(delays) < 0.3
    else:
        assert delays == {seconds}


def test_a_jitter_out_of_range() -> None:
    for jitter in (-0.1, 1.1):
        with pytest.raises(ValueError, match="jitter must be a number from 0 to 1"):
            ScriptedDeployment().client(jitter=jitter)


async def test_a_connection_string_of_the_test() -> None:
    async with ScriptedDeployment(["a:1", "b:1"], replica_set="rs") as deployment:
        deployment["a:1"].on("find", failure(6, "RetryableWriteError"))
        async with deployment.client("mongodb://b:1/shop?replicaSet=rs&retryReads=false") as client:
            with pytest.raises(OperationFailure):
                await client.get_default_database().parts.find_one()
        assert len(deployment["a:1"].commands("find")) == 1


async def test_options_are_those_of_every_client() -> None:
    deployment = ScriptedDeployment()
    strategy = BestEffort()
    assert deployment.client(retry_strategy=strategy).options.retry_strategy is strategy
    with pytest.raises(ConfigurationError, match="maxPoolsize"):
        deployment.client(maxPoolsizes=3)  # type: ignore[call-arg]
    with pytest.warns(UserWarning, match="retries pile up") as caught:
        deployment.client(socketTimeoutMS=300)
    assert caught[0].filename == __file__


async def test_several_clients_share_a_deployment() -> None:
    async with ScriptedDeployment() as deployment:
        deployment["a:1"].on("find", Reply(FOUND, 3))
        async with deployment.client() as one, deployment.client() as other:
            started = anyio.current_time()
            async with anyio.create_task_group() as group:
                group.start_soon(one.shop.parts.find_one)
                group.start_soon(other.shop.parts.find_one)
            assert anyio.current_time() - started == pytest.approx(3)
            assert len({item.connection for item in deployment["a:1"].received if item.name == "find"}) == 2
        # What one client asked for is answered, whichever clients have come and gone.
        async with deployment.client() as third:
            assert await third.shop.parts.find_one() == {"_id": 7}


async def test_a_deployment_outlives_its_clients_and_can_be_used_again_after_its_end() -> None:
    deployment = ScriptedDeployment()
    before = len(anyio.get_running_tasks())
    for _ in range(2):
        deployment["a:1"].on("find", Reply(FOUND, 60), Reply(FOUND, 1))
        async with deployment:
            # Each client may have answers that are still on their way.
            for _ in range(2):
                async with deployment.client(socketTimeoutMS=500, killAbandoned=True, retryReads=False) as client:
                    with pytest.raises(NetworkTimeout):
                        await client.shop.parts.find_one()
        assert len(anyio.get_running_tasks()) == before


async def test_an_empty_document_is_an_answer() -> None:
    async with ScriptedDeployment() as deployment, deployment.client() as client:
        deployment["a:1"].on("ping", {})
        assert await client.admin.command("ping") == {"ok": 1}


async def test_a_bulk_write_without_a_script() -> None:
    async with ScriptedDeployment(replica_set="rs", wire_version=25) as deployment, deployment.client() as client:
        result = await client.bulk_write([DeleteOne({}, namespace="shop.parts")])
    assert (result.acknowledged, result.deleted_count) == (True, 0)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("Db-1.Example.com:5", ("db-1.example.com", 5)), ("a", ("a", 27017)), ("[::1]:5", ("::1", 5))],
)
async def test_addresses_are_those_of_connection_strings(address: str, expected: tuple[str, int]) -> None:
    async with ScriptedDeployment([address], replica_set="rs") as deployment, deployment.client() as client:
        await client.admin.command("ping")
        assert client.nodes == {expected}
        assert deployment[address].commands("ping")
        with pytest.raises(ValueError, match="':' is not a host and a port"):
            deployment.add(":")
