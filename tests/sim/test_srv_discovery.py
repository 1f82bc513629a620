"""The first operations of a client whose seeds are in SRV records."""

from __future__ import annotations

import gc
import logging
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._operations.contract import Call
from motorlite.errors import ConfigurationError, InvalidOperation, InvalidURI, PyMongoError, ServerSelectionTimeoutError
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import ScriptedDeployment
from tests.support import virtual_time
from tests.support.clients import make_client
from tests.support.core import run_command
from tests.support.srv import SRV_URI, Records, srv_client

if TYPE_CHECKING:
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

HOSTS = ("a.example.com:1", "b.example.com:1")


def replica_set() -> ScriptedDeployment:
    return ScriptedDeployment(HOSTS, replica_set="rs")


def cluster() -> ScriptedDeployment:
    return ScriptedDeployment(HOSTS, mongos=True)


async def error_of(driver: Driver, deadline: Deadline | None = None) -> PyMongoError:
    with pytest.raises(PyMongoError) as raised:
        await driver.run(None, deadline or Deadline())
    return raised.value


async def test_the_first_operation_looks_up_and_runs() -> None:
    records, deployment = Records(*HOSTS), replica_set()
    records.delay = 2.0
    async with srv_client(records, deployment) as driver:
        await anyio.sleep(5)
        assert records.queries == []
        assert driver.core.topology_description.topology_type_name == "Unknown"
        assert driver.types() == {}
        assert driver.log.words("server|topology") == []
        started = driver.now
        assert (await driver.run())["ok"] == 1
        assert driver.now == pytest.approx(started + 4.0)
        assert [query[1:] for query in records.queries] == [
            ("SRV", "_mongodb._tcp.cluster.example.com"),
            ("TXT", "cluster.example.com"),
        ]
        assert driver.types() == {"a.example.com": "RSPrimary", "b.example.com": "RSSecondary"}
        assert driver.core.options.seeds == (("a.example.com", 1), ("b.example.com", 1))
        assert driver.log.words("server|topology")[:4] == [
            "topology opened",
            "topology changed Unknown to Unknown",
            "server opening a.example.com",
            "server opening b.example.com",
        ]


async def test_a_pause_before_the_records_are_known() -> None:
    records = Records(*HOSTS)
    records.delay = 1.0
    async with srv_client(records, cluster()) as driver:
        driver.core.enter()
        topology = driver.core.topology
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            started = driver.now
            await topology.pause(started + 5)
            assert driver.now == started + 5, "the end of the look-up does not end it"
        topology.close()
        await topology.pause(driver.now + 100)
        assert driver.now < started + 100


async def test_operations_share_one_look_up() -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 1.0
    async with srv_client(records, deployment) as driver, anyio.create_task_group() as group:
        for delay in (0.0, 0.0, 0.5, 1.5):
            await anyio.sleep(delay)
            group.start_soon(driver.run)
    assert len(records.queries) == 2
    assert sum(len(server.commands("ping")) for server in deployment.servers.values()) == 4


@pytest.mark.parametrize("late", [False, True])
async def test_cancelling_the_first_operation_anywhere(late: bool) -> None:
    points = 0
    while True:
        records, deployment = Records(*HOSTS), cluster()
        records.delay = 1.0
        async with srv_client(records, deployment) as driver:
            if not await cancel_at(driver.run, points + 1, late=late):
                break
            points += 1
            assert (await driver.run())["ok"] == 1
            # The look-up that was begun has served the next operation as well.
            assert len(records.queries) == 2
    # The look-up, and the wait for a server that is known.
    assert points >= 2


async def test_options_of_the_txt_record() -> None:
    records, deployment = Records(*HOSTS, texts=["replicaSet=rs&authSource=thisDB"]), replica_set()
    async with srv_client(records, deployment) as driver:
        assert driver.core.options.replica_set is None
        assert (driver.core.stats().servers, driver.core.stats().tokens) == ({}, 1000)
        await driver.run()
        assert driver.core.options.replica_set == "rs"
        # Nothing was made without them.
        assert "topology changed Unknown to ReplicaSetNoPrimary" in driver.log.words("server|topology")[:2]
    records.texts = ["replicaSet=other&authSource=thisDB"]
    async with srv_client(records, deployment, replicaSet="rs") as driver:
        assert driver.core.topology_description.topology_type_name == "ReplicaSetNoPrimary"
        await driver.run()
        assert driver.core.options.replica_set == "rs", "options that were given win"


