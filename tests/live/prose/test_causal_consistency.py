"""The test plan of the causal consistency specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite import ReadConcern
from motorlite.errors import OperationFailure
from motorlite.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bson.timestamp import Timestamp

    from motorlite import AsyncClientSession, AsyncCollection
    from motorlite.testing import LocalServer

    Session = AsyncClientSession[Any]
    Collection = AsyncCollection[dict[str, Any]]
    Call = Callable[[Collection, Session], Awaitable[Any]]

pytestmark = pytest.mark.anyio

SET: Final = {"$set": {"x": 1}}
READS: Final[dict[str, Call]] = {
    "find": lambda c, s: c.find(session=s).to_list(),
    "find_one": lambda c, s: c.find_one(session=s),
    "aggregate": lambda c, s: c.aggregate([], session=s).to_list(),
    "count_documents": lambda c, s: c.count_documents({}, session=s),
    "estimated_document_count": lambda c, s: c.estimated_document_count(session=s),
    "distinct": lambda c, s: c.distinct("x", session=s),
}
WRITES: Final[dict[str, Call]] = {
    "insert_one": lambda c, s: c.insert_one({}, session=s),
    "insert_many": lambda c, s: c.insert_many([{}], session=s),
    "update_one": lambda c, s: c.update_one({}, SET, session=s),
    "update_many": lambda c, s: c.update_many({}, SET, session=s),
    "replace_one": lambda c, s: c.replace_one({}, {}, session=s),
    "delete_one": lambda c, s: c.delete_one({}, session=s),
    "delete_many": lambda c, s: c.delete_many({}, session=s),
    "find_one_and_update": lambda c, s: c.find_one_and_update({}, SET, session=s),
    "find_one_and_delete": lambda c, s: c.find_one_and_delete({}, session=s),
    "create_index": lambda c, s: c.create_index("x", session=s),
    "drop_indexes": lambda c, s: c.drop_indexes(session=s),
    "drop": lambda c, s: c.drop(session=s),
}


class Observed:
    """A collection, and what was sent and answered."""

    def __init__(self, coll: Collection, recorder: Recorder) -> None:
        self.coll = coll
        self.recorder = recorder

    @property
    def started(self) -> dict[str, Any]:
        """The last command."""
        return dict([event for event in self.recorder.events if isinstance(event, CommandStartedEvent)][-1].command)

    @property
    def concern(self) -> Any:
        return self.started.get("readConcern")

    @property
    def replied(self) -> Any:
        """The operationTime of the last reply."""
        ended = [
            event for event in self.recorder.events if isinstance(event, CommandSucceededEvent | CommandFailedEvent)
        ][-1]
        return (ended.reply if isinstance(ended, CommandSucceededEvent) else ended.failure)["operationTime"]


def observed(server: LocalServer) -> tuple[Any, Recorder]:
    recorder = Recorder(CommandStartedEvent, CommandSucceededEvent, CommandFailedEvent)
    return make_client(server, event_listeners=[recorder]), recorder


async def test_1_a_new_session_has_no_operation_time(replica_set: LocalServer) -> None:
    client, _ = observed(replica_set)
    async with client, client.start_session() as session:
        assert session.operation_time is None


async def test_2_the_first_read_sends_no_after_cluster_time(replica_set: LocalServer) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=True) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        await it.coll.find_one(session=session)
        assert it.concern is None


@pytest.mark.parametrize("causal", [True, False])
async def test_3_every_reply_updates_the_operation_time(replica_set: LocalServer, causal: bool) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=causal) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        await it.coll.find_one(session=session)
        assert session.operation_time == it.replied
        with pytest.raises(OperationFailure):
            await it.coll.find_one({"$bad": 1}, session=session)
        assert session.operation_time == it.replied
        await it.coll.insert_one({}, session=session)
        assert session.operation_time == it.replied


async def after(it: Observed, session: Session, first: Call, second: Call) -> tuple[Timestamp | None, Any]:
    """The session's time after the first operation, and the read concern of the second one."""
    await first(it.coll, session)
    time = session.operation_time
    await second(it.coll, session)
    return time, it.concern


@pytest.mark.parametrize("name", READS)
async def test_4_a_read_after_find_one(replica_set: LocalServer, name: str) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=True) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        time, concern = await after(it, session, READS["find_one"], READS[name])
        assert concern == {"afterClusterTime": time}


@pytest.mark.parametrize("name", WRITES)
async def test_5_find_one_after_a_write(replica_set: LocalServer, name: str) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=True) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        await it.coll.insert_one({})
        time, concern = await after(it, session, WRITES[name], READS["find_one"])
        assert concern == {"afterClusterTime": time}


async def test_6_a_session_that_is_not_causally_consistent(replica_set: LocalServer) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=False) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        _, concern = await after(it, session, READS["find_one"], READS["find"])
        assert concern is None


async def test_7_and_11_a_server_without_cluster_times(standalone: LocalServer) -> None:
    client, recorder = observed(standalone)
    async with client, client.start_session(causal_consistency=True) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        _, concern = await after(it, session, READS["find_one"], READS["find"])
        assert concern is None
        assert "$clusterTime" not in it.started


async def test_8_the_default_read_concern_has_no_level(replica_set: LocalServer) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=True) as session:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        time, concern = await after(it, session, READS["find_one"], READS["find"])
        assert concern == {"afterClusterTime": time}


async def test_9_another_read_concern_keeps_its_level(replica_set: LocalServer) -> None:
    client, recorder = observed(replica_set)
    async with client, client.start_session(causal_consistency=True) as session:
        coll = client.motorlite_test_causal.coll.with_options(read_concern=ReadConcern("majority"))
        it = Observed(coll, recorder)
        time, concern = await after(it, session, READS["find_one"], READS["find"])
        assert concern == {"level": "majority", "afterClusterTime": time}


async def test_12_a_server_with_cluster_times(replica_set: LocalServer) -> None:
    client, recorder = observed(replica_set)
    async with client:
        it = Observed(client.motorlite_test_causal.coll, recorder)
        for _ in range(2):
            await it.coll.find_one()
        assert "$clusterTime" in it.started
