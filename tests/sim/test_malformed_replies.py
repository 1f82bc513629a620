"""Whatever a reply says, an operation returns or raises an error that is documented, and no connection is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest
from bson.errors import BSONError
from bson.timestamp import Timestamp

from motorlite.errors import PyMongoError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.malformed import REFUSED, malformed
from tests.support.operation_cases import CASES, MORE, OK, OPEN, outcome

if TYPE_CHECKING:
    from tests.support.operation_cases import Case

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

# What servers add to every reply.
GOSSIP: Final[dict[str, Any]] = {
    "$clusterTime": {"clusterTime": Timestamp(5, 1), "signature": {"hash": b"\0" * 20, "keyId": 0}},
    "operationTime": Timestamp(5, 1),
}
# Replies that any command may get, and the calls that they are tried with.
KINDS: Final = ("find_one", "command")
FAILURES: Final[list[dict[str, Any]]] = [
    {**OK, **GOSSIP},
    {
        "ok": 0.0,
        "errmsg": "no",
        "code": 462,
        "codeName": "IngressRequestRateLimitExceeded",
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
        "baseBackoffMS": 1,
    },
    {"ok": 0.0, "errmsg": "not primary", "code": 10107, "topologyVersion": {"processId": 1, "counter": 1}},
    {"ok": 0.0, "errmsg": "too slow", "code": 50, "errInfo": {}},
]


def examined(value: object) -> None:
    """Look at everything that a result or an error offers."""
    assert repr(value) is not None
    for name in dir(value) if type(value).__module__.startswith("motorlite") else ():
        if not name.startswith("_"):
            getattr(value, name)
    if isinstance(value, PyMongoError):
        assert str(value)


def left_over(client: Any) -> bool:
    """Whether a connection is anything but idle."""
    (stats,) = client.stats().servers.values()
    return bool(stats.in_use or stats.pending or stats.connecting or stats.waiting)


async def complaint(case: Case, client: Any, server: Any, what: str, reply: dict[str, Any]) -> str | None:
    """What happened to a call that got this reply, if anything that must not."""
    # A cursor would go on and on.
    server.on(case.command, reply, *([MORE] if case.command == "getMore" else []))
    try:
        found = await outcome(case, client)
        examined(found)
    except BSONError as error:
        return None if any(what.endswith(name) for name in REFUSED) else f"{what}: {error!r}"
    except Exception as error:
        return f"{what}: {error!r}"
    del found
    if left_over(client):  # perhaps of what ends cursors in the background
        await anyio.sleep(2)
    if left_over(client):
        (state,) = [known.pool.state for known in client._core.topology.servers]
        return f"{what}: connections are left over: {state.in_use}, {state.pending}, {state.connecting}"
    return None


ROWS = [(name, "replica set") for name in CASES] + [
    (name, "load balancer") for name, case in CASES.items() if OPEN in (*case.replies, *case.others.values())
]


@pytest.mark.parametrize(("name", "kind"), ROWS)
async def test_one_thing_wrong(name: str, kind: str) -> None:
    case = CASES[name]
    is_balanced = kind == "load balancer"
    if is_balanced:
        deployment = ScriptedDeployment(["a:1"], services=1, wire_version=25)
        server = deployment.services[0]
    else:
        deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=25)
        server = deployment["a:1"]
    complaints = []
    async with scripted_client(deployment, heartbeatFrequencyMS=3_600_000, maxAdaptiveRetries=1) as client:
        for command, reply in case.others.items():
            server.on(command, reply)
        replies = [*case.replies, *FAILURES] if name in KINDS and not is_balanced else case.replies
        for reply in replies:
            for what, spoilt in malformed(reply):
                complaints.append(await complaint(case, client, server, what, spoilt))
        server.on(case.command, case.replies[0])
        assert not isinstance(await outcome(case, client), PyMongoError)
        server.on("endSessions", {"ok": 1, "writeConcernError": 5})
    found = [text for text in complaints if text is not None]
    assert not found, "\n".join([f"{len(found)} of {len(complaints)}", *found[:40]])
