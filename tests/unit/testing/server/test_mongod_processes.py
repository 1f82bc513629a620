"""The supervisor, with harmless programs in the place of mongod."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from motorlite.testing.server import mongod_processes, supervisor
from motorlite.testing.server.local_commands import wait_until
from motorlite.testing.server.mongod_processes import Processes, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLEEP = [sys.executable, "-I", "-S", "-c", "print('up', flush=True); import time; time.sleep(600)"]

BUSY = [*SLEEP[:-1], "while True: pass"]


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.close()


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended (a zombie, which somebody else must reap, has)."""
    return state_of(pid) not in ("gone", "Z", "X")


@pytest.mark.parametrize("is_terminated", [False, True], ids=["closed", "terminated"])
def test_the_end_of_a_supervisor_ends_everything_and_removes_the_folder(
    processes: Processes, is_terminated: bool
) -> None:
    pids = [processes.start(key, SLEEP) for key in ("a", "b")]
    (processes.folder / "data").mkdir()
    assert all(map(is_running, pids))
    if is_terminated:
        processes._supervisor.terminate()
        assert processes._supervisor.wait(20) == 0
    else:
        processes.close()
    assert not any(map(is_running, pids))
    assert not processes.folder.exists()
    processes.close()
    with pytest.raises((RuntimeError, ValueError)):
        processes.kill("a")


def test_a_process_can_be_killed_and_started_again(processes: Processes) -> None:
    first = processes.start("a", SLEEP)
    assert not processes.has_ended("a")
    wait_until(lambda: processes.log_tail("a") == "up\n", "the output")
    processes.kill("a")
    assert processes.has_ended("a")
    assert not is_running(first)
    assert is_running(processes.start("a", SLEEP))


def test_a_busy_process_has_stopped_when_it_is_frozen(processes: Processes) -> None:
    """A test that freezes a server asks it something next, and must get no answer."""
    pids = {key: processes.start(key, BUSY) for key in "abcd"}
    for _ in range(5):
        for key, pid in pids.items():
            processes.freeze(key)
            assert state_of(pid) == "T"
        for key in pids:
            processes.thaw(key)
    wait_until(lambda: state_of(pids["a"]) != "T", "the process to go on")
    # A frozen one can be killed.
    processes.freeze("a")
    processes.kill("a")
    assert not is_running(pids["a"])


WRITE = [
    *SLEEP[:-1],
    """
import sys, time
while True:
    try:
        with open(sys.argv[1] + "/data", "ab") as file:
            file.write(bytes(100_000))
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
    time.sleep(0.01)
""",
]


def test_a_disk_is_filled_and_drained(processes: Processes) -> None:
    """Only processes started by the supervisor see it, and it goes away with them."""
    disk = processes.folder / "disk"
    disk.mkdir()
    try:
        processes.mount(disk, 64)
    except PermissionError as error:
        pytest.skip(f"this system permits no disks of our own: {error}")

    def wait_for(said: str) -> None:
        wait_until(lambda: processes.log_tail("a").endswith(said), said)

    # An empty one, too: its smallest size must not be taken for none.
    processes.fill(disk)
    processes.drain(disk)
    processes.start("a", [*WRITE, str(disk)])
    wait_for("written\n")
    processes.fill(disk)
    wait_for("No space left on device\n")
    processes.drain(disk)
    wait_for("written\n")
    assert list(disk.iterdir()) == []
    assert str(disk) not in Path("/proc/mounts").read_text()
    processes.close()
    assert not processes.folder.exists()


def test_a_program_that_is_not_there_is_an_error_and_the_supervisor_goes_on(processes: Processes) -> None:
    with pytest.raises(OSError, match="No such file"):
        processes.start("a", ["/nowhere/mongod"])
    assert is_running(processes.start("a", SLEEP))


def test_the_answer_to_an_interrupted_order_is_dropped(processes: Processes) -> None:
    first = processes.start("a", SLEEP)
    # It answers nothing until the interrupt has come.
    processes._supervisor.send_signal(signal.SIGSTOP)
    # Not the signal of Ctrl-C, and not that of pytest-timeout.
    previous = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        for order in (processes.kill, processes.has_ended):
            with pytest.raises(KeyboardInterrupt):
                give_and_interrupt(order)
    finally:
        signal.signal(signal.SIGUSR1, previous)
        processes._supervisor.send_signal(signal.SIGCONT)
    second = processes.start("b", SLEEP)
    assert is_running(second)
    assert not is_running(first), "the orders themselves were carried out"
    assert processes.has_ended("a")
    assert not processes.has_ended("b")


