"""Shell: `live`, which lets ``python -m motorlite.top`` look into a running program.

Light, since it is imported with each exporter: the socket and the thread are in `_serving`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite import AsyncMongoClient
from motorlite._base.arguments import wrong

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from motorlite.exporters._serving import Server


class Live:
    """What `live` returns: a socket that is open until `close`, the end of the program, or that of a ``with`` block."""

    __module__ = "motorlite.exporters"

    __slots__ = ("_server",)

    def __init__(self, server: Server) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<Live at {self.path!r}>"

    @property
    def path(self) -> str:
        """The path of the socket. In a forked child it is another one."""
        return self._server.path

    def close(self) -> None:
        """Close the socket and remove its file. Does nothing the second time."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def live(client: AsyncMongoClient[Any] | None = None, *, path: str | None = None) -> Live:
    """Let ``python -m motorlite.top`` attach to this program: open a Unix socket that only its user may connect to.

    A thread waits for readers, and one that reads gets a snapshot each second. Operations are followed only while there
    is a reader. Call it once, for example where the program sets up its logging; a second call for the same socket adds
    its client, and the first `close` of either ends both. docs/top.md has what is shown and what it costs.

    Args:
        client: The client to show; by default all clients of the program, also later ones.
        path: The path of the socket. By default it is named by the process id, in a folder where
            ``python -m motorlite.top`` looks for it, and a forked child opens one of its own.

    Raises:
        TypeError: An argument has the wrong type.
        OSError: The socket cannot be opened: another program has one at `path`, or the folder is not this user's alone.
    """
    if client is not None and not isinstance(client, AsyncMongoClient):
        raise TypeError(wrong("client", client, "an AsyncMongoClient or None"))
    if path is not None and not isinstance(path, str):
        raise TypeError(wrong("path", path, "a string or None"))
    from motorlite.exporters._serving import serve

    return Live(serve(None if client is None else client._core, path))


live.__module__ = "motorlite.exporters"
