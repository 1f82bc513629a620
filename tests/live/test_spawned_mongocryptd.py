"""The client starts mongocryptd: a program that stands in for it, and ends when nothing is connected to it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.binary import Binary

from motorlite.encryption import Algorithm
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import EncryptionError
from motorlite.testing.server.mongod_processes import free_port
from tests.support.clients import make_client
from tests.support.data_keys import PROVIDERS, SECRET, client_encryption

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

REPOSITORY = Path(__file__).resolve().parents[2]
# Seconds.
PATIENCE = 20


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@dataclass
class Program:
    path: Path
    record: Path
    port: int

    @property
    def processes(self) -> list[int]:
        """All that were started."""
        return [int(line) for line in self.record.read_text().split()] if self.record.exists() else []

    def options(self, **others: Any) -> dict[str, Any]:
        arguments = [f"--port={self.port}", f"--record={self.record}", "--idleShutdownTimeoutSecs=1"]
        return {
            "mongocryptd_uri": f"mongodb://127.0.0.1:{self.port}",
            "mongocryptd_spawn_path": str(self.path),
            "mongocryptd_spawn_args": arguments,
            **others,
        }

    async def ends(self) -> None:
        with anyio.fail_after(PATIENCE):
            while any(map(is_running, self.processes)):  # noqa: ASYNC110
                await anyio.sleep(0.05)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    path = tmp_path / "mongocryptd"
    run = (
        f"cd {shlex.quote(str(REPOSITORY))} && exec {shlex.quote(sys.executable)} -m tests.support.mongocryptd_program"
    )
    # It starts slowly where the test says so.
    path.write_text(f'#!/bin/sh\ntest ! -e "$0.slow" || sleep 6\n{run} "$@"\n')
    path.chmod(0o755)
    found = Program(path, tmp_path / "record", free_port())
    yield found
    for process in found.processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@asynccontextmanager
async def encrypting(server: LocalServer, name: str, options: dict[str, Any]) -> AsyncIterator[tuple[Client, Client]]:
    """A plain client, and one that encrypts the field `ssn` of ``name.people``."""
    async with make_client(server.uri) as plain:
        async with client_encryption(plain, f"{name}.keys") as explicit:
            key = await explicit.create_data_key("local")
        algorithm = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic.value
        rule = {"encrypt": {"keyId": [key], "bsonType": "string", "algorithm": algorithm}}
        schemas = {f"{name}.people": {"bsonType": "object", "properties": {"ssn": rule}}}
        given = AutoEncryptionOpts(PROVIDERS, f"{name}.keys", schema_map=schemas, **options)
        async with make_client(server.uri, auto_encryption_opts=given) as client:
            yield plain, client


async def test_starts_it_with_the_first_command(standalone: LocalServer, database_name: str, program: Program) -> None:
    async with encrypting(standalone, database_name, program.options()) as (plain, client):
        assert not program.processes
        people = client[database_name].people
        await people.insert_one({"_id": 1, "ssn": SECRET})
        stored = await plain[database_name].people.find_one({})
        assert stored is not None
        assert isinstance(stored["ssn"], Binary)
        assert await people.find_one({"ssn": SECRET}) == {"_id": 1, "ssn": SECRET}
        assert len(program.processes) == 1
    await program.ends()


async def test_starts_it_again_when_it_has_ended(
    standalone: LocalServer, database_name: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motorlite._encryption.mongocryptd._SELECTION_TIMEOUT", 20_000)
    async with encrypting(standalone, database_name, program.options()) as (_, client):
        people = client[database_name].people
        await people.insert_one({"_id": 1, "ssn": SECRET})
        (first,) = program.processes
        program.path.with_suffix(".slow").touch()
        os.kill(first, signal.SIGKILL)
        await program.ends()
        await people.insert_one({"_id": 2, "ssn": SECRET})
        assert await people.count_documents({"ssn": SECRET}) == 2
        assert len(program.processes) == 2
    await program.ends()


async def test_does_not_start_it_if_the_option_says_so(
    standalone: LocalServer, database_name: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motorlite._encryption.mongocryptd._SELECTION_TIMEOUT", 200)
    options = program.options(mongocryptd_bypass_spawn=True)
    async with encrypting(standalone, database_name, options) as (plain, client):
        with pytest.raises(EncryptionError):
            await client[database_name].people.insert_one({"ssn": SECRET})
        assert await plain[database_name].people.count_documents({}) == 0
    assert not program.processes


async def test_warns_that_it_is_missing(
    standalone: LocalServer, database_name: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motorlite._encryption.mongocryptd._SELECTION_TIMEOUT", 200)
    options = program.options(mongocryptd_spawn_path=str(program.path.with_name("missing")))
    async with encrypting(standalone, database_name, options) as (plain, client):
        with pytest.warns(RuntimeWarning, match="is not on PATH"), pytest.raises(EncryptionError):
            await client[database_name].people.insert_one({"ssn": SECRET})
        assert await plain[database_name].people.count_documents({}) == 0
