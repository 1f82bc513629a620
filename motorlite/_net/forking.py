"""Net: takes the sockets of this process away from the children that it forks.

A child that unwinds (`sys.exit` below `asyncio.run`) runs its copy of the event loop: it would read what the servers
send to the parent, send TLS alerts in its name, and take sockets out of the selector, which the two processes share.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet


class _Socket(Protocol):
    def fileno(self) -> int: ...


_sockets: Final[WeakSet[_Socket]] = WeakSet()


def keep_from_children(sock: _Socket) -> None:
    """Let `sock` lead nowhere in every child that is forked from now on."""
    _sockets.add(sock)


def _after_fork() -> None:
    """In the child: put something without a peer, which no selector takes, where the parent's sockets are.

    To close them would not do: their owners would later close what has got the same numbers by then.
    """
    numbers = [number for sock in list(_sockets) if (number := sock.fileno()) >= 0]
    _sockets.clear()
    if numbers:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in numbers:
            os.dup2(nothing, number, inheritable=False)
        os.close(nothing)


os.register_at_fork(after_in_child=_after_fork)
