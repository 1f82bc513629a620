"""What a person reads in the log, and loggers whose level changes while the client runs."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import OverloadRetry
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.monitoring import CommandListener
from motorlite.testing.scripted import Close, Reply, failure, overloaded
from tests.support.clients import one_member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing.answers import Answer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FOUND: dict[str, Any] = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Restores the levels of all loggers."""
    names = ("motorlite", "motorlite.command", "motorlite.connection", "motorlite.retry")
    loggers = [logging.getLogger(), *map(logging.getLogger, names)]
    before = [(logger, logger.level, logger.disabled) for logger in loggers]
    yield
    for logger, level, disabled in before:
        logger.setLevel(level)
        logger.disabled = disabled
    logging.disable(logging.NOTSET)


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[tuple[str, str]]:
    """Level and first words of the records, which are then forgotten."""
    found = [
        (record.levelname, record.getMessage().partition(" on ")[0])
        for record in caplog.records
        if record.levelno >= level and record.name.startswith("motorlite")
    ]
    caplog.clear()
    return found


def messages(caplog: pytest.LogCaptureFixture) -> set[str | None]:
    found = {getattr(record, "motorlite", {}).get("message") for record in caplog.records}
    caplog.clear()
    return found


@pytest.mark.parametrize("name", ["motorlite.command", "motorlite", ""])
async def test_a_level_that_changes_later_takes_effect(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with one_member() as (client, _):
        await client.db.coll.find_one()
        assert "Command started" not in messages(caplog)
        logging.getLogger(name).setLevel(logging.DEBUG)
        await client.db.coll.find_one()
        assert {"Command started", "Command succeeded"} <= messages(caplog)
        logging.getLogger(name).setLevel(logging.WARNING)
        await client.db.coll.find_one()
        assert messages(caplog) == set()
        assert not client._core._publishers.command


async def test_a_level_of_pools_that_changes_later_takes_effect(caplog: pytest.LogCaptureFixture) -> None:
    async with one_member() as (client, _):
        await client.db.coll.find_one()
        logging.getLogger("motorlite.connection").setLevel(logging.DEBUG)
        await client.db.coll.find_one()
        assert messages(caplog) == {
            "Connection checkout started",
            "Connection checked out",
            "Connection checked in",
        }


async def test_logging_that_is_disabled_for_all(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("motorlite").setLevel(logging.DEBUG)
    async with one_member() as (client, _):
        is_published = []
        for level in (logging.NOTSET, logging.CRITICAL, logging.NOTSET):
            logging.disable(level)
            await client.db.coll.find_one()
            is_published.append(bool(client._core._publishers.command))
    assert is_published == [True, False, True]


async def test_loggers_that_a_configuration_disabled_stay_cheap() -> None:
    logging.getLogger("motorlite").setLevel(logging.DEBUG)
    logging.getLogger("motorlite.command").disabled = True
    async with one_member() as (client, _):
        await client.db.coll.find_one()
        publishers = client._core._publishers
        assert not publishers.command
        assert publishers.pool
        assert publishers.levels


async def test_the_first_retry_is_for_people_and_the_refusal_reaches_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("motorlite.retry").setLevel(logging.DEBUG)
    policy = OverloadRetry(max_retries=2)
    async with one_member({"find": overloaded()}, overload_policy=policy) as (client, _):
        for first in ("INFO", "DEBUG", "DEBUG"):
            with pytest.raises(OperationFailure):
                await client.db.coll.find_one()
            # At debug, nothing is left out.
            assert [(level, text[:19]) for level, text in lines(caplog, logging.DEBUG)] == [
                (first, 'Attempt 1 of "find"'),
                ("DEBUG", 'Attempt 2 of "find"'),
                ("DEBUG", 'Attempt 3 of "find"'),
            ]


async def test_a_storm_is_a_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("motorlite.retry").setLevel(logging.INFO)
    async with one_member({"find": [*[failure(91), FOUND] * 8]}) as (client, _):
        for pause in (0, 0, 0, 0, 11, 0, 11, 0):
            await anyio.sleep(pause)
            await client.db.coll.find_one()
        texts = [record.getMessage() for record in caplog.records if record.name == "motorlite.retry"]
    assert ["Similar" in text for text in texts] == [False, True, True]
    assert texts[1].endswith(". Similar messages left out: 3")
    assert texts[2].endswith(". Similar messages left out: 1")


@pytest.mark.parametrize("options", [{"retryReads": False}, {"timeoutMS": 100}])
async def test_what_the_caller_gets_as_an_exception_is_not_logged(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Raise or log, not both: who catches the error decides whether it is worth a line."""
    logging.getLogger("motorlite").setLevel(logging.INFO)
    policy = OverloadRetry(max_retries=0)
    async with one_member(overload_policy=policy, **options) as (client, a):
        await client.aconnect(timeoutMS=5000)
        caplog.clear()
        replies: list[Answer] = [overloaded(), failure(13), failure(11000)]
        for reply in [*replies, Reply(FOUND, 0.5)] if "timeoutMS" in options else replies:
            a.on("find", reply)
            with pytest.raises(PyMongoError):
                await client.db.coll.find_one()
    assert lines(caplog) == []


async def test_an_outage_with_many_callers_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("motorlite").setLevel(logging.INFO)
    async with one_member(serverSelectionTimeoutMS=60_000) as (client, a):
        await client.db.coll.find_one()
        caplog.clear()
        a.is_down = True
        a.drop_connections()
        await anyio.sleep(1)
        failed: list[PyMongoError] = []

        async def call() -> None:
            try:
                await client.db.coll.find_one()
            except PyMongoError as error:
                failed.append(error)

        async with anyio.create_task_group() as group:
            for number in range(500):
                group.start_soon(call)
                if number % 100 == 99:
                    await anyio.sleep(8)
        assert len(failed) == 500
        found = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno > logging.DEBUG]
    assert [text[:25] for level, text in found if level != "INFO"] == ["Server a:1 is unreachable"]
    waits = [text for _, text in found if text.startswith("Waiting for server")]
    # The monitor notices after ten seconds at the latest, and the last callers come after thirty-two.
    assert len(waits) == 2
    assert re.search(r"Similar messages left out: \d{2,3}$", waits[1])
    assert len(found) < 8


async def test_a_listener_that_always_fails_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(CommandListener):
        def started(self, event: object) -> None:
            raise LookupError("a bug of the application")

    async with one_member(event_listeners=[Broken()]) as (client, _):
        for pause in (0, 0, 0, 11):
            await anyio.sleep(pause)
            await client.db.coll.find_one()
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
    text = "a listener failed on CommandStartedEvent; ignored"
    assert found == [("WARNING", text), ("WARNING", f"{text}. Similar messages left out: 2")]


async def test_a_transaction_that_is_to_be_repeated_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    conflict = failure(112, "TransientTransactionError")
    stepping_down = failure(189, "TransientTransactionError")
    answers = [conflict, overloaded(), conflict, stepping_down, Close(), {"n": 1}]
    async with one_member({"insert": answers}) as (client, a), client.start_session() as session:
        await client.admin.command("ping")
        await session.with_transaction(lambda session: client.db.coll.insert_one({}, session=session))
    assert [line for line in lines(caplog, logging.WARNING) if "Attempt" in line[1]] == []
    assert len(a.commands("insert")) == 6


async def test_a_server_that_dies_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("motorlite").setLevel(logging.INFO)
    async with one_member({"find": [FOUND, Close(), FOUND]}) as (client, _):
        await client.db.coll.find_one()
        assert [text for _, text in lines(caplog) if "reachable" in text] == []
        await client.db.coll.find_one()
        texts = [text for _, text in lines(caplog)]
        assert [text for text in texts if "reachable" in text] == [
            next(text for text in texts if text.startswith("Server a:1 is unreachable. Error: AutoReconnect")),
            "Server a:1 is reachable again",
        ]


async def test_a_reply_that_is_late_is_no_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    """The connection awaits the reply, and is used again."""
    logging.getLogger("motorlite").setLevel(logging.INFO)

    async def attempt(client: Client) -> logging.LogRecord:
        caplog.clear()
        await client.db.coll.find_one()
        (record,) = [record for record in caplog.records if record.name == "motorlite.retry"]
        return record

    answers = {"find": [FOUND, Reply(FOUND, 1.5), FOUND, Close(), FOUND]}
    async with one_member(answers, socketTimeoutMS=1000, defaultMaxTimeMS=60_000) as (client, _):
        await client.db.coll.find_one()
        record = await attempt(client)
        assert " on a:1 failed (no reply in time): retrying in 0.0 ms. " in record.getMessage()
        # The reason is that of the event and of the statistics.
        assert vars(record)["motorlite"]["reason"] == "connection lost in flight"
        assert client.stats().retries == {"connection lost in flight": 1}
        await anyio.sleep(30)
        assert " on a:1 failed (connection lost in flight): " in (await attempt(client)).getMessage()


async def test_each_outage_has_a_line_about_those_who_wait(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("motorlite").setLevel(logging.INFO)
    options: dict[str, Any] = {"serverSelectionTimeoutMS": 1000, "heartbeatFrequencyMS": 500}
    async with one_member(**options) as (client, a):
        await client.db.coll.find_one()
        start = anyio.current_time()
        for _ in range(2):
            a.is_down = True
            a.drop_connections()
            await anyio.sleep(1)
            for _ in range(2):
                with pytest.raises(PyMongoError):
                    await client.db.coll.find_one()
            a.is_down = False
            await client.db.coll.find_one()
        assert anyio.current_time() - start < 10
    waits = [record.getMessage() for record in caplog.records if record.name == "motorlite.serverSelection"]
    # The client's first operation waits as well, before the server is known.
    assert ["Similar" in text for text in waits] == [False, False, True]
    assert waits[2].endswith(". Similar messages left out: 2")
