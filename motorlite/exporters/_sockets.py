"""Shell: the folder of the sockets of `live`, and the sockets in it: made, found, and removed after their programs.

The folder and each socket belong to one user alone. Both sides check that, since the folder may be in one that all
users share.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX: Final = ".sock"
# Readers of one program that have not been accepted yet.
_BACKLOG: Final = 8
# Seconds; on one machine a socket answers at once, unless its program is frozen.
_CONNECT_TIMEOUT: Final = 2.0
# struct ucred: process, user and group.
_CREDENTIALS: Final = struct.Struct("3i")


def folder() -> str:
    """Return the folder of this user's sockets, which may not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return os.path.join(runtime, "motorlite")
    return os.path.join(tempfile.gettempdir(), f"motorlite-{os.geteuid()}")


def check_folder(path: str) -> None:
    """Check that no other user can put a socket into a folder.

    Raises:
        PermissionError: It belongs to another user, others may use it, or it is not a folder.
        FileNotFoundError: It does not exist.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{path} must be a folder of this user that no one else may enter, because the sockets of motorlite's live "
            "view are in it: remove it, or set XDG_RUNTIME_DIR"
        )


def own_path() -> str:
    """Return the path of this process's socket, in a folder that exists.

    Raises:
        OSError: The folder cannot be made, or is not this user's alone.
    """
    where = folder()
    with suppress(FileExistsError):
        os.makedirs(where, mode=0o700)
    check_folder(where)
    return os.path.join(where, f"{os.getpid()}{SUFFIX}")


def listen(path: str) -> socket.socket:
    """Open a socket at `path` that only this user may connect to.

    Raises:
        OSError: Another program listens there, there is another kind of file, or the folder cannot be written.
    """
    if os.path.lexists(path):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} exists and is no socket: choose another path")
        if not is_left(path):
            raise FileExistsError(f"another program has its socket at {path}: choose another path")
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Under another name first: at its own name, a socket that does not listen yet looks like that of a killed program.
    new = f"{path}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(new)
        made.bind(new)
        os.chmod(new, 0o600)  # before it listens, so no one can have connected
        made.listen(_BACKLOG)
        made.setblocking(False)
        os.rename(new, path)
    except BaseException:
        made.close()
        with suppress(OSError):
            os.unlink(new)
        raise
    return made


def is_of_this_user(peer: socket.socket) -> bool:
    """Whether the program at the other end runs as this user, or as root.

    Where the system cannot say, the permissions of the file have to do.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, user, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return user in (os.geteuid(), 0)


def connect(path: str) -> socket.socket:
    """Connect to the socket of a program.

    Raises:
        ConnectionRefusedError, FileNotFoundError: There is no program any more.
        PermissionError: The program runs as another user.
        OSError: It cannot be reached.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(_CONNECT_TIMEOUT)
        made.connect(path)
        if not is_of_this_user(made):
            raise PermissionError(f"the program at {path} runs as another user")
    except BaseException:
        made.close()
        raise
    return made


def is_left(path: str) -> bool:
    """Whether the program of a socket has ended without removing it."""
    try:
        connect(path).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def found() -> Iterator[tuple[int, str]]:
    """Yield process and path of each socket in this user's folder. Remove those of programs that have ended.

    Raises:
        PermissionError: The folder is not this user's alone.
    """
    where = folder()
    try:
        check_folder(where)
        names = sorted(os.listdir(where))
    except FileNotFoundError:
        return
    for name in names:
        number = name.removesuffix(SUFFIX)
        if not name.endswith(SUFFIX) or not number.isdecimal():
            continue
        path = os.path.join(where, name)
        if is_left(path):
            with suppress(FileNotFoundError):
                os.unlink(path)
        else:
            yield int(number), path