def give_and_interrupt(order: Callable[[str], object]) -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    order("a")


def test_a_killed_supervisor_takes_its_processes_along(processes: Processes) -> None:
    pid = processes.start("a", SLEEP)
    processes._supervisor.kill()
    wait_until(lambda: not is_running(pid), "the kernel to end the process")
    with pytest.raises((RuntimeError, BrokenPipeError)):
        processes.kill("a")
    for left in sorted(processes.folder.rglob("*")):
        left.unlink()
    processes.folder.rmdir()


OWNER = """
import os, sys
from motorlite.testing.server.mongod_processes import Processes
processes = Processes()
pid = processes.start("a", {command!r})
if {forks}:
    child = os.fork()  # keeps the supervisor's pipe open after its owner's death
    if child == 0:
        os.close(1)
        os.close(2)
        import time
        time.sleep(600)
else:
    child = 0
print(pid, processes._supervisor.pid, child, processes.folder, flush=True)
{end}
"""


WAITS = "sys.stdin.read()"


@pytest.mark.parametrize(
    ("end", "forks"),
    [("", False), ("raise SystemExit(3)", False), ("del processes", False), (WAITS, False), (WAITS, True)],
    ids=["forgets to close", "fails", "drops them", "killed", "killed, with a fork that lives on"],
)
def test_nothing_is_left_behind_by_an_owner(end: str, forks: bool) -> None:
    command = [sys.executable, "-c", OWNER.format(command=SLEEP, forks=forks, end=end)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[4]) as owner:
        assert owner.stdout is not None
        pid, supervisor_pid, child, folder = owner.stdout.readline().split()
        if end == WAITS:
            assert is_running(int(pid))
            owner.kill()
    if end == WAITS:
        wait_until(lambda: not is_running(int(supervisor_pid)), "the supervisor to notice")
    assert not is_running(int(pid))
    assert not is_running(int(supervisor_pid))
    assert not Path(folder).exists()
    if forks:
        os.kill(int(child), signal.SIGKILL)


def test_only_the_owner_ends_what_it_started(processes: Processes) -> None:
    pid = processes.start("a", SLEEP)
    mongod_processes._close(processes._supervisor, owner=os.getpid() + 1)
    assert is_running(pid)


def test_free_ports_differ_and_can_be_bound() -> None:
    with ExitStack() as stack:
        for _ in range(20):
            # At once, and until the end: other processes look for free ports too.
            stack.enter_context(socket.socket()).bind(("127.0.0.1", free_port()))


def test_a_taken_port_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()
        taken: int = listener.getsockname()[1]
        monkeypatch.setattr(mongod_processes, "PORTS", range(taken, taken + 1))
        with pytest.raises(OSError, match="no free port"):
            free_port()


def test_the_supervisor_is_quick_to_start() -> None:
    """It imports the standard library only, whatever the package around it costs."""
    names = "import sys; sys.argv = ['x', '0']; import runpy; runpy.run_path({!r}); print(sorted(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-I", "-c", names.format(supervisor.__file__)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "subprocess" in found.stdout
    assert not {"motorlite", "bson", "anyio", "asyncio"} & set(eval(found.stdout))


# --- the supervisor's system calls, in this process ---


def test_a_system_call_that_fails_says_which() -> None:
    with pytest.raises(OSError, match="umount2: ") as error:
        supervisor._call("umount2", b"/nowhere", 0)
    assert error.value.errno


@pytest.mark.parametrize("is_root", [True, False])
def test_mounts_of_its_own(is_root: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Root needs no user namespace; others get one in which they keep their own id."""
    calls: list[tuple[object, ...]] = []

    def call(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 1 and not is_root:
            raise PermissionError

    monkeypatch.setattr(supervisor, "_call", call)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(supervisor, "open", lambda path, mode: (tmp_path / Path(path).name).open(mode), raising=False)
    supervisor._leave_mount_namespace()
    unshared = [flags for name, flags, *_ in calls if name == "unshare"]
    assert unshared == [supervisor.CLONE_NEWNS, supervisor.CLONE_NEWNS | supervisor.CLONE_NEWUSER][: 2 - is_root]
    assert calls[-1][:3] == ("mount", b"none", b"/")
    if is_root:
        assert not list(tmp_path.iterdir())
    else:
        assert (tmp_path / "setgroups").read_text() == "deny"
        assert (tmp_path / "uid_map").read_text() == f"{os.geteuid()} {os.geteuid()} 1"
        assert (tmp_path / "gid_map").read_text() == f"{os.getegid()} {os.getegid()} 1"


def test_disks_need_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OSError, match="need Linux"):
        supervisor._leave_mount_namespace()
