"""Messages of wrong uses of sessions that programs written for PyMongo look for: they contain PyMongo's texts."""

from __future__ import annotations

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


def call_after_the_end(name: str) -> Use:
    async def use(_: Client, session: AsyncClientSession[Any]) -> None:
        await session.end_session()
        called = getattr(session, name)(*([print] if name == "with_transaction" else []))
        if name != "start_transaction":
            await called

    return use


METHODS = ("start_transaction", "commit_transaction", "abort_transaction", "with_transaction")


async def use_with_another_client(client: Client, session: AsyncClientSession[Any]) -> None:
    async with scripted_client(replica_set()) as other:
        await other.db.coll.find_one(session=session)


async def bind_another_client(client: Client, session: AsyncClientSession[Any]) -> None:
    async with scripted_client(replica_set()) as other, session.bind():
        await other.db.coll.find_one()


async def read_from_a_secondary(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction(read_preference=ReadPreference.SECONDARY)
    await client.db.coll.find_one(session=session)


async def concern_of_a_bulk_write(client: Client, session: AsyncClientSession[Any]) -> None:
    session.start_transaction()
    models: list[InsertOne[Any]] = [InsertOne({}, namespace="db.coll")]
    await client.bulk_write(models, session=session, write_concern=WriteConcern(1))


USES: dict[str, tuple[Use, str]] = {
    "use after the end": (use_after_the_end, ENDED),
    **{f"{name} after the end": (call_after_the_end(name), ENDED) for name in METHODS},
    "another client": (use_with_another_client, "Can only use session with the AsyncMongoClient that started it"),
    "bound session": (bind_another_client, "Only the client that created the bound session can perform operations"),
    "secondary": (read_from_a_secondary, "read preference in a transaction must be primary, not: Secondary("),
    "concern of a bulk write": (concern_of_a_bulk_write, "Cannot set write concern after starting a transaction"),
}


@pytest.mark.parametrize("name", USES)
async def test_messages_contain_those_of_pymongo(name: str) -> None:
    use, text = USES[name]
    async with scripted_client(replica_set(wire_version=25)) as client:
        with pytest.raises(InvalidOperation, match=re.escape(text)):
            await use(client, client.start_session())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"write_concern": WriteConcern(0)}, "transactions do not support unacknowledged write concern: Wr"),
        ({"snapshot": True, "causal_consistency": True}, "snapshot reads do not support causal_consistency=True"),
    ],
)
def test_messages_of_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        (SessionOptions if "snapshot" in options else TransactionOptions)(**options)


async def test_messages_of_operations() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=9)
    text = "Explicit sessions are incompatible with unacknowledged write concern: WriteConcern(w=0)"
    async with scripted_client(deployment) as client, client.start_session(snapshot=True) as session:
        with pytest.raises(ConfigurationError, match=r"Snapshot reads require MongoDB 5\.0 or later"):
            await client.db.coll.find_one(session=session)
        with pytest.raises(ConfigurationError, match=re.escape(text)):
            await client.db.get_collection("coll", write_concern=WriteConcern(0)).insert_one({}, session=session)
