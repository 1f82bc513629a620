"""Options of calls and queues that cannot have an effect: the client says so, once."""

from __future__ import annotations

import warnings
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

import motorlite
from motorlite import ReadPreference
from motorlite.overload import RateLimit, WaitQueue
from motorlite.retry import BestEffort, FailFast, OverloadRetry, SpecificationRetry
from motorlite.testing.scripted import Reply
from tests.support.clients import scripted_client
from tests.support.core import FOUND, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite.retry import RetryStrategy
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

QUEUES: Final[dict[str, WaitQueue | None]] = {
    "none": None,
    "reject": WaitQueue("reject"),
    "fifo": WaitQueue("queue"),
    "adaptive": WaitQueue("queue", ordering="adaptive"),
    "priority": WaitQueue("queue", ordering="priority"),
    "degrade": WaitQueue("degrade"),
}
CALLS: Final[dict[str, Callable[[Client], Awaitable[Any]]]] = {
    "find_one": lambda client: client.db.coll.find_one(),
    "find": lambda client: client.db.coll.find().to_list(),
    "insert_one": lambda client: client.db.coll.insert_one({}),
    "command": lambda client: client.db.command("ping"),
    "distinct of a cursor": lambda client: client.db.coll.find().distinct("x"),
}


async def warned(
    queue: WaitQueue | None,
    call: Callable[[Client], Awaitable[Any]],
    of_client: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> list[str]:
    """The warnings of two calls in a block, which name this file."""
    deployment = replica_set()
    deployment["a:1"].on("distinct", {"values": []})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with scripted_client(deployment, wait_queue=queue, **of_client) as client:
            for _ in range(2):
                with motorlite.call_options(**options):
                    await call(client)
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.parametrize(
    ("argument", "value", "wanted", "advice"),
    [
        ("priority", 70, "priority", "WaitQueue('queue', ordering='priority')"),
        ("fallback", ReadPreference.SECONDARY, "degrade", "WaitQueue('degrade')"),
    ],
)
async def test_what_only_one_queue_reads(
    argument: str, value: Any, wanted: str, advice: str, name: str, call: str
) -> None:
    found = await warned(QUEUES[name], CALLS[call], **{argument: value})
    if name == wanted:
        assert found == []
    else:
        (message,) = found
        assert message.startswith(f"call_options({argument}=...) has no effect on this client")
        assert f"wait_queue={advice}" in message


@pytest.mark.parametrize(
    ("options", "of_client"),
    [
        ({"fallback": ReadPreference.SECONDARY, "wait_queue": WaitQueue("degrade")}, {}),
        ({"fallback": ReadPreference.SECONDARY, "wait_queue": "degrade"}, {}),
        (
            {"priority": 70},
            {"rate_limit": RateLimit(rate=500, strategy="queue", queue=WaitQueue("queue", ordering="priority"))},
        ),
        # What has an effect on every client.
        ({"retry_strategy": FailFast()}, {}),
        ({}, {}),
        ({"context": {"tier": "gold"}, "retry_strategy": BestEffort()}, {}),
        ({"context": {"tier": "gold"}}, {"retry_strategy": "bestEffort"}),
    ],
)
async def test_what_has_an_effect(options: dict[str, Any], of_client: dict[str, Any]) -> None:
    queue = None if "rate_limit" in of_client else QUEUES["fifo"]
    assert await warned(queue, CALLS["find_one"], of_client, **options) == []


async def test_each_is_named_once_for_each_client() -> None:
    assert len(await warned(None, CALLS["find_one"], priority=70, fallback=ReadPreference.SECONDARY)) == 2
    assert len(await warned(None, CALLS["find_one"], priority=70, fallback=ReadPreference.SECONDARY)) == 2


# --- data for a strategy, without a strategy ---


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("strategy", [None, SpecificationRetry(), OverloadRetry(max_retries=1)])
async def test_a_context_that_no_strategy_reads(strategy: RetryStrategy | None, call: str) -> None:
    (message,) = await warned(None, CALLS[call], context={"tier": "gold"}, retry_strategy=strategy)
    assert message.startswith("call_options(context=...) has no effect on this client without a retry_strategy")


async def test_a_context_for_calls_only_some_of_which_have_a_strategy() -> None:
    async with scripted_client(replica_set()) as client:
        careful = client.db.coll.with_options(retry_strategy=BestEffort())
        with motorlite.call_options(context={"tier": "gold"}):
            await client.db.coll.find_one()
            await careful.find_one()


# --- an order by priority, without priorities ---


async def closed(queue: WaitQueue | None, priorities: list[int | None], limit: RateLimit | None = None) -> list[str]:
    """The warnings of a client that is closed after calls with `priorities`, all of which have to wait."""
    deployment = replica_set()
    deployment["a:1"].on("find", Reply(FOUND, 0.001))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with scripted_client(deployment, wait_queue=queue, rate_limit=limit, maxPoolSize=1) as client:

            async def call(priority: int | None) -> None:
                with motorlite.call_options(priority=priority):
                    await client.db.coll.find_one()

            async with anyio.create_task_group() as group:
                for priority in priorities:
                    group.start_soon(call, priority)
                await settle()
    return [str(warning.message) for warning in caught]


async def test_an_order_by_priority_without_priorities() -> None:
    queue = WaitQueue("queue", 1000, ordering="priority")
    (message,) = await closed(queue, [None] * 150)
    assert message.startswith("ordering='priority' of wait_queue has had no effect: all 150 operations that waited")
    assert "call_options(priority=...)" in message


async def test_an_order_by_priority_of_a_rate_limit_without_priorities() -> None:
    queue = WaitQueue("queue", 1000, ordering="priority")
    limit = RateLimit(rate=1000, burst=1, strategy="queue", queue=queue)
    (message,) = await closed(None, [None] * 151, limit)
    assert message.startswith("ordering='priority' of rate_limit has had no effect: all 150 operations that waited")
    assert len(await closed(queue, [None] * 251, limit)) == 2
    assert await closed(None, [None] * 150 + [70], limit) == []


@pytest.mark.parametrize(
    ("queue", "priorities"),
    [
        (WaitQueue("queue", 1000, ordering="priority"), [None] * 149 + [70]),
        # Too few to say anything.
        (WaitQueue("queue", 1000, ordering="priority"), [None] * 20),
        (WaitQueue("queue", 1000), [None] * 150),
        (None, [None] * 150),
    ],
)
async def test_an_order_that_has_an_effect(queue: WaitQueue | None, priorities: list[int | None]) -> None:
    assert await closed(queue, priorities) == []
