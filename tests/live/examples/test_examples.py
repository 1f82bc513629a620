"""The examples lose their primary while they work: nothing is lost or done twice, and they end cleanly."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson import ObjectId

from examples.stock_torture import KINDS, plan
from motorlite.testing.server.local_commands import wait_until
from motorlite.testing.server.mongod_processes import free_port
from tests.live.examples.programs import Database, Program, kill_primary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

# Three members are started, and one of them twice.
pytestmark = pytest.mark.slow

SIGTERM: Final = 15
CALLERS: Final = 8
STOCK: Final = 100_000


@pytest.fixture
def members(replica_set3: LocalServer) -> Iterator[LocalServer]:
    """Three members, which are all there again afterwards."""
    yield replica_set3
    replica_set3.restore()


def test_a_program_that_does_not_clean_up_is_noticed(replica_set: LocalServer) -> None:
    with Program("tests.live.examples.careless", replica_set.uri) as program:
        with pytest.raises(AssertionError):
            program.ended()
        assert "still pending: <Task" in program.output
        assert "was dropped without close" in program.output


# --- the service ---


class Callers:
    """Threads that sell one piece after the other, and count the answers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.answers: list[int] = []
        self._is_done = False

    def run(self) -> None:
        while not self._is_done:
            self.answers.append(request(self._port, "POST", "/parts/bolt/sales", {"count": 1})[0])

    def stop(self) -> None:
        self._is_done = True


def request(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_the_service_counts_every_sale_once(members: LocalServer) -> None:
    Database(members, "shop").drop()
    port = free_port()
    arguments = ("examples.stock_service:app", "--port", str(port))
    # An election takes a second or two here, and longer on a busy machine.
    environment = {"MONGODB_URI": members.uri, "TIMEOUT_MS": "25000"}
    with Program("uvicorn", *arguments, environment=environment) as program:
        program.wait_for("Uvicorn running")
        assert request(port, "POST", "/parts/bolt/deliveries", {"count": STOCK}) == (
            200,
            {"name": "bolt", "stock": STOCK},
        )
        callers = Callers(port)
        with ThreadPoolExecutor(CALLERS) as threads:
            running = [threads.submit(callers.run) for _ in range(CALLERS)]
            kill_primary(members, lambda: len(callers.answers) > 50)
            after = len(callers.answers)
            wait_until(lambda: callers.answers[after:].count(200) > 50, "sales after the failover")
            callers.stop()
            for each in running:
                each.result()
        assert set(callers.answers) == {200}
        assert request(port, "GET", "/parts/bolt") == (200, {"name": "bolt", "stock": STOCK - len(callers.answers)})
        assert program.stop() in (0, -SIGTERM)
        assert "Application shutdown complete" in program.output


def test_the_service_says_what_is_wrong(replica_set: LocalServer) -> None:
    Database(replica_set, "shop").drop()
    port = free_port()
    arguments = ("examples.stock_service:app", "--port", str(port))
    with Program("uvicorn", *arguments, environment={"MONGODB_URI": replica_set.uri}) as program:
        program.wait_for("Uvicorn running")
        assert request(port, "GET", "/parts/nut") == (404, {"detail": "there is no part 'nut'"})
        assert request(port, "POST", "/parts/nut/sales", {"count": 1}) == (409, {"detail": "there are not 1 of 'nut'"})
        assert request(port, "POST", "/parts/nut/sales", {"count": 0})[0] == 422
        program.stop()


# --- the torture of the service ---


def test_a_seed_has_one_plan() -> None:
    assert plan(1) == plan(1) != plan(2)
    for seed in range(20):
        assert sorted(fault.kind for fault in plan(seed)) == sorted(KINDS)
        assert all(fault.is_of_primary for fault in plan(seed) if fault.kind == "alone with the clients")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], "nothing is wrong\n0 findings"),
        (["--mistake", "forgets-majority"], "lost: the counter 'bolt'"),
        (["--faults", "0", "--mistake", "looks-first"], "lost: the counter 'bolt'"),
    ],
    ids=["none", "forgets-majority", "looks-first"],
)
def test_the_torture_of_the_service_finds_its_mistakes(arguments: list[str], found: str) -> None:
    with Program("examples.stock_torture", "--seed", "1", *arguments) as program:
        assert program.ended() == ("--mistake" in arguments), program.output
        assert found in program.output
        faults = [] if "0" in arguments else plan(1)
        # Where the system forbids disks of our own, none is filled.
        assert [line for line in program.lines if ", for " in line] in (
            [f"{fault}\n" for fault in faults],
            [f"{fault}\n" for fault in faults if fault.kind != "full disk"],
        )


