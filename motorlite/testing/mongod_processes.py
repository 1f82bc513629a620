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

from motorlite.testing import supervisor

# Below the range from which the kernel takes ports for outgoing connections: a killed mongod finds its port
# free when it is restarted.
PORTS: Final = range(20_000, 32_000)
LOG_TAIL_BYTES: Final = 2_000
_counter = itertools.count()


class Processes:
    """Starts, freezes and kills mongods; they and their folder end with this process, however it ends.

    Not for use from several threads at once.
    """

    def __init__(self) -> None:
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Away from the terminal's group: an interrupt must not end it before it has cleaned up.
            start_new_session=True,
        )
        # The folder that is removed at the end; made by the supervisor, so that there is no moment without an
        # owner.
        self.folder: Path = Path(self._read())
        self._finalizer = weakref.finalize(self, _close, self._supervisor, os.getpid())

    def close(self) -> None:
        """Kill all mongods, remove the folder, and wait until that is done; the second time does nothing."""
        self._finalizer()

    def start(self, key: str, arguments: list[str]) -> int:
        """Start a mongod under the name `key`; returns its process id."""
        pid: int = self._ask("start", key=key, arguments=arguments)
        return pid

    def has_ended(self, key: str) -> bool:
        """Whether a mongod has ended, by itself or killed."""
        return self._ask("poll", key=key) is not None

    def kill(self, key: str) -> None:
        """Kill a mongod (SIGKILL) and wait for its end."""
        self._ask("kill", key=key)

    def freeze(self, key: str) -> None:
        """Stop a mongod (SIGSTOP): it keeps its sockets and answers nothing."""
        self._ask("freeze", key=key)

    def thaw(self, key: str) -> None:
        """Continue a frozen mongod (SIGCONT)."""
        self._ask("thaw", key=key)

    def log_tail(self, key: str) -> str:
        """The end of what a mongod has printed."""
        return (self.folder / f"{key}.log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def _ask(self, order: str, **details: object) -> Any:
        requests = self._supervisor.stdin
        assert requests is not None
        requests.write(json.dumps({"order": order, **details}).encode() + b"\n")
        requests.flush()
        reply = self._read()
        if "error" in reply:
            raise OSError(reply["error"])
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
    """A port of the loopback interface that nothing listens on."""
    for _ in PORTS:
        # Processes that look at the same time start at different places.
        port = PORTS[(os.getpid() * 101 + next(_counter)) % len(PORTS)]
        with socket.socket() as probe:
            # As mongod does: a port whose last connections still wait in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop}")
