"""Metrics of clients under load, scraped over HTTP."""

from __future__ import annotations

import gc
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from motorlite import AsyncMongoClient
from motorlite.exporters.prometheus import Measurements, PrometheusCollector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

TASKS: Final = 20
OPERATIONS: Final = 25


@pytest.fixture
def collector() -> PrometheusCollector:
    return PrometheusCollector()


@pytest.fixture
def url(collector: PrometheusCollector) -> Iterator[str]:
    """Where the metrics of the collector are served, by a thread of its own."""
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def scrape(url: str) -> dict[tuple[str, ...], float]:
    """The samples, by name and labels."""
    with urllib.request.urlopen(url) as reply:
        text = reply.read().decode()
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(samples: dict[tuple[str, ...], float], name: str, *labels: str) -> float:
    return sum(value for key, value in samples.items() if key[0] == name and set(labels) <= set(key))


async def load(client: AsyncMongoClient[Any], database_name: str, url: str) -> list[dict[tuple[str, ...], float]]:
    """Insert in many tasks, and scrape all the while; return the scrapes."""
    scrapes: list[dict[tuple[str, ...], float]] = []
    is_over = anyio.Event()

    async def work(number: int) -> None:
        for turn in range(OPERATIONS):
            await client[database_name].coll.insert_one({"_id": f"{number}.{turn}"})

    async def watch() -> None:
        while not is_over.is_set():
            scrapes.append(await anyio.to_thread.run_sync(scrape, url))

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        async with anyio.create_task_group() as working:
            for number in range(TASKS):
                working.start_soon(work, number)
        is_over.set()
    scrapes.append(await anyio.to_thread.run_sync(scrape, url))
    return scrapes


@pytest.mark.anyio
async def test_a_client_under_load(
    collector: PrometheusCollector, url: str, replica_set: LocalServer, database_name: str
) -> None:
    measurements = Measurements()
    async with AsyncMongoClient[Any](replica_set.uri, maxPoolSize=2, event_listeners=[measurements]) as client:
        collector.add(client, "shop", measurements)
        scrapes = await load(client, database_name, url)
    attempts = [total(one, "motorlite_attempts_total") for one in scrapes]
    assert attempts == sorted(attempts)
    assert max(total(one, "motorlite_queue_depth", "level=server") for one in scrapes) > 0
    assert all(total(one, "motorlite_connections", "state=in_use") <= 2 for one in scrapes)
    found, done = scrapes[-1], TASKS * OPERATIONS
    assert total(found, "motorlite_attempts_total") >= done
    assert total(found, "motorlite_operation_duration_seconds_count", "operation=insert", "outcome=ok") == done
    waits = total(found, "motorlite_queue_wait_duration_seconds_count")
    assert 0 < waits <= done
    assert total(found, "motorlite_queue_wait_duration_seconds_bucket", "le=+Inf") == waits
    assert total(found, "motorlite_connect_duration_seconds_count") == 2
    assert total(found, "motorlite_queue_depth", "level=client") == 0
    assert total(found, "motorlite_server_up", "type=RSPrimary") == 1
    del client
    gc.collect()
    assert await anyio.to_thread.run_sync(scrape, url) == {}
