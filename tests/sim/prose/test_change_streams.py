"""The prose tests of the change streams specification that only a scripted server shows."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from motorlite.errors import InvalidOperation
from motorlite.testing.scripted import Hang, ScriptedDeployment, failure
from tests.support.change_log import ChangeLog, change, token
from tests.support.clients import scripted_client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LABEL = "ResumableChangeStreamError"


async def test_2_an_error_if_the_resume_token_is_missing() -> None:
    """Servers since 4.2 report it themselves."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server, log = deployment["a:1"], ChangeLog()
    log.serve(server)
    broken = {"cursor": {"id": 100, "ns": "db.coll", "nextBatch": [{"operationType": "insert"}]}}
    server.on("getMore", broken)
    async with scripted_client(deployment) as client, client.db.coll.watch() as stream:
        with pytest.raises(InvalidOperation, match="the token to resume from"):
            await stream.next()
        assert not stream.alive
        await anyio.sleep(1)
        assert server.commands("killCursors")


@pytest.mark.parametrize("answer", [failure(1), failure(43), Hang(), {"cursorsKilled": 5}], ids=str)
async def test_8_errors_of_killcursors_are_not_raised(answer: Any) -> None:
    """Not even waited for."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server, log = deployment["a:1"], ChangeLog(1)
    log.serve(server)
    server.on("getMore", failure(6, LABEL), log.get_more)
    server.on("killCursors", answer, {"ok": 1})
    async with scripted_client(deployment) as client, client.db.coll.watch(resume_after=token(0)) as stream:
        assert await stream.next() == change(1)
        before = anyio.current_time()
        log.length = 2
        assert await stream.next() == change(2)
        assert anyio.current_time() - before < 0.1
        assert len(log.stages) == 2


async def test_19_large_events_are_split() -> None:
    """Fragments are changes with tokens of their own: the stream resumes between them."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server, log = deployment["a:1"], ChangeLog(2, batch=1)
    log.serve(server)
    fragments = [{"fragment": 1, "of": 2}, {"fragment": 2, "of": 2}]

    def split(reply: Any, field: str) -> Any:
        for one in reply.document["cursor"][field]:
            one["splitEvent"] = fragments[int(one["_id"]["_data"]) - 1]
        return reply

    server.on("aggregate", lambda command: split(log.aggregate(command), "firstBatch"))
    server.on("getMore", failure(6, LABEL))
    async with scripted_client(deployment) as client:
        pipeline: list[dict[str, Any]] = [{"$changeStreamSplitLargeEvent": {}}]
        options: dict[str, Any] = {"full_document_before_change": "required", "resume_after": token(0)}
        async with client.db.coll.watch(pipeline, **options) as stream:
            found = [(await stream.next())["splitEvent"] for _ in range(2)]
        assert found == fragments
        first, second = server.commands("aggregate")
        assert first["pipeline"][1:] == second["pipeline"][1:] == pipeline
        assert second["pipeline"][0]["$changeStream"] == {
            "fullDocumentBeforeChange": "required",
            "resumeAfter": token(1),
        }
