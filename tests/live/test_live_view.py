"""The socket of `motorlite.exporters.live` and ``python -m motorlite.top``, in programs of their own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.exporters import _sockets
from tests.live.clients import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from motorlite.testing import LocalServer

PROGRAM = """
import asyncio, os, signal, sys
import anyio
from motorlite import AsyncMongoClient
from motorlite.exporters import live

uri, name, backend, ending = sys.argv[1:]

async def main():
    view = live()
    async with AsyncMongoClient(uri, maxPoolSize=1, appName="shop") as client:
        coll = client[name].coll
        async def work():
            while True:
                await coll.find_one({"$where": "sleep(20) || true"})
        await coll.insert_one({"n": 1})
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(work)
            print(view.path, flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            core = client._core
            while core.executor.reports.watch is not None:
                await anyio.sleep(0.01)
            print("nobody watches", flush=True)
            group.cancel_scope.cancel()
    if ending == "fork":
        child = os.fork()
        if not child:
            print(view.path, flush=True)
            sys.stdin.readline()
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        assert os.path.exists(view.path)

backend = (("asyncio", {"use_uvloop": True}) if backend == "uvloop" else (backend, {}))
anyio.run(main, backend=backend[0], backend_options=backend[1])
print("the end", flush=True)
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's sockets."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "motorlite"


class Running:
    """A program with a live view."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.path = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def running(server: LocalServer, database_name: str, backend: str = "asyncio", ending: str = "") -> Iterator[Running]:
    # Python 3.12 and later advise against forks of processes with threads, which is what one of the tests is about.
    mode = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
    with subprocess.Popen(
        [sys.executable, *mode, "-c", PROGRAM, server.uri, database_name, backend, ending],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def top(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "motorlite.top", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "140", **(environment or {})},
    )


@contextmanager
def reader(path: str) -> Iterator[Iterator[dict[str, Any]]]:
    with _sockets.connect(path) as sock, sock.makefile("rb") as stream:
        sock.settimeout(20)
        yield (json.loads(line) for line in stream)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio", "uvloop"])
def test_a_program_under_load(standalone: LocalServer, database_name: str, backend: str, runtime: Path) -> None:
    if backend == "uvloop":
        pytest.importorskip("uvloop")
    with running(standalone, database_name, backend) as program:
        pid = program.process.pid
        assert program.path == str(runtime / f"{pid}.sock")
        with reader(program.path) as first, reader(program.path) as second:
            for _ in range(2):
                next(first), next(second)
            found = [next(first), next(first)]
            assert found[-1]["pid"] == next(second)["pid"] == pid
        older, newer = (snapshot["clients"][0] for snapshot in found)
        assert newer["name"] == "shop"
        counts = [client["watched"]["operations"]["find"]["succeeded"] for client in (older, newer)]
        assert 0 < counts[0] < counts[1]
        assert newer["watched"]["in_flight"] == {"queue": 3, "reply": 1}
        assert newer["watched"]["lost"]["queue"] > older["watched"]["lost"]["queue"]
        (server,) = newer["servers"].values()
        assert (server["in_use"], server["waiting"]) == (1, 3)
        listed = top("--list")
        assert listed.stdout.split() == [str(pid), "-c", "shop", program.path]
        once = top("--once", str(pid))
        assert once.returncode == 0, once.stderr
        for words in ("client 1: shop", "find", "queue", "servers and their pools"):
            assert words in once.stdout
        lines = top("--json", "--once")
        assert json.loads(lines.stdout)["version"] == 1
        program.go_on()
        assert program.line() == "nobody watches"
        assert program.line() == "the end"
        assert program.process.wait(20) == 0
    assert list(runtime.iterdir()) == []


def test_only_the_user_may_connect(standalone: LocalServer, database_name: str, runtime: Path) -> None:
    with running(standalone, database_name) as program:
        assert stat.S_IMODE(os.stat(program.path).st_mode) == 0o600
        assert stat.S_IMODE(runtime.stat().st_mode) == 0o700


def test_what_a_killed_program_left_is_removed(standalone: LocalServer, database_name: str, runtime: Path) -> None:
    with running(standalone, database_name) as killed:
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(20)
        assert os.path.exists(killed.path)
        found = top("--json", "--once")
        assert (found.returncode, found.stdout) == (1, "")
        assert "no program of this user has a live view" in found.stderr
        assert list(runtime.iterdir()) == []
        again = top("--json", "--once", str(killed.process.pid))
        assert f"process {killed.process.pid} has no live view" in again.stderr


def test_several_programs(standalone: LocalServer, database_name: str, runtime: Path) -> None:
    with running(standalone, database_name) as one, running(standalone, database_name) as other:
        pids = sorted(program.process.pid for program in (one, other))
        assert [int(line.split()[0]) for line in top("--list").stdout.splitlines()] == pids
        unclear = top("--json")
        assert unclear.returncode == 1
        assert "there are several programs" in unclear.stderr
        assert all(str(pid) in unclear.stderr for pid in pids)
        for pid in pids:
            assert json.loads(top("--json", "--once", str(pid)).stdout)["pid"] == pid


def test_a_forked_child_has_a_view_of_its_own(standalone: LocalServer, database_name: str, runtime: Path) -> None:
    with running(standalone, database_name, ending="fork") as program:
        with reader(program.path) as watching:
            next(watching)
        program.go_on()
        assert program.line() == "nobody watches"
        child = program.line()
        assert child != program.path
        for path in child, program.path:
            with reader(path) as watching:
                assert next(watching)["pid"] == int(os.path.basename(path).removesuffix(".sock"))
        program.go_on()
        # First the child, then the parent.
        assert program.line() == "the end"
        assert program.process.wait(20) == 0
    assert list(runtime.iterdir()) == []


def test_the_end_of_the_program_is_the_end_of_the_view(
    standalone: LocalServer, database_name: str, runtime: Path
) -> None:
    with running(standalone, database_name) as program:
        viewer = subprocess.Popen(
            [sys.executable, "-m", "motorlite.top", "--json", str(program.process.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert viewer.stdout is not None
        assert json.loads(viewer.stdout.readline())["version"] == 1
        program.process.kill()
        _, said = viewer.communicate(timeout=20)
        assert viewer.returncode == 1
        assert "the program has ended" in said


def test_the_screen_goes_on_until_ctrl_c(standalone: LocalServer, database_name: str, runtime: Path) -> None:
    with running(standalone, database_name):
        terminal, other_end = pty.openpty()
        viewer = subprocess.Popen(
            [sys.executable, "-m", "motorlite.top"],
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "40"},
            # These tests may run in the background, where a shell has children ignore the signal.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )
        os.close(other_end)
        shown = b""
        while shown.count(b"servers and their pools") < 3:
            shown += os.read(terminal, 65536)
        viewer.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # Linux: the terminal has no other end any more
            while more := os.read(terminal, 65536):
                shown += more
        os.close(terminal)
        assert viewer.wait(20) == 0
        enter, leave = b"\x1b[?1049h", b"\x1b[?1049l"
        assert enter in shown, "the screen is one of its own"
        assert shown.index(enter) < shown.rindex(leave), "what was on the terminal is there again"


def test_without_rich_there_is_one_clear_error(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError", encoding="utf-8")
    found = top("--once", environment={"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"})
    assert found.returncode == 2
    assert found.stderr == (
        "motorlite.top needs rich, which is in an extra: pip install 'motorlite[top]' (--json does not)\n"
    )


def test_a_program_that_is_frozen_is_not_taken_for_one_that_ended(
    standalone: LocalServer, database_name: str, runtime: Path
) -> None:
    with running(standalone, database_name) as program:
        program.process.send_signal(signal.SIGSTOP)
        began = time.perf_counter()
        assert dict(_sockets.found()) == {program.process.pid: program.path}
        assert time.perf_counter() - began < 10
        program.process.send_signal(signal.SIGCONT)
