"""The default maxTimeMS that a document of the deployment sets, in virtual time."""

from __future__ import annotations

import gc
import logging
import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64

from motorlite._client.default_max_time import INTERVAL, LIMIT
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment, failure
from tests.support.clients import make_client, scripted_client
from tests.support.core import replica_set
from tests.support.kept_errors import without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.testing.scripted import Answer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

WHERE: Final[dict[str, Any]] = {"defaultMaxTimeNamespace": "config.cmongo_settings"}


MISSING: Final = object()


class Setting:
    """The document on a scripted server, and the commands that read it."""

    def __init__(self, deployment: ScriptedDeployment) -> None:
        self.document: Any = None
        self.answer: Answer | None = None
        self.reads: list[dict[str, Any]] = []
        self.user_limits: list[int | None] = []
        deployment["a:1"].on("find", self._find)

    def _find(self, command: dict[str, Any]) -> Answer:
        if command["find"] != "cmongo_settings":
            self.user_limits.append(command.get("maxTimeMS"))
            return {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}
        self.reads.append(command)
        if self.answer is not None:
            return self.answer
        found = [] if self.document is None else [self.document]
        return {"cursor": {"id": 0, "ns": "config.cmongo_settings", "firstBatch": found}}

    def value(self, value: Any) -> None:
        self.document = {"_id": "maxTimeMS", "value": value}


@asynccontextmanager
async def following(
    value: Any = None, *, deployment: ScriptedDeployment | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Setting]]:
    """A client that reads the document, and the document, which exists if it has a value."""
    deployment = deployment or replica_set()
    setting = Setting(deployment)
    if value is not None:
        setting.value(value)
    async with scripted_client(deployment, **{**WHERE, **options}) as client:
        yield client, setting


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.module == "default_max_time"
    ]


async def test_a_change_is_seen_within_ten_seconds() -> None:
    assert INTERVAL + LIMIT < 10
    async with following() as (client, setting):
        # The mongo shell writes doubles.
        for value in (None, 1000, 2000.0, 0, Int64(3000)):
            if value is not None:
                setting.value(value)
            await anyio.sleep(10)
            await client.db.coll.find_one()
        assert setting.user_limits == [None, 1000, 2000, None, 3000]
        assert client.default_max_time == 3
        setting.document = None
        await anyio.sleep(10)
        assert client.default_max_time == 0


async def test_the_document_wins_over_the_option_and_the_application_over_the_document() -> None:
    async with following(2000, defaultMaxTimeMS=700) as (client, setting):
        # Nothing waits for the first look.
        setting.answer = Hang()
        await client.db.coll.find_one()
        setting.answer = None
        await anyio.sleep(10)
        await client.db.coll.find_one()
        client.set_default_max_time(5)
        await anyio.sleep(10)
        await client.db.coll.find_one()
        await client.db.coll.find_one(max_time_ms=9)
        client.set_default_max_time(None)
        await client.db.coll.find_one()
        assert setting.user_limits == [700, 2000, 5000, 9, 2000]


async def test_a_look_is_an_operation_with_a_deadline_of_its_own() -> None:
    async with following(50, timeoutMS=20, defaultMaxTimeMS=30) as (_, setting):
        await anyio.sleep(11)
        assert len(setting.reads) == 3
        for read in setting.reads:
            assert (read["$db"], read["filter"], read["limit"]) == ("config", {"_id": "maxTimeMS"}, 1)
            assert read["maxTimeMS"] == pytest.approx(LIMIT * 1000, abs=1)


async def test_the_document_is_read_from_a_mongos_too() -> None:
    async with following(1000, deployment=ScriptedDeployment(["a:1"], mongos=True)) as (client, setting):
        await anyio.sleep(10)
        assert client.default_max_time == 1
        # A mongos keeps the collection on its config servers, which may have no primary for a while.
        assert setting.reads[0]["$readPreference"] == {"mode": "primaryPreferred"}


@pytest.mark.parametrize("wrong", [MISSING, None, "1000", True, -1, 0.5, float("nan"), 2**31, [5], DatetimeMS(2**62)])
async def test_a_wrong_value_is_ignored_with_one_warning(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with following(1000) as (client, setting):
        await anyio.sleep(10)
        setting.value(wrong)
        if wrong is MISSING:
            del setting.document["value"]
        await anyio.sleep(60)
        assert client.default_max_time == 1
        (message,) = warned(caplog)
        assert message.startswith("the default maxTimeMS in config.cmongo_settings ")
        assert wrong is not MISSING or message.endswith(": None")
        # Another wrong value is another mistake.
        setting.value("soon")
        await anyio.sleep(60)
        assert len(warned(caplog)) == 2
        setting.value(2000)
        await anyio.sleep(10)
        assert client.default_max_time == 2


async def test_a_missing_privilege_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with following(defaultMaxTimeMS=700) as (client, setting):
        setting.answer = failure(13, message="not authorized")
        await anyio.sleep(60)
        assert client.default_max_time == 0.7
    (message,) = warned(caplog)
    assert message.startswith("the default maxTimeMS in config.cmongo_settings cannot be read: not authorized")


async def test_a_server_that_does_not_answer_keeps_the_value(caplog: pytest.LogCaptureFixture) -> None:
    async with following(1000) as (client, setting):
        await anyio.sleep(10)
        setting.answer = Hang()
        await anyio.sleep(30)
        assert client.default_max_time == 1
        setting.answer = None
        setting.value(2000)
        await anyio.sleep(INTERVAL + LIMIT)
        assert client.default_max_time == 2
    assert warned(caplog) == []


async def test_the_close_does_not_wait_for_a_look() -> None:
    async with following() as (client, setting):
        setting.answer = Hang()
        await client.db.coll.find_one()
        await anyio.sleep(1)
        assert len(setting.reads) == 1
        started = anyio.current_time()
        await client.close()
        assert anyio.current_time() - started < 0.1
        await anyio.sleep(60)
        assert len(setting.reads) == 1


@pytest.mark.parametrize("answer", [None, Hang(), Reply({"cursor": {"id": 0, "ns": "a.b", "firstBatch": []}}, 2)])
async def test_the_looks_do_not_keep_the_client_alive(answer: Answer | None) -> None:
    deployment = replica_set()
    setting = Setting(deployment)
    setting.answer = answer
    with without_collector(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = make_client(deployment, **WHERE)
        await client.db.coll.find_one()
        await anyio.sleep(12)
        reads = len(setting.reads)
        assert reads >= 2
        del client
        await anyio.sleep(60)
        assert [warning.category for warning in caught] == [ResourceWarning]
        assert not deployment["a:1"].open_connections
        assert len(setting.reads) == reads
    await deployment.close()
    gc.collect()


async def test_without_the_option_nothing_is_looked_for() -> None:
    async with following(defaultMaxTimeMS=700, defaultMaxTimeNamespace=None) as (client, setting):
        await client.db.coll.find_one()
        await anyio.sleep(60)
        assert setting.reads == []
