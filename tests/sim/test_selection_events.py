"""What is told of the selection of servers, in virtual time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._execution import acquiring
from motorlite.errors import InvalidOperation, ServerSelectionTimeoutError
from motorlite.monitoring import ServerSelectionEvent
from motorlite.testing.scripted import ScriptedDeployment, overloaded
from tests.support.clients import scripted_client
from tests.support.events import Recorder
from tests.support.srv import Records, srv_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LOGGER = "motorlite.serverSelection"
STARTED, SUCCEEDED, FAILED = "Server selection started", "Server selection succeeded", "Server selection failed"
WAITING = "Waiting for suitable server to become available"


class Told:
    """The records of the logger."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def fields(self) -> list[dict[str, Any]]:
        """The fields of every message of a command of the application, which are then forgotten."""
        found: Iterator[Any] = (
            getattr(record, "motorlite", {}) for record in self._caplog.records if record.name == LOGGER
        )
        fields = [one for one in found if one["operation"] != "endSessions"]
        self._caplog.clear()
        return fields

    def messages(self) -> list[str]:
        return [fields["message"] for fields in self.fields()]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    caplog.set_level(logging.DEBUG, LOGGER)
    return Told(caplog)


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_above_debug_no_event_is_made_for_what_is_not_logged(
    level: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INFO is a common level, and would otherwise cost each operation a few microseconds."""
    caplog.set_level(level, LOGGER)
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello_delay = 1.0
    async with scripted_client(deployment) as client:
        await client.db.coll.find_one()
        assert Told(caplog).messages() == ([WAITING] if level == logging.INFO else [])
        with monkeypatch.context() as patch:
            patch.delattr(acquiring, "ServerSelectionStartedEvent")
            await client.db.coll.find_one()
        assert Told(caplog).messages() == []
        caplog.set_level(logging.DEBUG, LOGGER)
        await client.db.coll.find_one()
        assert Told(caplog).messages() == [STARTED, SUCCEEDED]


async def test_a_listener_hears_of_every_selection_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    recorder = Recorder()
    async with scripted_client(ScriptedDeployment(["a:1"]), event_listeners=[recorder]) as client:
        await client.aconnect(timeoutMS=0)
        recorder.clear()
        await client.db.coll.find_one()
    kinds = [type(event).__name__ for event in recorder.events if isinstance(event, ServerSelectionEvent)]
    assert kinds[:2] == ["ServerSelectionStartedEvent", "ServerSelectionSucceededEvent"]


async def test_a_server_that_is_not_known_yet(told: Told) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello_delay = 1.0
    async with scripted_client(deployment, serverSelectionTimeoutMS=7000) as client:
        await client.db.coll.find_one()
        started, waiting, succeeded = told.fields()
        assert (started["message"], waiting["message"], succeeded["message"]) == (STARTED, WAITING, SUCCEEDED)
        assert {one["operation"] for one in (started, waiting, succeeded)} == {"find"}
        assert len({one["operationId"] for one in (started, waiting, succeeded)}) == 1
        assert waiting["remainingTimeMS"] == 7000
        assert (succeeded["serverHost"], succeeded["serverPort"]) == ("a", 1)
        assert "Unknown" in started["topologyDescription"]
        assert "Standalone" in succeeded["topologyDescription"]
        await client.db.coll.find_one()
        assert told.messages() == [STARTED, SUCCEEDED]


async def test_no_server_in_time(told: Told) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, serverSelectionTimeoutMS=7000) as client:
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.db.coll.find_one()
        fields = told.fields()
        assert [one["message"] for one in fields] == [STARTED, WAITING, FAILED]
        assert "no server of the deployment can be reached" in fields[-1]["failure"]
        assert "connection refused" in str(caught.value), "the error has the last error of each server as well"


async def test_each_attempt_selects(told: Told) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", overloaded(), {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}})
    async with scripted_client(deployment) as client:
        await client.admin.command("ping")
        told.fields()
        await client.db.coll.find_one()
        fields = told.fields()
        assert [one["message"] for one in fields] == [STARTED, SUCCEEDED] * 2
        assert len({one["operationId"] for one in fields}) == 1


async def test_who_is_cancelled_while_waiting(told: Told) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].is_down = True
    async with scripted_client(deployment) as client:
        with anyio.move_on_after(3):
            await client.db.coll.find_one()
        assert told.messages() == [STARTED, WAITING, FAILED]


async def test_a_closed_client_selects_nothing(told: Told) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with scripted_client(deployment) as client:
        await client.close()
        with pytest.raises(InvalidOperation):
            await client.db.coll.find_one()
        assert told.messages() == []


async def test_a_service_behind_a_load_balancer(told: Told) -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    (service,) = deployment.services
    service.on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{}]}})
    async with scripted_client(deployment) as client:
        await client.db.coll.find().to_list()
        assert told.messages() == [STARTED, SUCCEEDED], "getMore needs no selection"


async def test_while_srv_records_are_looked_up(told: Told) -> None:
    records, deployment = Records("a.example.com:1"), ScriptedDeployment(["a.example.com:1"], mongos=True)
    records.delay = 1.0
    async with srv_client(records, deployment) as driver:
        await driver.run()
        started, waiting, succeeded = told.fields()
        assert (started["message"], waiting["message"], succeeded["message"]) == (STARTED, WAITING, SUCCEEDED)
        assert "Sharded" in succeeded["topologyDescription"]
