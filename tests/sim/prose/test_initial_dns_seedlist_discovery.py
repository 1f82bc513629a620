"""The prose tests of initial DNS seedlist discovery; the records are scripted."""

from __future__ import annotations

import pytest

from motorlite import AsyncMongoClient
from motorlite.errors import ConfigurationError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.srv import Records, srv_client

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("host", ["localhost", "mongo.local"])
async def test_1_srvs_with_fewer_than_three_parts(host: str) -> None:
    AsyncMongoClient(f"mongodb+srv://{host}")
    records, deployment = Records(f"a.{host}:1"), ScriptedDeployment([f"a.{host}:1"], mongos=True)
    async with srv_client(records, deployment, f"mongodb+srv://{host}") as driver:
        await driver.run()
        assert set(driver.types()) == {f"a.{host}"}


async def refuses(host: str, target: str) -> None:
    """Resolving `host` to `target` fails with an error that names both, and nothing is connected to."""
    records, deployment = Records(f"{target}:1"), ScriptedDeployment([f"{target}:1"], mongos=True)
    async with srv_client(records, deployment, f"mongodb+srv://{host}") as driver:
        with pytest.raises(ConfigurationError) as raised:
            await driver.run()
    assert f"_mongodb._tcp.{host}: the SRV records point to {target}, which is not below" in str(raised.value)
    assert not deployment[f"{target}:1"].connections_made


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("localhost", "localhost.mongodb"),
        ("mongo.local", "test_1.evil.local"),
        ("blogs.mongodb.com", "blogs.evil.com"),
    ],
)
async def test_2_a_target_that_does_not_end_with_the_domain(host: str, target: str) -> None:
    await refuses(host, target)


@pytest.mark.parametrize("host", ["localhost", "mongo.local"])
async def test_3_a_target_that_is_the_name_itself(host: str) -> None:
    await refuses(host, host)


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("localhost", "test_1.cluster_1localhost"),
        ("mongo.local", "test_1.my_hostmongo.local"),
        ("blogs.mongodb.com", "cluster.testmongodb.com"),
    ],
)
async def test_4_a_target_without_the_dot_before_the_domain(host: str, target: str) -> None:
    await refuses(host, target)
