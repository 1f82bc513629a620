"""The prose tests of the CRUD specification that look at what is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import motorlite
from motorlite import InsertOne
from motorlite.monitoring import CommandStartedEvent
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

QUERY = {"name": "john doe"}


async def _in_a_block(collection: Any) -> None:
    with motorlite.timeout(2):
        await collection.find(QUERY).explain()


EXPLAIN: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "argument": lambda c: c.find(QUERY).explain(timeoutMS=2000),
    "max_time_ms": lambda c: c.find(QUERY).max_time_ms(2000).explain(),
    "collection": lambda c: c.with_options(timeoutMS=2000).find(QUERY).explain(),
    "block": _in_a_block,
    "command": lambda c: c.database.command({"explain": {"find": c.name, "filter": QUERY}, "maxTimeMS": 2000}),
}


@pytest.mark.parametrize("way", EXPLAIN)
async def test_14_explain_helpers_take_max_time(way: str) -> None:
    """Prose test 14: with a server that takes no time, the explain command has exactly the limit."""
    deployment, recorder = ScriptedDeployment(["a:1"]), Recorder()
    async with scripted_client(deployment, event_listeners=[recorder]) as client:
        await EXPLAIN[way](client["explain-test"].collection)
    started = recorder.command_events[0]
    assert isinstance(started, CommandStartedEvent)
    assert started.command["maxTimeMS"] == 2000
    (explain,) = deployment["a:1"].commands("explain")
    assert explain["maxTimeMS"] == 2000
    assert explain["explain"] == {"find": "collection", "filter": QUERY}


INSERTS: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "insert_one": lambda c, document: c.insert_one(document),
    "insert_many": lambda c, document: c.insert_many([document]),
    "bulk_write": lambda c, document: c.bulk_write([InsertOne(document)]),
}


@pytest.mark.parametrize("way", INSERTS)
async def test_16_generated_ids_are_the_first_field(way: str) -> None:
    """Prose test 16: in the message that arrives, `_id` stands before the document's own fields."""
    deployment = ScriptedDeployment(["a:1"])
    async with scripted_client(deployment) as client:
        await INSERTS[way](client.db.c, {"x": 1, "y": 2})
    (request,) = deployment["a:1"].commands("insert")
    assert list(request["documents"][0]) == ["_id", "x", "y"]
