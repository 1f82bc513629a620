"""Net: facts about this machine and process, its files, its randomness, and what happens when it forks."""

from __future__ import annotations

import os
import platform
import random
import sys
import time
import uuid
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from bson.binary import Binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


# Facts about the machine and the interpreter, for the client metadata of the handshake.


@dataclass(slots=True, eq=False, repr=False)
class PlatformFacts:
    """Facts about the machine for the handshake's client metadata; None means unknown."""

    os_type: str
    os_name: str | None
    os_version: str | None
    architecture: str | None
    # Interpreter and version, for example "CPython 3.11.9".
    runtime: str
    # "asyncio", "uvloop" or "trio".
    backend: str
    # Whether the file /.dockerenv exists.
    is_docker: bool


def read_platform_facts(backend: str) -> PlatformFacts:
    """Collect the facts; `backend` is the runtime's name. Reads one or two small files."""
    name, version = _os_name_and_version()
    return PlatformFacts(
        os_type=platform.system() or "unknown",
        os_name=name or None,
        os_version=version or None,
        architecture=platform.machine() or None,
        runtime=f"{platform.python_implementation()} {platform.python_version()}",
        backend=backend,
        is_docker=os.path.exists("/.dockerenv"),
    )


def read_environment(names: Iterable[str]) -> dict[str, str]:
    """The environment variables in `names` that are set. Reads no others: environments hold secrets."""
    return {name: os.environ[name] for name in names if name in os.environ}


def _os_name_and_version() -> tuple[str, str]:
    system = platform.system()
    if system == "Linux":
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            return "", platform.release()
        return release.get("PRETTY_NAME", ""), release.get("VERSION_ID") or platform.release()
    if system == "Darwin":
        return "macOS", platform.mac_ver()[0]
    return system, platform.release()


# Small files and the wall clock, for authentication.


def read_text(path: str) -> str:
    """Return the content of a small file. Blocks.

    Raises:
        OSError, UnicodeError: the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        return file.read()


def utc_date() -> str:
    """The current UTC time as ``YYYYMMDDTHHMMSSZ``."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


# The sockets of this process: their keepalive, and how they are detached in the children that it forks.
#
# A child that unwinds (`sys.exit` below `asyncio.run`) runs its copy of the event loop. It would read replies meant
# for the parent, send TLS alerts on the parent's connections, and remove sockets from the selector that both
# processes share.


class _Descriptor(Protocol):
    def fileno(self) -> int: ...


class _Socket(_Descriptor, Protocol):
    def setsockopt(self, level: int, optname: int, value: int, /) -> None: ...


def enable_keepalive(sock: _Socket) -> None:
    """Detect dead peers within minutes rather than hours, with the values that MongoDB recommends to drivers."""
    import socket

    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 120), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 9)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


_sockets: Final[WeakSet[_Descriptor]] = WeakSet()
# Objects of the parent that this process must not free.
_of_parent: Final[list[object]] = []


def leave_to_parent(work: object) -> None:
    """Keep `work` until this process ends: finalizers would act on what belongs to the parent."""
    _of_parent.append(work)


def keep_from_children(sock: _Descriptor) -> None:
    """Detach `sock`, or another file, in every child forked from now on."""
    _sockets.add(sock)


def _after_fork() -> None:
    """In the child, replace the parent's sockets with a peerless file that no selector accepts.

    Closing them is not enough: their owners would later close unrelated files that reuse the same numbers.
    """
    numbers = [number for sock in list(_sockets) if (number := sock.fileno()) >= 0]
    _sockets.clear()
    if numbers:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in numbers:
            os.dup2(nothing, number, inheritable=False)
        os.close(nothing)


os.register_at_fork(after_in_child=_after_fork)


# The only source of randomness: jitter, choices, nonces and session ids.

jitter: Callable[[], float] = random.random
"""A factor in [0, 1) for backoff."""


def below(limit: int) -> int:
    """A random integer in [0, limit), for choosing among servers."""
    return int(random.random() * limit)


def nonce() -> bytes:
    """Fresh random bytes for one authentication."""
    return os.urandom(32)


def session_id() -> Binary:
    """A server session id: a version 4 UUID."""
    return Binary(uuid.uuid4().bytes, 4)


# Request ids, which are unique across the threads of the process.


_MOST_IDS: Final = 2**31 - 1


def _has_gil() -> bool:
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    return is_enabled is None or is_enabled()


def make_request_ids(*, has_gil: bool) -> Callable[[], int]:
    """Return a function for `next_request_id`. Where the GIL makes that safe, it runs no Python code.

    Without the GIL, a `count` is safe, and a `chain` is not. There is no lock: another thread might hold it at a fork.
    """
    if has_gil:
        return chain.from_iterable(repeat(range(1, _MOST_IDS + 1))).__next__
    ids = count()
    return lambda: next(ids) % _MOST_IDS + 1


next_request_id: Final = make_request_ids(has_gil=_has_gil())
"""Returns a request id that no message in flight uses (31 bits, shared by all clients and threads)."""
