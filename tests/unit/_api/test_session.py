"""Explicit sessions."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from bson.timestamp import Timestamp

from motorlite import WriteConcern
from motorlite.errors import ConfigurationError, InvalidOperation
from tests.support.fake_core import fake_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite import AsyncMongoClient
    from tests.support.fake_core import FakeCore

pytestmark = pytest.mark.anyio


async def test_a_session_costs_nothing_until_it_is_used(client: AsyncMongoClient, core: FakeCore) -> None:
    async with client.start_session() as session:
        assert core.entered == 0
        assert session.client is client
        assert session.options.causal_consistency
        assert not session.has_ended
    assert session.has_ended
    assert core.executor.released == []
    assert core.executor.sent == []


async def test_its_id_is_made_when_it_is_asked_for(client: AsyncMongoClient, core: FakeCore) -> None:
    session = client.start_session()
    lsid = session.session_id
    assert set(lsid) == {"id"}
    assert session.session_id is lsid
    await session.end_session()
    await session.end_session()
    assert core.executor.released == [session._state]
    with pytest.raises(InvalidOperation, match="ended"):
        _ = session.session_id


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_operations_carry_it(client: AsyncMongoClient, core: FakeCore, is_awaited: bool) -> None:
    """Programs for PyMongo Async and for Motor start sessions in different ways."""
    starting = client.start_session(causal_consistency=False)
    async with await starting if is_awaited else starting as session:
        await client.d.c.insert_one({}, session=session)
        assert await session is session
    assert session.has_ended
    assert core.last.session is session._state
    assert not session._state.is_implicit
    assert not session._state.is_causally_consistent
    assert not session.options.causal_consistency


async def test_times_only_move_forward() -> None:
    session = fake_client()[0].start_session()
    assert session.cluster_time is None
    assert session.operation_time is None
    newer, older = Timestamp(2, 1), Timestamp(1, 1)
    session.advance_operation_time(newer)
    session.advance_operation_time(older)
    assert session.operation_time == newer
    session.advance_cluster_time({"clusterTime": newer})
    session.advance_cluster_time({"clusterTime": older})
    assert session.cluster_time == {"clusterTime": newer}


async def test_wrong_sessions() -> None:
    client, core = fake_client()
    other = fake_client()[0].start_session()
    things = client.app.things
    with pytest.raises(InvalidOperation, match="Client that started it"):
        await things.find_one({}, session=other)
    session = client.start_session()
    await session.end_session()
    with pytest.raises(InvalidOperation, match="ended"):
        await things.insert_one({}, session=session)
    with pytest.raises(TypeError, match=r"session must be .*, not 's'"):
        await things.insert_one({}, session="s")  # type: ignore[arg-type]  # what is tested
    unacknowledged = things.with_options(write_concern=WriteConcern(w=0))
    with pytest.raises(ConfigurationError, match="w=0"):
        await unacknowledged.insert_one({}, session=client.start_session())
    assert core.executor.sent == []


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied(duplicate: Callable[[Any], Any]) -> None:
    session = fake_client()[0].start_session()
    with pytest.raises(TypeError, match="cannot be copied, create a new session instead"):
        duplicate(session)
