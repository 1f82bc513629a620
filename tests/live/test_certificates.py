"""The certificate of a real server expires under load, and is replaced: no operation hangs, and nothing is lost."""

from __future__ import annotations

import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme

from motorlite.errors import AutoReconnect
from motorlite.testing import LocalServer, failpoints
from motorlite.testing.server.local_commands import Access, run_command, tls_context
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIFETIME = 4


class Authority(trustme.CA):
    """The newest authority, which has signed the certificates of the newest server."""

    newest: Authority

    def __init__(self) -> None:
        super().__init__()
        Authority.newest = self


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    monkeypatch.setattr(trustme, "CA", Authority)
    with LocalServer.start("replicaset", tls=True, own=True) as found:
        yield found


def command(server: LocalServer, document: dict[str, Any]) -> None:
    """Send a command without a look at the certificate."""
    assert server.client_certificate_file is not None
    trusting = Access(tls_context(None, server.client_certificate_file, verify=False))
    run_command(server.addresses[0], document, "admin", trusting)


def replace_certificate(server: LocalServer, lifetime: float) -> None:
    """From now on the server shows another certificate, which expires after `lifetime` seconds."""
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=lifetime)
    certificate = Authority.newest.issue_cert("localhost", "127.0.0.1", not_after=end)
    assert server.ca_file is not None
    certificate.private_key_and_cert_chain_pem.write_to_path(Path(server.ca_file).with_name("server.pem"))
    command(server, {"rotateCertificates": 1})


async def test_a_certificate_expires_and_is_replaced(server: LocalServer, database_name: str) -> None:
    acknowledged: list[str] = []
    failed: set[str] = set()
    errors: list[AutoReconnect] = []
    options: dict[str, Any] = {"serverSelectionTimeoutMS": 1_000, "heartbeatFrequencyMS": 500, "w": "majority"}
    async with make_client(server, **options) as client:
        inserts = client[database_name].inserts

        async def insert(task: int) -> None:
            for number in count():
                name = f"{task}-{number}"
                try:
                    await inserts.insert_one({"_id": name})
                    acknowledged.append(name)
                except AutoReconnect as error:
                    errors.append(error)
                    if not error.may_have_been_executed:
                        failed.add(name)
                await anyio.sleep(0.05)

        async def more() -> None:
            wanted = len(acknowledged) + 20
            await until(lambda: len(acknowledged) >= wanted)

        async with anyio.create_task_group() as tasks:
            for task in range(5):
                tasks.start_soon(insert, task)
            await more()
            replace_certificate(server, LIFETIME)
            await anyio.sleep(LIFETIME)
            await more()
            assert errors == [], "connections outlive the certificate"
            command(server, failpoints.fail_command(["insert", "hello", "isMaster"], close_connection=True, times=20))
            await until(lambda: sum("expired" in str(error) for error in errors) >= 5)
            replace_certificate(server, 3600)
            await more()
            tasks.cancel_scope.cancel()
        stored = {document["_id"] async for document in inserts.find()}
    assert set(acknowledged) <= stored
    assert failed.isdisjoint(stored)
