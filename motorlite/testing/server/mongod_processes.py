"""Net: the mongods of one local server, started and ended through a supervisor process."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any, Final

from motorlite.testing.server import supervisor

# Below the kernel's range for outgoing connections, so the port of a killed mongod is still free at its restart.
PORTS: Final = range(20_000, 32_000)
LOG_TAIL_BYTES: Final = 2_000
_counter = itertools.count()


class PortUnavailable(OSError):
    """A port that was asked for cannot be used."""


class Processes:
    """Starts, freezes and kills mongods. They and their folder are removed when this process ends, for any reason.

    Not for use from several threads at once.
    """

    def __init__(self) -> None:
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Outside the terminal's process group: an interrupt must not end it before it has cleaned up.
            start_new_session=True,
        )
        self._numbers = itertools.count(1)
        # The supervisor creates the folder that it removes at the end, so the folder always has an owner.
        self.folder: Path = Path(self._read())
        self._finalizer = weakref.finalize(self, _close, self._supervisor, os.getpid())

    def close(self) -> None:
        """Kill all mongods, remove the folder, and wait for completion; a second call does nothing."""
        self._finalizer()

    def start(self, key: str, arguments: list[str]) -> int:
        """Start a mongod under the name `key` and return its process id."""
        pid: int = self._ask("start", key=key, arguments=arguments)
        return pid

    def has_ended(self, key: str) -> bool:
        """Whether a mongod has ended, by itself or by `kill`."""
        return self._ask("poll", key=key) is not None

    def kill(self, key: str) -> None:
        """Kill a mongod (SIGKILL) and wait for its end."""
        self._ask("kill", key=key)

    def freeze(self, key: str) -> None:
        """Stop a mongod (SIGSTOP): it keeps its sockets and replies to nothing."""
        self._ask("freeze", key=key)

    def thaw(self, key: str) -> None:
        """Continue a frozen mongod (SIGCONT)."""
        self._ask("thaw", key=key)

    def mount(self, folder: Path, megabytes: int) -> None:
        """Make an empty folder a disk of its own, which only the mongods see."""
        self._ask("mount", path=str(folder), megabytes=megabytes)

    def fill(self, folder: Path) -> None:
        """Leave no free block on a disk."""
        self._ask("fill", path=str(folder))

    def drain(self, folder: Path) -> None:
        """Give a disk its size again."""
        self._ask("drain", path=str(folder))

    def log_tail(self, key: str) -> str:
        """The last part of a mongod's output."""
        return self.log_path(key).read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def log_path(self, key: str) -> Path:
        """The file with a mongod's output."""
        return self.folder / f"{key}.log"

    def _ask(self, order: str, **details: object) -> Any:
        requests = self._supervisor.stdin
        assert requests is not None
        number = next(self._numbers)
        requests.write(json.dumps({"number": number, "order": order, **details}).encode() + b"\n")
        requests.flush()
        reply = self._read()
        while reply["number"] != number:  # it answers an order whose caller was interrupted
            reply = self._read()
        if "error" in reply:
            raise (OSError if reply["is_permitted"] else PermissionError)(reply["error"])
        return reply["value"]

    def _read(self) -> Any:
        answers = self._supervisor.stdout
        assert answers is not None
        line = answers.readline()
        if not line:
            raise RuntimeError("the supervisor of the local server has ended")
        return json.loads(line)


def _close(process: subprocess.Popen[bytes], owner: int) -> None:
    # A fork inherits the finalizer; only the process that started the supervisor may end it.
    if os.getpid() == owner:
        process.communicate()


def free_port() -> int:
    """A free port of the loopback interface."""
    for _ in PORTS:
        # Concurrent processes start their search at different ports.
        port = PORTS[(os.getpid() * 101 + next(_counter)) % len(PORTS)]
        try:
            check_port(port)
        except PortUnavailable:
            continue
        return port
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop}")


def check_port(port: int) -> None:
    """Check that a server can listen on a port of the loopback interface.

    Raises:
        PortUnavailable: It cannot; the message says why.
    """
    with socket.socket() as probe:
        # As mongod does: a port whose last connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortUnavailable(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}") from error
