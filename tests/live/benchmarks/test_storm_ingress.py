"""The ingress of the retry storms in front of a real server, with clients of the driver."""

from __future__ import annotations

import socket
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

from benchmarks.documents import HEADER, OP_MSG
from benchmarks.storm.ingress import messages
from benchmarks.storm.scenario import Server
from benchmarks.storm.sockets.processes import Ingress
from motorlite import AsyncMongoClient
from motorlite.errors import AutoReconnect, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]

Client: TypeAlias = AsyncMongoClient[dict[str, Any]]
BOTH = frozenset(messages.LABELS)


@pytest.fixture(scope="module")
def running(standalone: LocalServer) -> Iterator[Ingress]:
    ingress = Ingress(standalone.addresses)
    yield ingress
    ingress.close()


@pytest.fixture
def ingress(running: Ingress) -> Iterator[Ingress]:
    yield running
    running.order("reset")


def limit(ingress: Ingress, **changes: Any) -> None:
    ingress.order("reset", servers=[asdict(Server(**changes))])


def connect(ingress: Ingress, **options: Any) -> Client:
    host, port = ingress.addresses[0]
    return AsyncMongoClient(host, port, **{"maxAdaptiveRetries": 0, **options})


async def failure(client: Client) -> PyMongoError:
    with pytest.raises(PyMongoError) as caught:
        await client.test.parts.find_one({})
    return caught.value


async def test_without_limits_everything_passes(ingress: Ingress) -> None:
    async with connect(ingress) as client:
        parts = client.motorlite_test_storm.parts
        await parts.drop()
        await parts.insert_many([{"_id": number, "text": "x" * 10_000} for number in range(200)])
        assert len(await parts.find().to_list()) == 200
        await parts.drop()


async def test_requests_beyond_the_burst_are_rejected_with_both_labels(ingress: Ingress) -> None:
    async with connect(ingress) as client:
        await client.admin.command("ping")
        limit(ingress, admission_rate=0.001, admission_burst=3000, base_backoff=0.05, latency=0)
        for _ in range(3):
            await client.test.parts.find_one({})
        error = await failure(client)
        # Before the client ends its sessions, which is a request, too.
        (figures,) = ingress.order("figures")
    assert isinstance(error, OperationFailure)
    assert error.code == messages.REQUEST_RATE_EXCEEDED
    assert error.error_labels == BOTH
    assert error.details is not None
    assert error.details["baseBackoffMS"] == 50
    assert (figures["attempts"], figures["rejected"]) == (4, 1)


async def test_a_connection_beyond_the_rate_is_closed_before_its_handshake(ingress: Ingress) -> None:
    limit(ingress, connection_rate=0.001, connection_burst=2000, handshake_cost=0)
    async with connect(ingress, serverMonitoringMode="poll") as client:
        # The monitor's connection, and one for this.
        await client.admin.command("ping")
    # The limiter has no token left.
    with socket.create_connection(ingress.addresses[0], timeout=10) as stream:
        stream.sendall(HEADER.pack(26, 1, 0, OP_MSG) + b"\x00" * 5 + b"\x05\x00\x00\x00\x00")
        try:
            received = stream.recv(100)
        except ConnectionResetError:
            received = b""
    assert received == b""
    (figures,) = ingress.order("figures")
    assert (figures["connections"], figures["refused"]) == (2, 1)


async def test_requests_that_are_held_back_need_a_connection_each(ingress: Ingress) -> None:
    async with connect(ingress) as client, anyio.create_task_group() as group:
        ingress.order("hold")
        for _ in range(5):
            group.start_soon(client.test.parts.find_one)
        while ingress.order("held") < 5:
            await anyio.lowlevel.checkpoint()
        ingress.order("release")
        await client.test.parts.find_one({})
        (server,) = client.stats().servers.values()
    assert server.connections_created >= 5


async def test_a_server_that_is_down_refuses_and_closes(ingress: Ingress) -> None:
    async with connect(ingress, serverSelectionTimeoutMS=300, retryReads=False) as client:
        await client.admin.command("ping")
        ingress.order("down", server=0)
        assert isinstance(await failure(client), AutoReconnect)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(ingress.addresses[0], timeout=5)
        ingress.order("up", server=0)
        socket.create_connection(ingress.addresses[0], timeout=5).close()


def test_steps_are_reported_at_their_times(ingress: Ingress) -> None:
    steps: list[dict[str, Any]] = []
    ingress.on_step = steps.append
    ingress.order("begin", at=monotonic(), seconds=0.3, schedule=[(0.1, {"order": "down", "server": 0})])
    while len(steps) < 4:
        ingress.order("figures")
    ingress.on_step = None
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(ingress.addresses[0], timeout=5)