async def test_credentials_of_the_txt_record_are_used() -> None:
    records, deployment = Records(HOSTS[0], texts=["authSource=thisDB"]), ScriptedDeployment(HOSTS[:1])
    server = deployment[HOSTS[0]]
    server.on("saslStart", {"conversationId": 1, "done": True, "payload": b""})
    async with srv_client(records, deployment, "mongodb+srv://u:p@cluster.example.com/?authMechanism=PLAIN") as driver:
        before = driver.core.options.credentials
        assert before is not None
        assert before.source == "$external"
        await driver.run()
    (sasl,) = server.commands("saslStart")
    assert sasl["$db"] == "thisDB"


@pytest.mark.parametrize(
    ("hosts", "texts", "uri", "message"),
    [
        ([], [], "", "there are no SRV records"),
        (HOSTS, ["replicaSet"], "", "malformed"),
        (HOSTS[:1], ["loadBalanced=true"], "replicaSet=rs", "loadBalanced=True cannot be combined with replicaSet"),
        (HOSTS[:1], ["loadBalanced=true"], "srvMaxHosts=1", "srvMaxHosts=1 cannot be combined with loadBalanced"),
    ],
)
async def test_answers_that_must_not_be_followed(hosts: list[str], texts: list[str], uri: str, message: str) -> None:
    records, deployment = Records(*hosts, texts=texts), cluster()
    async with srv_client(records, deployment, f"mongodb+srv://cluster.example.com/?{uri}") as driver:
        error = await error_of(driver)
        assert isinstance(error, InvalidURI if message == "malformed" else ConfigurationError)
        assert message in str(error)
        assert error.attempts == 1
    assert not any(server.connections_made for server in deployment.servers.values())


@pytest.mark.parametrize("is_error", [False, True])
async def test_wrong_values_in_the_txt_record_warn(is_error: bool) -> None:
    """A warning that is an error reaches who waits."""
    records, deployment = Records(*HOSTS, texts=["loadBalanced=maybe"]), cluster()
    async with srv_client(records, deployment) as driver:
        if is_error:
            error = await error_of(driver)
            assert isinstance(error, ConfigurationError)
            assert "UserWarning" in str(error)
        else:
            with pytest.warns(UserWarning, match="loadBalanced"):
                await driver.run()


@pytest.mark.parametrize("kind", ["SRV", "TXT"])
async def test_a_failure_is_raised_to_all_that_wait_and_tried_again_by_the_next(kind: str) -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 1.0
    records.failures[kind] = ConfigurationError("no such thing")
    errors: list[PyMongoError] = []

    async def fail(driver: Driver) -> None:
        errors.append(await error_of(driver))

    async with srv_client(records, deployment) as driver:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(fail, driver)
        assert [str(error) for error in errors] == ["no such thing"] * 3
        assert len({id(error) for error in errors}) == 3
        assert all(error.__cause__ is records.failures[kind] for error in errors)
        assert len(records.times("SRV")) == 1
        records.failures.clear()
        await driver.run()
        assert len(records.times("SRV")) == 2


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(None, 20.0), (0, 20.0), (3000, 3.0)])
async def test_the_look_up_takes_no_longer_than_a_connection_may(timeout_ms: int | None, seconds: float) -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 1e6
    async with srv_client(records, deployment, connectTimeoutMS=timeout_ms) as driver:
        started = driver.now
        error = await error_of(driver)
        assert isinstance(error, ConfigurationError)
        assert "timed out" in str(error)
        assert driver.now == pytest.approx(started + seconds)


@pytest.mark.parametrize("limit", ["serverSelectionTimeoutMS", "deadline"])
async def test_an_operation_waits_no_longer_than_it_may(limit: str) -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 5.0
    options: dict[str, Any] = {"serverSelectionTimeoutMS": 1000} if limit != "deadline" else {}
    async with srv_client(records, deployment, **options) as driver:
        started = driver.now
        error = await error_of(driver, Deadline(started + 1.0) if limit == "deadline" else None)
        assert isinstance(error, ServerSelectionTimeoutError)
        option = "timeoutMS or motorlite.timeout()" if limit == "deadline" else limit
        assert "cluster.example.com: its SRV and TXT records were not found within" in str(error)
        assert f" s ({option})" in str(error)
        assert (error.phase, error.timeout) == ("selection", True)
        assert driver.now == pytest.approx(started + 1.0)
        # The look-up goes on for those that have more time, or come later.
        await anyio.sleep(8.5)
        await driver.run(None, Deadline(driver.now + 1.0))
        assert len(records.queries) == 2


