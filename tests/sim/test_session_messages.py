"""Messages of wrong uses of sessions that programs written for PyMongo look for: they contain PyMongo's texts."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import ReadPreference, WriteConcern
from motorlite.client_session import SessionOptions, TransactionOptions
from motorlite.errors import ConfigurationError, InvalidOperation
from motorlite.operations import InsertOne
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.transactions import replica_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncClientSession
    from tests.support.clients import Client

    Use = Callable[[Client, AsyncClientSession[Any]], Awaitable[Any]]

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ENDED = "Cannot use ended session"


async def use_after_the_end(client: Client, session: AsyncClientSession[Any]) -> None:
    await session.end_session()
    await client.db.coll.find_one(session=session)


async def start_after_the_end(client: Client, session: AsyncClientSession[Any]) -> None:
    await session.end_session()
    session.start_transaction()


async def commit_after_the_end(client: Client, session: AsyncClientSession[Any]) -> None:
    await session.end_session()
    await session.commit_transaction()


async def start_twice(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    session.start_transaction()


async def start_in_a_snapshot(client: Client, session: AsyncClientSession[Any]) -> None:
    client.start_session(snapshot=True).start_transaction()


async def commit_nothing(client: Client, session: AsyncClientSession[Any]) -> None:
    await session.commit_transaction()


async def abort_nothing(client: Client, session: AsyncClientSession[Any]) -> None:
    await session.abort_transaction()


async def commit_after_abort(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    await session.abort_transaction()
    await session.commit_transaction()


async def abort_after_commit(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    await session.commit_transaction()
    await session.abort_transaction()


async def abort_twice(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    await session.abort_transaction()
    await session.abort_transaction()


async def use_with_another_client(client: Client, session: AsyncClientSession[Any]) -> None:
    async with scripted_client(replica_set()) as other:
        await other.db.coll.find_one(session=session)


async def bind_another_client(client: Client, session: AsyncClientSession[Any]) -> None:
    async with scripted_client(replica_set()) as other, session.bind():
        await other.db.coll.find_one()


async def write_unacknowledged(client: Client, session: AsyncClientSession[Any]) -> None:
    unacknowledged = client.db.get_collection("coll", write_concern=WriteConcern(0))
    await unacknowledged.insert_one({}, session=session)


async def unacknowledged_transaction(client: Client, session: AsyncClientSession[Any]) -> None:
    TransactionOptions(write_concern=WriteConcern(0))


async def read_from_a_secondary(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction(read_preference=ReadPreference.SECONDARY)
    await client.db.coll.find_one(session=session)


async def snapshot_with_causal_consistency(client: Client, session: AsyncClientSession[Any]) -> None:
    SessionOptions(snapshot=True, causal_consistency=True)


async def concern_of_a_bulk_write(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    models: list[InsertOne[Any]] = [InsertOne({}, namespace="db.coll")]
    await client.bulk_write(models, session=session, write_concern=WriteConcern(1))


async def copy_a_session(client: Client, session: AsyncClientSession[Any]) -> None:
    copy.copy(session)


async def wrong_type(client: Client, session: AsyncClientSession[Any]) -> None:
    await client.db.coll.find_one(session="s")  # type: ignore[arg-type]


USES: list[tuple[Use, type[Exception], str]] = [
    (use_after_the_end, InvalidOperation, ENDED),
    (start_after_the_end, InvalidOperation, ENDED),
    (commit_after_the_end, InvalidOperation, ENDED),
    (start_twice, InvalidOperation, "Transaction already in progress"),
    (start_in_a_snapshot, InvalidOperation, "Transactions are not supported in snapshot sessions"),
    (commit_nothing, InvalidOperation, "No transaction started"),
    (abort_nothing, InvalidOperation, "No transaction started"),
    (commit_after_abort, InvalidOperation, "Cannot call commitTransaction after calling abortTransaction"),
    (abort_after_commit, InvalidOperation, "Cannot call abortTransaction after calling commitTransaction"),
    (abort_twice, InvalidOperation, "Cannot call abortTransaction twice"),
    (use_with_another_client, InvalidOperation, "Can only use session with the AsyncMongoClient that started it"),
    (bind_another_client, InvalidOperation, "Only the client that created the bound session can perform operations"),
    (
        write_unacknowledged,
        ConfigurationError,
        "Explicit sessions are incompatible with unacknowledged write concern: WriteConcern(w=0)",
    ),
    (unacknowledged_transaction, ConfigurationError, "transactions do not support unacknowledged write concern: Wr"),
    (read_from_a_secondary, InvalidOperation, "read preference in a transaction must be primary, not: Secondary("),
    (
        snapshot_with_causal_consistency,
        ConfigurationError,
        "snapshot reads do not support causal_consistency=True",
    ),
    (concern_of_a_bulk_write, InvalidOperation, "Cannot set write concern after starting a transaction"),
    (copy_a_session, TypeError, "cannot be copied, create a new session instead"),
    (wrong_type, TypeError, "must be an AsyncClientSession or None"),
]


@pytest.mark.parametrize(("use", "kind", "text"), USES, ids=[use.__name__ for use, _, _ in USES])
async def test_messages_contain_those_of_pymongo(use: Use, kind: type[Exception], text: str) -> None:
    async with scripted_client(replica_set(wire_version=25)) as client:
        with pytest.raises(kind, match=re.escape(text)):
            await use(client, client.start_session())


async def test_a_server_without_sessions() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].hello = {"logicalSessionTimeoutMinutes": None}
    async with scripted_client(deployment) as client, client.start_session() as session:
        with pytest.raises(ConfigurationError, match="Sessions are not supported by this MongoDB deployment"):
            await client.db.coll.insert_one({}, session=session)


async def test_a_server_without_snapshots() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=9)
    async with scripted_client(deployment) as client, client.start_session(snapshot=True) as session:
        with pytest.raises(ConfigurationError, match=r"Snapshot reads require MongoDB 5\.0 or later"):
            await client.db.coll.find_one(session=session)
