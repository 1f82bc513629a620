"""A forked child unwinds the event loop of its parent (`sys.exit` in a task), and the parent does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]

# Python 3.12 and later advise against forks of processes with threads, which is what this is about.
NO_ADVICE = ("-W", "ignore:This process:DeprecationWarning")

PROGRAM = """
import asyncio, os, signal, sys, threading, warnings
import anyio, trio, uvloop
from motorlite import AsyncMongoClient
from tests.support.lying_server import LyingServer
from tests.support.peers import server_context
from motorlite.testing.server.certificates import make_certificates
from pathlib import Path

backend, way, folder = sys.argv[1:]
certificates = make_certificates(Path(folder)) if way == "tls" else None

async def ping(client, times=3):
    for _ in range(times):
        with anyio.fail_after(10):
            assert await client.admin.command("ping") == {"ok": 1}

async def main(server):
    options = {"tls": True, "tlsCAFile": str(certificates.ca_file)} if certificates else {}
    # One connection: a second one might be opened, but not be used before the fork.
    client = AsyncMongoClient(*server.address, directConnection=True, maxPoolSize=1, **options)
    ended = threading.Event()
    async with client:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(ping, client)
        before = {number for _, number in server.commands}
        async with anyio.create_task_group() as group:
            if way == "in flight":
                # The reply comes while the child is unwinding, or afterwards. On trio always afterwards: a child that
                # still waits takes the event from the selector that both share, and the parent never gets it.
                if backend == "trio":
                    server.lies = lambda _, reply: [reply] if ended.wait(40) else []
                else:
                    server.delay = 0.3
                group.start_soon(ping, client, 1)
                await anyio.sleep(0.1)
            child = os.fork()
            if child == 0:
                sys.stderr = open(os.devnull, "w")
                # From Python 3.14 on, uvloop can lose a wake-up in a forked child, which then waits for ever.
                signal.alarm(5 if backend == "uvloop" else 30)
                if way == "spins":
                    for _ in range(20):
                        await anyio.sleep(0.01)
                sys.exit(3)
            # The loop stands still until the child has ended.
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code == 3 or (code == -signal.SIGALRM and backend == "uvloop"), code
            ended.set()
        server.delay = 0
        await ping(client)
        assert {number for _, number in server.commands} == before, "no connection was lost"
        print("the parent goes on", flush=True)
        if backend == "trio":
            # The child has taken trio's own wake-up socket out of the selector: this run could not end.
            os._exit(0)

with LyingServer(server_context(certificates) if certificates else None) as server:
    owner = os.getpid()
    try:
        if backend == "trio":
            trio.run(main, server)
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop if backend == "uvloop" else None) as runner:
                runner.run(main(server))
    except BaseException as error:
        if os.getpid() == owner:
            raise
        # The threads of the server are the parent's.
        os._exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "tls", "spins", "in flight"])
@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_the_parent_goes_on(backend: str, way: str, tmp_path: Path) -> None:
    line = [sys.executable, *NO_ADVICE, "-c", PROGRAM, backend, way, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(line, capture_output=True, text=True, timeout=50, cwd=REPOSITORY, env=environment)
    assert (result.stdout, result.stderr) == ("the parent goes on\n", "")


DETACHED = """
import os, socket, sys
from motorlite._net.host import keep_from_children
near, far = socket.socketpair()
other, _ = socket.socketpair()
gone = socket.socket()
for sock in (near, gone):
    keep_from_children(sock)
gone.close()
child = os.fork()
if child == 0:
    try:
        near.send(b"from the child")
    except OSError:
        pass
    assert os.fstat(near.fileno()).st_rdev == os.stat(os.devnull).st_rdev
    assert not os.get_inheritable(near.fileno())
    number = near.fileno()
    near.close()
    assert os.open(os.devnull, os.O_RDONLY) == number, "it was the child's own"
    os.fstat(other.fileno())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
near.send(b"from the parent")
far.settimeout(10)
print(far.recv(100).decode())
"""


def test_the_sockets_lead_nowhere_in_the_child() -> None:
    line = [sys.executable, *NO_ADVICE, "-c", DETACHED]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(line, capture_output=True, text=True, timeout=60, env=environment)
    assert (result.stdout, result.stderr) == ("from the parent\n", "")


# The profiler stops the thread at the call of a C function inside `next_id`, where a lock would be held.
REQUEST_IDS = """
import os, signal, sys, threading
from motorlite._net.host import make_request_ids
next_id = make_request_ids(has_gil=False)
is_inside, may_go_on = threading.Event(), threading.Event()
def stop_inside(frame, event, argument):
    if event == "c_call" and argument is next:
        sys.setprofile(None)
        is_inside.set()
        may_go_on.wait()
def make_id():
    sys.setprofile(stop_inside)
    next_id()
thread = threading.Thread(target=make_id)
thread.start()
is_inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    next_id()
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
may_go_on.set()
thread.join()
print("the child ended with", code)
"""


def test_a_child_makes_request_ids_while_a_thread_of_the_parent_does() -> None:
    line = [sys.executable, *NO_ADVICE, "-c", REQUEST_IDS]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(line, capture_output=True, text=True, timeout=50, env=environment)
    assert (result.stdout, result.stderr) == ("the child ended with 0\n", "")
