"""The prose tests of polling SRV records: a sharded cluster with four mongos servers and scripted records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest
from bson import ObjectId

from motorlite._options.srv import MIN_RESCAN_INTERVAL
from motorlite.errors import ConfigurationError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.dns_zone import HERE
from tests.support.srv import Records, srv_client

if TYPE_CHECKING:
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

PORTS: Final = (27017, 27018, 27019, 27020)
TWO: Final = (27017, 27018)
TEST1: Final = "mongodb+srv://test1.test.build.10gen.cc/"


def names(*ports: int) -> list[str]:
    return [f"{HERE}:{port}" for port in ports]


def ports(driver: Driver) -> list[int]:
    """Of the servers in the topology."""
    return sorted(port for _, port in driver.core.topology_description.server_descriptions() if port is not None)


async def after_change(records: Records, *after: int, uri: str = TEST1, **options: Any) -> list[int]:
    """The ports in the topology, when the records have changed and two intervals have passed."""
    async with srv_client(records, ScriptedDeployment(names(*PORTS), mongos=True), uri, **options) as driver:
        await driver.run()
        assert ports(driver) == sorted(port for _, port in records.hosts if port is not None)
        records.set(*names(*after))
        await anyio.sleep(2 * MIN_RESCAN_INTERVAL)
        assert len(records.times("SRV")) > 1
        return ports(driver)


async def test_1_addition_of_a_record() -> None:
    assert await after_change(Records(*names(*TWO)), 27017, 27018, 27019) == [27017, 27018, 27019]


async def test_2_removal_of_a_record() -> None:
    assert await after_change(Records(*names(*TWO)), 27017) == [27017]


async def test_3_replacement_of_a_record() -> None:
    assert await after_change(Records(*names(*TWO)), 27017, 27019) == [27017, 27019]


async def test_4_replacement_of_both_records_with_one() -> None:
    assert await after_change(Records(*names(*TWO)), 27019) == [27019]


async def test_5_replacement_of_both_records_with_two() -> None:
    assert await after_change(Records(*names(*TWO)), 27019, 27020) == [27019, 27020]


async def stays_when_queries_fail(**changes: Any) -> None:
    """The topology keeps its servers, also when the records would be others by now."""
    records = Records(*names(*TWO))
    async with srv_client(records, ScriptedDeployment(names(*PORTS), mongos=True), TEST1) as driver:
        await driver.run()
        for name, value in {"hosts": [(HERE, 27019)], **changes}.items():
            setattr(records, name, value)
        await anyio.sleep(2 * MIN_RESCAN_INTERVAL)
        assert len(records.times("SRV")) > 2
        assert ports(driver) == list(TWO)
        assert (await driver.run())["ok"] == 1


async def test_6_time_out_of_the_query() -> None:
    await stays_when_queries_fail(delay=1e6)


async def test_7_failure_of_the_query() -> None:
    await stays_when_queries_fail(failures={"SRV": ConfigurationError("the name does not exist")})


async def test_8_removal_of_all_records() -> None:
    await stays_when_queries_fail(hosts=[])


async def test_9_no_polling_behind_a_load_balancer() -> None:
    records, deployment = Records(*names(27017)), ScriptedDeployment(names(*PORTS), mongos=True)
    for server in deployment.servers.values():
        server.hello = {"serviceId": ObjectId()}
    uri = "mongodb+srv://test3.test.build.10gen.cc/?loadBalanced=true"
    async with srv_client(records, deployment, uri) as driver:
        await driver.run()
        records.set(*names(*TWO))
        await anyio.sleep(2 * MIN_RESCAN_INTERVAL)
        assert ports(driver) == [27017]
        assert len(records.times("SRV")) == 1


async def test_10_all_records_are_selected_without_a_limit() -> None:
    found = await after_change(Records(*names(*TWO)), 27017, 27019, 27020, srvMaxHosts=0)
    assert found == [27017, 27019, 27020]


async def test_11_all_records_are_selected_within_the_limit() -> None:
    assert await after_change(Records(*names(*TWO)), 27019, 27020, srvMaxHosts=2) == [27019, 27020]


@pytest.mark.parametrize(("number", "chosen"), [(0, 27019), (1, 27020)])
async def test_12_new_records_are_selected_at_random(number: int, chosen: int) -> None:
    world = {"below": lambda limit: min(number, limit - 1)}
    found = await after_change(Records(*names(*TWO)), 27017, 27019, 27020, srvMaxHosts=2, world=world)
    assert found == [27017, chosen]


async def test_13_a_service_name_of_its_own() -> None:
    records = Records(*names(*TWO))
    uri = "mongodb+srv://test22.test.build.10gen.cc/?srvServiceName=customname"
    assert await after_change(records, 27019, 27020, uri=uri) == [27019, 27020]
    asked = {name for _, kind, name in records.queries if kind == "SRV"}
    assert asked == {"_customname._tcp.test22.test.build.10gen.cc"}
