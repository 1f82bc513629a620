"""The prose tests of the client-side operations timeout specification that need a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import PyMongoError
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024


@pytest.mark.slow
async def test_1_multi_batch_inserts(standalone: LocalServer, database_name: str, fail: Fail) -> None:
    """The batches of insert_many share one limit."""
    record = Recorder()
    fail(standalone, failpoints.fail_command(["insert"], block_ms=1010, times=2))
    options: dict[str, Any] = {"timeoutMS": 2000, "readConcernLevel": "majority", "w": "majority"}
    async with make_client(standalone, event_listeners=[record], **options) as client:
        await client.admin.command("ping", timeoutMS=0)
        with pytest.raises(PyMongoError) as caught:
            await client[database_name].coll.insert_many([{"a": "b" * MEGABYTE} for _ in range(50)])
        assert caught.value.timeout
        assert len(record.commands("insert")) == 2
