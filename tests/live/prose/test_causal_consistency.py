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
    from collections.abc import AsyncIterator, Awaitable, Callable

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
    """A client with a collection, and what was sent and answered."""

    def __init__(self, server: LocalServer) -> None:
        self._recorder = Recorder(CommandStartedEvent, CommandSucceededEvent, CommandFailedEvent)
        self.client = make_client(server, event_listeners=[self._recorder])
        self.coll: Collection = self.client.motorlite_test_causal.coll

    @property
    def started(self) -> dict[str, Any]:
        """The last command."""
        return dict(self._recorder.started_events[-1].command)

    @property
    def concern(self) -> Any:
        return self.started.get("readConcern")

    @property
    def replied(self) -> Any:
        """The operationTime of the last reply."""
        ended = self._recorder.ended_events[-1]
        return (ended.reply if isinstance(ended, CommandSucceededEvent) else ended.failure)["operationTime"]

    async def after(self, first: Call, second: Call, session: Session) -> tuple[Timestamp | None, Any]:
        """The session's time after the first operation, and the read concern of the second one."""
        await first(self.coll, session)
        time = session.operation_time
        await second(self.coll, session)
        return time, self.concern


@pytest.fixture
async def it(replica_set: LocalServer) -> AsyncIterator[Observed]:
    observed = Observed(replica_set)
    async with observed.client:
        yield observed


@pytest.fixture
async def session(it: Observed) -> AsyncIterator[Session]:
    """A causally consistent one."""
    async with it.client.start_session(causal_consistency=True) as session:
        yield session


async def test_1_a_new_session_has_no_operation_time(session: Session) -> None:
    assert session.operation_time is None


async def test_2_the_first_read_sends_no_after_cluster_time(it: Observed, session: Session) -> None:
    await it.coll.find_one(session=session)
    assert it.concern is None


@pytest.mark.parametrize("causal", [True, False])
async def test_3_every_reply_updates_the_operation_time(it: Observed, causal: bool) -> None:
    async with it.client.start_session(causal_consistency=causal) as session:
        await it.coll.find_one(session=session)
        assert session.operation_time == it.replied
        with pytest.raises(OperationFailure):
            await it.coll.find_one({"$bad": 1}, session=session)
        assert session.operation_time == it.replied
        await it.coll.insert_one({}, session=session)
        assert session.operation_time == it.replied


@pytest.mark.parametrize("name", READS)
async def test_4_a_read_after_find_one(it: Observed, session: Session, name: str) -> None:
    """This is also test 8: the default read concern has no level."""
    time, concern = await it.after(READS["find_one"], READS[name], session)
    assert concern == {"afterClusterTime": time}


@pytest.mark.parametrize("name", WRITES)
async def test_5_find_one_after_a_write(it: Observed, session: Session, name: str) -> None:
    await it.coll.insert_one({})
    time, concern = await it.after(WRITES[name], READS["find_one"], session)
    assert concern == {"afterClusterTime": time}


async def test_6_a_session_that_is_not_causally_consistent(it: Observed) -> None:
    async with it.client.start_session(causal_consistency=False) as session:
        _, concern = await it.after(READS["find_one"], READS["find"], session)
        assert concern is None


async def test_7_and_11_a_server_without_cluster_times(standalone: LocalServer) -> None:
    it = Observed(standalone)
    async with it.client, it.client.start_session(causal_consistency=True) as session:
        _, concern = await it.after(READS["find_one"], READS["find"], session)
        assert concern is None
        assert "$clusterTime" not in it.started


async def test_9_another_read_concern_keeps_its_level(it: Observed, session: Session) -> None:
    it.coll = it.coll.with_options(read_concern=ReadConcern("majority"))
    time, concern = await it.after(READS["find_one"], READS["find"], session)
    assert concern == {"level": "majority", "afterClusterTime": time}


async def test_12_a_server_with_cluster_times(it: Observed) -> None:
    for _ in range(2):
        await it.coll.find_one()
    assert "$clusterTime" in it.started
