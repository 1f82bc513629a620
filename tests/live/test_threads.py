"""A client for each thread, each on an event loop of its own: what docs/threads.md says."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

from motorlite.monitoring import CommandListener
from motorlite.retry import RetryBudget
from tests.support.clients import make_client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from motorlite.monitoring import CommandStartedEvent
    from motorlite.testing import LocalServer

THREADS = 4
DOCUMENTS = 200


class Requests(CommandListener):
    def __init__(self) -> None:
        self.ids: list[int] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.ids.append(event.request_id)


def run_on(backend: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if backend == "trio":
        trio.run(main)
    else:
        asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_threads_with_clients_of_their_own(deployment: LocalServer, database_name: str, backend: str) -> None:
    budget, requests = RetryBudget(100), Requests()
    failures: list[BaseException] = []
    gate = threading.Barrier(THREADS)

    def work(number: int) -> None:
        async def main() -> None:
            async with make_client(deployment, retry_budget=budget, event_listeners=[requests]) as client:
                things = client[database_name].things
                gate.wait(30)
                for count in range(DOCUMENTS):
                    await things.insert_one({"thread": number, "count": count})
                    assert await things.find_one({"thread": number, "count": count}, {"_id": 0}) == {
                        "thread": number,
                        "count": count,
                    }
                found = await things.find({"thread": number}, batch_size=50).sort("count").to_list()
                assert [one["count"] for one in found] == list(range(DOCUMENTS))

        try:
            run_on(backend, main)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert failures == []
    assert len(requests.ids) >= THREADS * DOCUMENTS * 2
    assert len(set(requests.ids)) == len(requests.ids)
    assert budget.tokens == 100