# --- the worker ---


def test_the_worker_does_every_job_once(members: LocalServer) -> None:
    database = Database(members, "work")
    database.drop()
    database.insert("jobs", *({"_id": number, "numbers": [number, 1]} for number in range(400)))
    with Program("examples.trio_worker", members.uri) as program:
        kill_primary(members, lambda: len(database.find("jobs", stored=1)) > 40)
        wait_until(lambda: len(database.find("jobs", stored=1)) == 400, "the last job")
        jobs = database.find("jobs")
        assert [job["result"] for job in jobs] == [number + 1 for number in range(400)]
        assert {job["stored"] for job in jobs} == {job["taken"] for job in jobs} == {1}
        assert program.stop() == 0
        assert program.lines[-1] == "stopped\n"


def test_the_worker_finishes_its_jobs_when_it_is_stopped(replica_set: LocalServer) -> None:
    database = Database(replica_set, "work")
    database.drop()
    database.insert("jobs", *({"_id": number, "numbers": [number]} for number in range(2_000)))
    with Program("examples.trio_worker", replica_set.uri) as program:
        wait_until(lambda: bool(database.find("jobs", stored=1)), "the first job")
        assert program.stop() == 0
        jobs = database.find("jobs")
        assert any(job.get("result") is None for job in jobs)  # it was stopped before the end
        assert not [job for job in jobs if "lease" in job]


# --- the consumer ---


def totals(database: Database) -> dict[str, int]:
    return {document["_id"]: document["sold"] for document in database.find("totals")}


def sale(part: str, count: int) -> dict[str, Any]:
    # With an id of its own, a sale whose first attempt succeeded without a reply is not inserted twice.
    return {"_id": ObjectId(), "part": part, "count": count}


def test_the_consumer_counts_every_event_once(members: LocalServer) -> None:
    database = Database(members, "shop")
    database.drop()
    with Program("examples.change_stream_consumer", members.uri) as program:
        program.wait_for("ready")
        database.insert("sales", *(sale("bolt", number) for number in range(200)))
        kill_primary(members, lambda: totals(database).get("bolt", 0) > 100)
        database.insert("sales", *(sale("nut", 1) for _ in range(50)))
        expected = {"bolt": sum(range(200)), "nut": 50}
        wait_until(lambda: totals(database) == expected, f"{expected}")
        assert program.stop() == 0
        assert program.lines[-1] == "stopped\n"


def test_the_consumer_continues_where_it_was_stopped(replica_set: LocalServer) -> None:
    database = Database(replica_set, "shop")
    database.drop()
    with Program("examples.change_stream_consumer", replica_set.uri) as program:
        program.wait_for("ready")
        database.insert("sales", *(sale("bolt", 1) for _ in range(300)))
        wait_until(lambda: totals(database).get("bolt", 0) > 10, "the first events")
        assert program.stop() == 0
    counted = totals(database)["bolt"]
    assert counted < 300  # it was stopped in the middle
    database.insert("sales", sale("nut", 5))
    with Program("examples.change_stream_consumer", replica_set.uri) as program:
        wait_until(lambda: totals(database) == {"bolt": 300, "nut": 5}, "the rest")
        assert program.stop() == 0
