"""The examples of the wait queue run as they are, on a scripted server in virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from examples import application_loop, service, service_fastapi
from motorlite.errors import PoolFullError
from motorlite.overload import WaitQueue
from motorlite.testing.scripted import Reply
from tests.support.clients import scripted_client
from tests.support.core import FOUND, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.clients import Client

# The service sets priorities, whatever the queue of its client is.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:call_options")]

COUNTED = {"cursor": {"id": 0, "ns": "shop.parts", "firstBatch": [{"n": 7}]}}
REQUEST = {"type": "http", "method": "GET", "path": "/"}


@pytest.fixture
async def busy() -> AsyncIterator[Client]:
    """A client whose only connection is in use for three seconds."""
    deployment = replica_set()
    deployment["a:1"].on("aggregate", COUNTED)
    deployment["a:1"].on("find", Reply(FOUND, 3), FOUND)
    async with (
        scripted_client(deployment, maxPoolSize=1, wait_queue=WaitQueue("reject")) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.shop.parts.find_one)
        await anyio.sleep(0.5)
        yield client


# --- the loop of an application ---


def test_the_backoff_is_that_of_the_decision_record() -> None:
    assert [application_loop.backoff(number, 0) for number in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [application_loop.backoff(2, spread) for spread in (-1, 1)] == pytest.approx([3.2, 4.8])


async def test_the_loop_waits_until_there_is_room(monkeypatch: pytest.MonkeyPatch, busy: Client) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    began, calls = anyio.current_time(), 0

    async def call() -> Any:
        nonlocal calls
        calls += 1
        return await busy.shop.parts.find_one()

    assert await application_loop.patiently(call) == {"_id": 1}
    # After 1 and 2 seconds.
    assert anyio.current_time() - began == pytest.approx(3)
    assert calls == 3


async def test_the_loop_ends(busy: Client) -> None:
    with pytest.raises(PoolFullError):
        await application_loop.patiently(busy.shop.parts.find_one, attempts=1)


# --- the service ---


async def get(application: service.Application, scope: Any = REQUEST) -> tuple[int, dict[str, str], Any]:
    """The status, the headers and the body of the response."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(dict(scope), receive, send)
    start, *bodies = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, json.loads(b"".join(each["body"] for each in bodies))


@pytest.mark.parametrize(
    "make",
    [lambda client: service.RetryAfter(service.parts(client)), service_fastapi.service],
    ids=["ASGI", "FastAPI"],
)
async def test_the_service_answers_503_with_retry_after(busy: Client, make: Callable[[Client], Any]) -> None:
    application = make(busy)
    request = {**REQUEST, "headers": [], "query_string": b"", "raw_path": b"/", "root_path": "", "scheme": "http"}
    status, headers, body = await get(application, request)
    assert (status, headers["retry-after"]) == (503, "1")
    assert body == {
        "title": "PoolFullError",
        "detail": "all connections of the pool are taken (1/1), try again later (server a:1)",
        "retry_after_seconds": 1,
    }
    await anyio.sleep(5)
    status, headers, body = await get(application, request)
    assert (status, headers["content-type"], body) == (200, "application/json", {"parts": 7})


async def test_an_error_after_the_answer_began_is_not_answered_again(busy: Client) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await service.answer(send, 200, {})
        await busy.shop.parts.find_one()

    with pytest.raises(PoolFullError):
        await get(service.RetryAfter(application))


async def test_other_protocols_pass(busy: Client) -> None:
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])
        await service.answer(send, 200, {})

    await get(service.RetryAfter(application), {"type": "lifespan"})
    assert seen == ["lifespan"]


class User:
    def __init__(self, tier: str) -> None:
        self.tier = tier


async def test_the_tier_of_the_user_becomes_the_priority() -> None:
    deployment = replica_set()
    deployment["a:1"].on("aggregate", COUNTED)
    deployment["a:1"].on("find", Reply(FOUND, 1))
    served: list[str] = []
    async with scripted_client(deployment, maxPoolSize=1, wait_queue=service.QUEUE) as client:

        async def request(tier: str) -> None:
            await get(service.RetryAfter(service.parts(client)), {**REQUEST, "user": User(tier)})
            served.append(tier)

        async with anyio.create_task_group() as group:
            group.start_soon(client.shop.parts.find_one)
            await anyio.sleep(0.5)
            for tier in ("free", "silver", "gold"):
                group.start_soon(request, tier)
                await settle()
    assert served == ["gold", "silver", "free"]
