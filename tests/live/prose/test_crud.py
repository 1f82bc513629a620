"""The prose tests of the CRUD specification that a real server shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite.errors import WriteConcernError, WriteError
from motorlite.monitoring import CommandSucceededEvent
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


async def test_1_write_concern_error_details_expose_err_info(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Prose test 1: errInfo of a write concern error is in the exception's details."""
    concern_error = {
        "code": 100,
        "codeName": "UnsatisfiableWriteConcern",
        "errmsg": "Not enough data-bearing nodes",
        "errInfo": {"writeConcern": {"w": 2, "wtimeout": 0, "provenance": "clientSupplied"}},
    }
    fail(replica_set, failpoints.fail_command(["insert"], write_concern_error=concern_error, times=1))
    async with make_client(replica_set) as client:
        with pytest.raises(WriteConcernError) as caught:
            await client[database_name].c.insert_one({})
    assert caught.value.code == 100
    assert caught.value.details is not None
    assert caught.value.details["errInfo"] == concern_error["errInfo"]


async def test_2_write_error_details_expose_err_info(deployment: LocalServer, database_name: str) -> None:
    """Prose test 2: errInfo of a write error is in the exception's details, as it was in the reply."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = await client[database_name].create_collection("test", validator={"x": {"$type": "string"}})
        record.clear()
        with pytest.raises(WriteError) as caught:
            await collection.insert_one({"x": 1})
    assert caught.value.code == 121
    assert caught.value.details is not None
    event = record.ended_events[0]
    assert isinstance(event, CommandSucceededEvent)
    assert event.command_name == "insert"
    assert caught.value.details["errInfo"] == event.reply["writeErrors"][0]["errInfo"]
    assert caught.value.details["errInfo"]["failingDocumentId"] is not None
