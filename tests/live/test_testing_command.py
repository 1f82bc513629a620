"""``python -m motorlite.testing`` with real servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import Access, run_command, wait_until
from motorlite.testing.server.mongod_processes import free_port
from tests.support.ports import two_free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The running command, which a failing test kills."""
    line = [sys.executable, "-m", "motorlite.testing", *arguments]
    # Set, it must not be used.
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "MONGODB_URI": "mongodb://127.0.0.1:1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, cwd=REPOSITORY, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def three_lines(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(3)]


def folder_of(port: int) -> Path:
    """The folder of the server on this port."""
    reply = run_command(("127.0.0.1", port), {"getCmdLineOpts": 1}, "admin", Access())
    return Path(reply["parsed"]["storage"]["dbPath"]).parent


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stays_until_it_is_interrupted(number: signal.Signals) -> None:
    port = free_port()
    with command("--port", str(port)) as process:
        version, uri, how_to_end = three_lines(process)
        assert version.startswith("MongoDB ")
        assert version.endswith(", replica set of 1 member")
        assert uri == f"mongodb://127.0.0.1:{port}/?replicaSet=rs0"
        assert how_to_end == "Ctrl-C ends it and removes its data"
        for each in (uri, f"mongodb://localhost:{port}"):
            anyio.run(write, each)
        folder = folder_of(port)
        assert folder.is_dir()
        process.send_signal(number)
        assert process.communicate() == ("", "")
        assert process.returncode == 0
    assert is_free(port)
    assert not folder.exists()


async def write(uri: str) -> None:
    async with AsyncMongoClient(uri) as client:
        assert (await client.admin.command("ping"))["ok"] == 1
        await client.test.things.insert_one({})
        assert {host for host, _ in client.nodes} == {"127.0.0.1"}


def test_an_interrupt_while_it_starts() -> None:
    port = free_port()
    with command("--port", str(port)) as process:
        wait_until(lambda: not is_free(port), "mongod to listen")
        folder = folder_of(port)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    # It may have printed the lines already.
    assert (err, process.returncode) == ("", 0), out
    assert is_free(port)
    assert not folder.exists()


def test_members_have_ports_that_follow_each_other_and_the_uri_has_what_a_client_needs() -> None:
    port = two_free_ports()
    with command("--port", str(port), "--nodes", "2", "--auth", "--tls") as process:
        version, uri, _ = three_lines(process)
        assert version.endswith(", replica set of 2 members")
        assert f"@127.0.0.1:{port},127.0.0.1:{port + 1}/?" in uri
        anyio.run(count_users, uri)
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
    assert is_free(port)
    assert is_free(port + 1)


async def count_users(uri: str) -> None:
    async with AsyncMongoClient(uri) as client:
        assert len((await client.admin.command("usersInfo"))["users"]) == 1


def test_a_port_for_a_proxy() -> None:
    port = free_port()
    with LocalServer.start(port=port, proxied=True) as server:
        assert [*server.proxies] == [("127.0.0.1", port)] == [*server.addresses]
        assert server.proxies["127.0.0.1", port].target[1] != port
        run_command(("127.0.0.1", port), {"ping": 1}, "admin", Access())
