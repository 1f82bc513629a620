"""Net: detaches this process's sockets in the children that it forks.

A child that unwinds (`sys.exit` below `asyncio.run`) runs its copy of the event loop. It would read replies meant for
the parent, send TLS alerts on the parent's connections, and remove sockets from the selector that both processes share.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class _Socket(Protocol):
    def fileno(self) -> int: ...


_sockets: Final[WeakSet[_Socket]] = WeakSet()
# Objects of the parent that this process must not free.
_of_parent: Final[list[object]] = []


def leave_to_parent(work: object) -> None:
    """Keep `work` until this process ends: finalizers would act on what belongs to the parent."""
    _of_parent.append(work)


def keep_from_children(sock: _Socket) -> None:
    """Detach `sock` in every child forked from now on."""
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