async def test_looking_up_and_selecting_share_the_time() -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 2.0
    for server in deployment.servers.values():
        server.is_unreachable = True
    async with srv_client(records, deployment, serverSelectionTimeoutMS=10_000) as driver:
        started = driver.now
        assert isinstance(await error_of(driver), ServerSelectionTimeoutError)
        assert driver.now == pytest.approx(started + 10.0)


async def test_closing_while_operations_wait() -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 5.0
    errors: list[PyMongoError] = []

    async def fail(driver: Driver) -> None:
        errors.append(await error_of(driver))

    async with srv_client(records, deployment) as driver, anyio.create_task_group() as group:
        group.start_soon(fail, driver)
        group.start_soon(fail, driver)
        await anyio.sleep(1)
        await driver.core.close()
    assert [type(error) for error in errors] == [InvalidOperation] * 2
    assert "closed" in str(errors[0])
    await anyio.sleep(10)
    assert not any(server.connections_made for server in deployment.servers.values())


async def test_an_answer_that_comes_after_closing_makes_no_topology() -> None:
    records, deployment = Records(*HOSTS), cluster()
    async with srv_client(records, deployment) as driver:

        async def close_first(_name: str, _until: float) -> list[list[bytes]]:
            driver.core.topology.close()
            return []

        setattr(records, "txt", close_first)  # noqa: B010  # a method
        assert isinstance(await error_of(driver), InvalidOperation)
        assert driver.log.words("server|topology") == []


async def test_closing_before_the_look_up() -> None:
    records, deployment = Records(*HOSTS), cluster()
    async with srv_client(records, deployment) as driver:
        await driver.core.close()
        assert isinstance(await error_of(driver), InvalidOperation)
    assert records.queries == []


async def test_a_client_of_the_public_api() -> None:
    records, deployment = Records(*HOSTS, texts=["replicaSet=rs"]), replica_set()
    client = make_client(deployment, world={"resolver": records.resolver}, uri=SRV_URI)
    assert repr(client).startswith("AsyncMongoClient('mongodb+srv://cluster.example.com'")
    assert not client.options.seeds
    async with client:
        assert client.nodes == frozenset()
        await client.admin.command("ping")
        assert await client.primary == ("a.example.com", 1)
        assert set(client.options.seeds) == {("a.example.com", 1), ("b.example.com", 1)}
        assert client.options.replica_set == "rs"
    await deployment.close()


async def test_nothing_is_logged_when_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    records, deployment = Records(*HOSTS), cluster()
    caplog.set_level(logging.INFO)
    # Its messages about waiting are those of server selection anywhere.
    caplog.set_level(logging.WARNING, "motorlite.serverSelection")
    async with srv_client(records, deployment) as driver:
        await driver.run(run_command())
        await anyio.sleep(300)
    assert caplog.text == ""


def test_a_loop_that_ends_during_the_look_up(caplog: pytest.LogCaptureFixture) -> None:
    records, deployment = Records(*HOSTS), cluster()
    records.delay = 5.0

    async def main() -> None:
        core = make_client(deployment, world={"resolver": records.resolver}, uri=SRV_URI)._core
        core.enter()
        with anyio.move_on_after(1):
            await core.executor.execute(run_command(), Call(None, Deadline()))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in virtual_time.BACKENDS:
            backend, backend_options = virtual_time.backend(name)
            anyio.run(main, backend=backend, backend_options=backend_options)
        gc.collect()
    runs = len(virtual_time.BACKENDS)
    assert [warning.category for warning in caught] == [ResourceWarning] * runs
    assert "the client of cluster.example.com was dropped" in str(caught[0].message)
    assert caplog.text == ""
    assert len(records.queries) == runs


async def test_a_load_balancer_that_the_txt_record_names() -> None:
    """Another connection may lead to another service, so only closing it ends the cursor of a late reply."""
    records, deployment = Records(HOSTS[0], texts=["loadBalanced=true"]), ScriptedDeployment(HOSTS[:1], services=1)
    async with srv_client(records, deployment) as driver:
        await driver.run()
        reply = {"ok": 1, "cursor": {"id": 7, "ns": "db.c", "firstBatch": []}}
        assert driver.core._background.learn_late(("a.example.com", 1), reply) is False
