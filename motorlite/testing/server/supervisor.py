"""Net: the process that owns the mongods and the folder of one `LocalServer`.

It runs by its path, imports only the standard library, and reads orders as lines of JSON from standard input. It
answers each with one line on standard output, which has the number of the order. When its input ends, because its owner
closed it or died, it kills the mongods that it started, waits for them, and removes the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
SECONDS_BETWEEN_LOOKS = 1.0
# Of unshare, mount and umount2.
CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20, 0x4000, 0x4_0000
MNT_DETACH = 2
MEBIBYTE = 1024 * 1024


class Supervisor:
    """Executes the orders: each order is a method, whose return value is the answer."""

    def __init__(self, folder: str) -> None:
        self.folder: str = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # The disks that `mount` has made, by their folders, and their sizes in bytes.
        self._disks: dict[str, int] = {}

    def start(self, key: str, arguments: list[str]) -> int:
        """Start a mongod and return its process id; its output goes to the file `key`.log."""
        with open(os.path.join(self.folder, key + ".log"), "ab") as log:
            self._processes[key] = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
            )
        return self._processes[key].pid

    def poll(self, key: str) -> int | None:
        """The exit status of a mongod, or None while it runs."""
        return self._processes[key].poll()

    def kill(self, key: str) -> None:
        """Kill a mongod, even a frozen one, and wait until it has ended."""
        process = self._processes[key]
        process.kill()
        process.wait()

    def freeze(self, key: str) -> None:
        """Make a mongod hang: once this returns, its sockets stay open and it replies to nothing."""
        process = self._processes[key]
        process.send_signal(signal.SIGSTOP)
        if sys.platform == "linux":
            # Threads on other cores stop slightly later. Without WNOWAIT, `poll` would miss the end of the process.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self, key: str) -> None:
        """Resume a frozen mongod."""
        self._processes[key].send_signal(signal.SIGCONT)

    def mount(self, path: str, megabytes: int) -> None:
        """Make an empty folder a disk of its own, in memory.

        Only this process and its mongods see it, and it goes away with them. Root is not needed where the system
        permits user namespaces.
        """
        if not self._disks:
            _leave_mount_namespace()
        _mount("tmpfs", path, 0, f"size={megabytes}m")
        self._disks[path] = megabytes * MEBIBYTE

    def fill(self, path: str) -> None:
        """Leave no free block on a disk."""
        while True:
            usage = os.statvfs(path)
            # A size of 0 would be no limit at all.
            used = max(1, usage.f_blocks - usage.f_bfree)
            with contextlib.suppress(OSError):  # a mongod has just written something
                _mount("tmpfs", path, MS_REMOUNT, f"size={used * usage.f_frsize}")
                return

    def drain(self, path: str) -> None:
        """Give a disk its size again."""
        _mount("tmpfs", path, MS_REMOUNT, f"size={self._disks[path]}")

    def end(self) -> None:
        """Kill every mongod and remove the folder."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        for path in self._disks:
            ctypes.CDLL(None).umount2(path.encode(), MNT_DETACH)
        shutil.rmtree(self.folder, ignore_errors=True)


def _leave_mount_namespace() -> None:
    """From now on, this process and its children have mounts of their own."""
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, "disks of a limited size need Linux")
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNS)
    except PermissionError:
        _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
        for name, text in {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount("none", "/", MS_REC | MS_PRIVATE, "")


def _mount(source: str, target: str, flags: int, data: str) -> None:
    _call("mount", source.encode(), target.encode(), source.encode(), flags, data.encode())


def _call(name: str, *arguments: int | bytes) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _die_with_parent() -> None:
    # Runs in the child before exec: if this supervisor is killed, the kernel ends its mongods.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _orders(owner: int) -> Iterator[dict[str, Any]]:
    buffer = b""
    # A process forked by the owner may hold the pipe open after the owner died, so the parent's id is checked too.
    while os.getppid() == owner:
        if not select.select([0], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            continue
        received = os.read(0, 65536)
        if not received:
            return
        *lines, buffer = (buffer + received).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _answer(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def _terminated(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def main(owner: int) -> None:
    """Serve the process `owner` until it ends."""
    signal.signal(signal.SIGTERM, _terminated)
    supervisor = Supervisor(tempfile.mkdtemp(prefix="motorlite-"))
    with contextlib.ExitStack() as stack:
        stack.callback(supervisor.end)
        stack.enter_context(contextlib.suppress(BrokenPipeError))
        _answer(supervisor.folder)
        for order in _orders(owner):
            number = order.pop("number")
            try:
                value = getattr(supervisor, order.pop("order"))(**order)
            except OSError as error:
                _answer({"number": number, "error": str(error), "is_permitted": not isinstance(error, PermissionError)})
            else:
                _answer({"number": number, "value": value})


if __name__ == "__main__":
    main(int(sys.argv[1]))
