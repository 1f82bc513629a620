"""Transactions on scripted deployments: what their commands carried, and what was left behind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import PyMongoError
from tests.support.clients import scripted_client
from tests.support.core import replica_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite import AsyncClientSession, AsyncCollection, AsyncMongoClient
    from motorlite.testing.scripted import Answer, ScriptedDeployment, ScriptedServer
    from tests.support.clients import Client

_FIELDS = ("txnNumber", "startTransaction", "autocommit", "readConcern", "writeConcern", "recoveryToken")

__all__ = [
    "PLACES",
    "REJECTED",
    "Subject",
    "carried",
    "in_a_transaction",
    "in_use",
    "names",
    "numbered",
    "replica_set",
    "subject",
]

# The reply of a server that has lost the transaction, or does not want it now.
REJECTED = {"ok": 0, "code": 251, "errmsg": "no such transaction", "errorLabels": ["TransientTransactionError"]}


def carried(server: ScriptedServer, name: str) -> list[dict[str, Any]]:
    """What the commands of this name carried for a transaction."""
    return [{key: found[key] for key in _FIELDS if key in found} for found in server.commands(name)]


def names(deployment: ScriptedDeployment) -> list[str]:
    """The names of all commands, in the order of their arrival."""
    servers = deployment.services or deployment.servers.values()
    received = sorted((one for server in servers for one in server.received), key=lambda one: one.at)
    return [one.name for one in received if one.name != "endSessions"]


def numbered(server: ScriptedServer) -> list[tuple[str, int]]:
    """The names of the commands in transactions, with their numbers."""
    return [(one.name, one.document["txnNumber"]) for one in server.received if "autocommit" in one.document]


def in_use(client: AsyncMongoClient[Any]) -> int:
    """The number of connections that are checked out."""
    return sum(server.in_use for server in client.stats().servers.values())


class Subject:
    """A client with a session, its deployment, and the server that gets the commands."""

    def __init__(self, deployment: ScriptedDeployment, client: Client, session: AsyncClientSession[Any]) -> None:
        self.deployment = deployment
        self.server = next(iter(deployment.services or deployment.servers.values()))
        self.client = client
        self.session = session
        self.coll: AsyncCollection[dict[str, Any]] = client.db.coll

    def on(self, name: str, *answers: Answer) -> None:
        """Have all servers and services answer a command."""
        for server in (*self.deployment.servers.values(), *self.deployment.services):
            server.on(name, *answers)

    async def insert(self, session: AsyncClientSession[Any] | None = None, **document: Any) -> None:
        await self.coll.insert_one(document, session=session or self.session)

    async def begin(self, session: AsyncClientSession[Any] | None = None) -> None:
        """Start a transaction, and insert a document in it."""
        (session or self.session).start_transaction()
        await self.insert(session)

    async def fails(self, call: Callable[[], Awaitable[Any]] | None = None) -> PyMongoError:
        """The error of `call`, or else of an insert."""
        with pytest.raises(PyMongoError) as raised:
            await (call or self.insert)()
        return raised.value

    def ends(self) -> list[tuple[str, int]]:
        """The commands that ended transactions, with their numbers."""
        return [one for one in numbered(self.server) if one[0] in ("abortTransaction", "commitTransaction")]

    @property
    def state(self) -> str:
        """That of the transaction."""
        transaction = self.session._state.transaction
        return "none" if transaction is None else transaction.state.value

    @property
    def names(self) -> list[str]:
        """The names of all commands, in the order of their arrival."""
        return names(self.deployment)


@asynccontextmanager
async def subject(
    deployment: ScriptedDeployment | None = None, session: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Subject]:
    """A connected client, and a session with the options `session`, on a replica set of one member by default.

    No connection may be left checked out at the end.
    """
    deployment = deployment or replica_set()
    async with scripted_client(deployment, **options) as client:
        await client.admin.command("ping")
        for server in (*deployment.servers.values(), *deployment.services):
            server.received.clear()
        async with client.start_session(**session or {}) as started:
            yield Subject(deployment, client, started)
        assert in_use(client) == 0


# Where a transaction can be left.
PLACES = ("block", "with_transaction", "session", "bound session")


async def in_a_transaction(
    session: AsyncClientSession[Any], place: str, work: Callable[[AsyncClientSession[Any]], Awaitable[Any]]
) -> None:
    """Do `work` in a transaction that ends with one of `PLACES`."""
    if place == "with_transaction":
        await session.with_transaction(work)
    elif place == "block":
        async with session.start_transaction():
            await work(session)
    else:
        async with session if place == "session" else session.bind():
            session.start_transaction()
            await work(session)
