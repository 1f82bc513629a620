"""Every operation of the public API after each kind of retryable error: all after overload, few after the others."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from motorlite import (
    AsyncClientSession,
    AsyncCollection,
    AsyncCommandCursor,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
)
from motorlite._operations.sessions import EndSessions
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.clients import make_client, scripted_client
from tests.support.core import DONE, OVERLOADED, RETRYABLE_ONLY, driver, find, gaps, replica_set
from tests.support.operation_cases import CASES, MORE, OPEN, outcome

if TYPE_CHECKING:
    from motorlite.testing.scripted import Answer, ScriptedServer
    from tests.support.operation_cases import Case

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

# What the retryable reads specification lists under "Supported Read Operations", with the helpers on top of them.
READS: Final = {
    "find",
    "find, exhaust",
    "find_raw_batches",
    "find_one",
    "find_one_sorted",
    "aggregate",
    "count_documents",
    "estimated_document_count",
    "distinct",
    "watch",
    "list_indexes",
    "index_information",
    "options",
    "options, cursor",
    "list_collection_names",
    "list_search_indexes",
    "list_database_names",
    "create_collection, if it exists",
}
# The same of the retryable writes specification.
WRITES: Final = {
    "commit_transaction",
    "abort_transaction",
    "insert_one",
    "insert_one, many fields",
    "insert_one_with_comment",
    "insert_many",
    "update_one",
    "update_one_with_comment",
    "replace_one",
    "delete_one",
    "delete_one_with_comment",
    "bulk insert",
    "bulk update",
    "bulk delete",
    "client bulk write",
    "find_one_and_update",
}
EVERY_CASE: Final = pytest.mark.parametrize("name", CASES)


def prepared(case: Case, *answers: Answer) -> tuple[ScriptedDeployment, ScriptedServer]:
    """A deployment that gives these answers to the case's command, and then the one that it succeeds with."""
    deployment = replica_set(wire_version=25)
    server = deployment["a:1"]
    for command, reply in case.others.items():
        server.on(command, reply)
    server.on(case.command, *answers, case.replies[0])
    return deployment, server


@EVERY_CASE
async def test_every_operation_is_retried_after_overload_errors(name: str) -> None:
    case = CASES[name]
    deployment, server = prepared(case, OVERLOADED, OVERLOADED)
    async with scripted_client(deployment) as client:
        assert not isinstance(await outcome(case, client), Exception)
        assert gaps(server.times(case.command))[:2] == [0.1, 0.2]
        assert client.stats().retries == {"overload": 2}


@EVERY_CASE
async def test_every_operation_may_be_the_first(name: str) -> None:
    """A client that was not entered is bound to the event loop by its first operation."""
    case = CASES[name]
    deployment, server = prepared(case)
    client = make_client(deployment)
    try:
        assert not isinstance(await outcome(case, client), Exception)
        assert server.commands(case.command)
    finally:
        await client.close()
        await deployment.close()


@EVERY_CASE
async def test_every_operation_is_retried_for_the_label_alone(name: str) -> None:
    case = CASES[name]
    deployment, server = prepared(case, RETRYABLE_ONLY)
    async with scripted_client(deployment) as client:
        assert not isinstance(await outcome(case, client), Exception)
        assert gaps(server.times(case.command))[:1] == [0]
        assert client.stats().retries == {"retryable error": 1}


@pytest.mark.parametrize("answer", [Close(), failure(91, "RetryableWriteError")], ids=["network", "state change"])
@EVERY_CASE
async def test_only_those_of_the_specifications_are_retried_after_other_errors(name: str, answer: Answer) -> None:
    case = CASES[name]
    deployment, _ = prepared(case, answer)
    async with scripted_client(deployment) as client:
        found = await outcome(case, client)
        retried = client.stats().retries
        if name in READS | WRITES:
            assert not isinstance(found, Exception)
            assert retried == {"connection lost in flight" if isinstance(answer, Close) else "failover": 1}
        else:
            assert retried == {}


@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY], ids=["overload", "retryable"])
async def test_end_sessions_is_one_of_them(answer: dict[str, Any]) -> None:
    deployment = replica_set()
    deployment["a:1"].on("endSessions", answer, DONE)
    async with driver(deployment) as client:
        await client.run(EndSessions([]))
        assert len(deployment["a:1"].commands("endSessions")) == 2


@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY], ids=["overload", "retryable"])
async def test_a_client_that_is_closing_retries_nothing(answer: dict[str, Any]) -> None:
    deployment = replica_set()
    deployment["a:1"].on("endSessions", answer, DONE)
    async with driver(deployment) as client:
        await client.run(find())
        client.recorder.clear()
    assert len(deployment["a:1"].commands("endSessions")) == 1
    assert [event.refusal for event in client.recorder.retries] == ["closed"]


# --- cursors ---


@pytest.mark.parametrize("topology", ["replica set", "sharded"])
async def test_a_cursor_survives_overload_and_is_read_from_the_same_server(topology: str) -> None:
    is_sharded = topology == "sharded"
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], replica_set=None if is_sharded else "rs", mongos=is_sharded)
    for server in deployment.servers.values():
        server.on("find", OPEN)
        server.on("getMore", OVERLOADED, OVERLOADED, MORE)
    async with scripted_client(deployment, read_preference=ReadPreference.NEAREST) as client:
        await client.admin.command("ping")
        await anyio.sleep(1)
        found = [document async for document in client.db.coll.find()]
        assert found == [{"_id": 1}, {"_id": 2}]
        (server,) = [server for server in deployment.servers.values() if server.commands("find")]
        # Although each overload error puts it on the list of servers to avoid.
        assert gaps(server.times("getMore")) == [0.1, 0.2]
        assert sum(len(server.commands("getMore")) for server in deployment.servers.values()) == 3


# --- options that are the client's alone ---


def parameters(*kinds: type[Any]) -> set[str]:
    """The names of all parameters of all public methods."""
    return {
        parameter
        for kind in kinds
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters
    }


def test_retryable_reads_and_writes_are_options_of_the_client_alone() -> None:
    handles = (AsyncMongoClient, AsyncDatabase, AsyncCollection, AsyncCursor, AsyncCommandCursor, AsyncClientSession)
    found = {name.lower().replace("_", "") for name in parameters(*handles)}
    assert {"timeoutms", "readpreference"} <= found
    assert not found & {"retryreads", "retrywrites"}
