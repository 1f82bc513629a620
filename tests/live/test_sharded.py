"""The driver on two mongos (a facade: spec-tests/README.md): which one it chooses, stays with, and does without."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from anyio import create_task_group, current_time, sleep

from motorlite import ReadPreference
from motorlite._base.values import format_address
from motorlite._sessions.session import Transaction
from motorlite.errors import OperationFailure
from motorlite.monitoring import CommandStartedEvent
from motorlite.testing import FaultProxy, failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.mongos.cluster import Cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from motorlite.client_session import AsyncClientSession
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

NO_SUCH_TRANSACTION: Final = 251


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    """A proxy in front of the first mongos."""
    with FaultProxy(cluster.addresses[0]) as found:
        yield found


def uri_behind(proxy: FaultProxy, cluster: Cluster) -> str:
    """The connection string of the cluster, with the proxy instead of the first mongos."""
    return f"mongodb://{format_address(proxy.address)},{format_address(cluster.addresses[1])}/"


async def both_known(client: Client) -> None:
    await client.aconnect()
    await until(lambda: len(client.topology_description.known_servers) == 2)


def places(record: Recorder, name: str) -> Counter[Any]:
    """How many commands each mongos got."""
    return Counter(event.connection_id for event in record.events if event.command_name == name)


async def test_every_batch_comes_from_the_mongos_that_has_the_cursor(cluster: Cluster, database_name: str) -> None:
    """The other one would answer CursorNotFound."""
    record = Recorder(CommandStartedEvent)
    async with make_client(cluster.uri, localThresholdMS=10_000, event_listeners=[record]) as client:
        await both_known(client)
        coll = client[database_name].coll
        await coll.insert_many(numbered(6))
        cursors = []

        async def open_one() -> None:
            cursors.append(await coll.find(sort={"_id": 1}, batch_size=2))

        # At the same time: each goes to the less busy mongos. One after the other, chance could send all to the same.
        async with create_task_group() as group:
            for _ in range(10):
                group.start_soon(open_one)
        for _ in range(5):
            for cursor in cursors:
                await cursor.next()
        for cursor in cursors[:5]:
            assert await cursor.to_list() == [{"_id": 5}]
        for cursor in cursors[5:]:
            await cursor.close()
    assert len(places(record, "find")) == 2


async def test_operations_go_on_without_a_mongos_that_is_lost(
    cluster: Cluster, proxy: FaultProxy, database_name: str
) -> None:
    """Each is retried at most once, on the other one; when the first is back, both are used."""
    record = Recorder(CommandStartedEvent)
    options: dict[str, Any] = {"localThresholdMS": 10_000, "heartbeatFrequencyMS": 500, "event_listeners": [record]}
    async with make_client(uri_behind(proxy, cluster), **options) as client:
        await both_known(client)
        coll = client[database_name].coll
        ends = current_time() + 0.3
        inserted = 0

        async def insert() -> None:
            nonlocal inserted
            while current_time() < ends:
                await coll.insert_one({})
                inserted += 1

        async with create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(insert)
            await sleep(0.1)
            proxy.refuse()
            proxy.reset()
        assert await coll.count_documents({}) == inserted
        proxy.heal()
        await both_known(client)
        record.clear()
        for _ in range(40):
            await coll.find_one()
    assert places(record, "find").keys() == {proxy.address, cluster.addresses[1]}


def preferring(proxy: FaultProxy) -> Callable[[list[Any]], list[Any]]:
    """A selector that chooses the mongos behind the proxy as long as it is there."""
    return lambda servers: [server for server in servers if server.address == proxy.address] or servers


async def test_the_other_mongos_recovers_a_commit_whose_reply_was_lost(
    cluster: Cluster, proxy: FaultProxy, database_name: str
) -> None:
    record = Recorder(CommandStartedEvent)
    options: dict[str, Any] = {"server_selector": preferring(proxy), "event_listeners": [record]}
    async with make_client(uri_behind(proxy, cluster), **options) as client:
        await both_known(client)
        coll = client[database_name].coll
        async with client.start_session() as session:
            session.start_transaction()
            await coll.insert_one({"_id": 1}, session=session)
            await coll.insert_one({"_id": 2}, session=session)
            proxy.cut_after(1, "client")
            await session.commit_transaction()
        assert await coll.find(sort={"_id": 1}).to_list() == numbered(3)[1:]
    assert places(record, "insert") == {proxy.address: 2}
    assert places(record, "commitTransaction") == {proxy.address: 1, cluster.addresses[1]: 1}


async def test_a_transaction_whose_mongos_is_lost_begins_again_on_the_other_one(
    cluster: Cluster, proxy: FaultProxy, database_name: str
) -> None:
    """The commit never reaches the shard; the other mongos finds that out, and makes sure of it."""
    record = Recorder(CommandStartedEvent)
    options: dict[str, Any] = {"server_selector": preferring(proxy), "event_listeners": [record]}
    async with make_client(uri_behind(proxy, cluster), **options) as client:
        await both_known(client)
        coll = client[database_name].coll
        runs = 0

        async def insert(session: AsyncClientSession) -> None:
            nonlocal runs
            runs += 1
            await coll.insert_one({"_id": 1}, session=session)
            if runs == 1:
                proxy.refuse()
                proxy.reset()

        async with client.start_session() as session:
            await session.with_transaction(insert)
        assert await coll.find().to_list() == [{"_id": 1}]
    assert runs == 2
    assert places(record, "insert") == {proxy.address: 1, cluster.addresses[1]: 1}
    assert places(record, "commitTransaction")[cluster.addresses[1]] == 2


async def test_a_driver_that_does_not_pin_is_found_out(
    cluster: Cluster, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statements come to both mongos, and the one that did not begin the transaction refuses them."""
    monkeypatch.setattr(Transaction, "address", property(lambda _: None, lambda _, _address: None))
    async with make_client(cluster.uri, localThresholdMS=10_000) as client:
        await both_known(client)

        async def insert_many_times(session: AsyncClientSession) -> None:
            for number in range(30):
                await client[database_name].coll.insert_one({"_id": number}, session=session)

        async with client.start_session() as session:
            session.start_transaction()
            with pytest.raises(OperationFailure) as caught:
                await insert_many_times(session)
    assert caught.value.code == NO_SUCH_TRANSACTION
    assert caught.value.has_error_label("TransientTransactionError")


async def test_a_mongos_applies_the_read_preference(replica_set3: LocalServer, fail: Fail) -> None:
    fails = failpoints.fail_command(["find"], error_code=11, namespace="motorlite_test.coll")
    fail(replica_set3, fails, replica_set3.wait_for_primary())
    with Cluster(replica_set3) as cluster:
        async with make_client(cluster.uri) as client:
            coll = client.motorlite_test.coll
            with pytest.raises(OperationFailure):
                await coll.find_one()
            for preference in (ReadPreference.SECONDARY, ReadPreference.SECONDARY_PREFERRED):
                await coll.with_options(read_preference=preference).find_one()
