"""Shell: the command line of ``python -m motorlite.top``."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import printable
from motorlite.exporters import _sockets
from motorlite.top._model import VersionError, check_version

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

FINE: Final = 0
GONE: Final = 1
WRONG_USAGE: Final = 2

_DESCRIPTION: Final = """\
Show what the driver of a running program does: operations, what they wait for, pools, retries and limits. The program
has called motorlite.exporters.live()."""
_EPILOG: Final = """\
exit status: 0; 1 if there is no such program, or it has ended; 2 if the command was used wrongly"""
_MISSING_EXTRA: Final = "motorlite.top needs rich, which is in an extra: pip install 'motorlite[top]' (--json does not)"
# Seconds. A program sends a snapshot each second.
_TIMEOUT: Final = 10.0


class TopError(Exception):
    """There is nothing to show."""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m motorlite.top",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("pid", nargs="?", type=int, help="the process id; not needed if there is only one program")
    which.add_argument("--path", help="the socket, if the program chose it")
    which.add_argument("--list", action="store_true", help="list the programs, and end")
    parser.add_argument("--json", action="store_true", help="print a line of JSON each second")
    parser.add_argument("--once", action="store_true", help="end after one second; with --json, after one line")
    chosen = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every terminal can show the names of clients and collections, nor the signs of the screen.
        sys.stdout.reconfigure(errors="backslashreplace")
    if not chosen.json and not chosen.list and not _has_rich():
        print(_MISSING_EXTRA, file=sys.stderr)
        return WRONG_USAGE
    try:
        if chosen.list:
            return _list()
        return _show(chosen.path or _path_of(chosen.pid), is_json=chosen.json, is_once=chosen.once)
    except BrokenPipeError:
        # The reader of the output has had enough. Python would complain about what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (TopError, VersionError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return GONE
    except KeyboardInterrupt:
        return FINE


def _has_rich() -> bool:
    try:
        import rich  # noqa: F401  # the module that uses it is imported below
    except ImportError:
        return False
    return True


# --- which program ---


def _list() -> int:
    for pid, path in _sockets.found():
        print(f"{pid:>8}  {_about(path)}  {path}")
    return FINE


def _about(path: str) -> str:
    """Return what a program says of itself; its first snapshot comes at once."""
    try:
        with closing(snapshots(path)) as lines:
            snapshot = json.loads(next(lines))
            names = ", ".join(client["name"] for client in snapshot["clients"])
            return printable(f"{snapshot['program']}  {names or 'no client yet'}")
    except (TopError, OSError, ValueError, LookupError) as error:
        return f"does not answer ({error})"


def _path_of(pid: int | None) -> str:
    found = dict(_sockets.found())
    if pid is not None:
        if pid not in found:
            raise TopError(f"process {pid} has no live view: has it called motorlite.exporters.live()?")
        return found[pid]
    if not found:
        raise TopError(
            f"no program of this user has a live view (looked in {_sockets.folder()}): call "
            "motorlite.exporters.live() in it"
        )
    if len(found) > 1:
        listed = "\n".join(f"{pid:>8}  {_about(path)}" for pid, path in found.items())
        raise TopError(f"there are several programs; name one by its process id:\n{listed}")
    (path,) = found.values()
    return path


# --- what it says ---


def snapshots(path: str) -> Generator[bytes, None, None]:
    """Yield the lines of a program.

    Raises:
        TopError: It has ended, or says nothing.
    """
    try:
        sock = _sockets.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise TopError(f"there is no program at {path}") from None
    with sock, sock.makefile("rb") as stream:
        sock.settimeout(_TIMEOUT)
        try:
            for line in stream:
                if line.endswith(b"\n"):
                    yield line
        except TimeoutError:
            raise TopError(f"the program has said nothing for {_TIMEOUT:.0f} seconds: it is frozen") from None
        except ConnectionResetError:
            pass
    raise TopError("the program has ended, or closed its live view")


def _show(path: str, *, is_json: bool, is_once: bool) -> int:
    with closing(snapshots(path)) as lines:
        if is_json:
            for line in lines:
                sys.stdout.write(line.decode())
                sys.stdout.flush()
                if is_once:
                    break
            return FINE
        return _draw(lines, is_once=is_once)


def _draw(lines: Iterator[bytes], *, is_once: bool) -> int:
    from rich.console import Console
    from rich.live import Live

    from motorlite.top._screen import screen

    console = Console()
    older = _read(next(lines))
    if is_once:
        console.print(screen(older, _read(next(lines))))
        return FINE
    # In a file or a pipe, one below the other: there is no screen to draw on again.
    redrawn = Live(screen(None, older), console=console, screen=True, auto_refresh=False)
    with redrawn if console.is_terminal else nullcontext() as view:
        for line in lines:
            newer = _read(line)
            if view is None:
                console.print(screen(older, newer))
            else:
                view.update(screen(older, newer), refresh=True)
            older = newer
    return FINE


def _read(line: bytes) -> dict[str, Any]:
    snapshot: dict[str, Any] = json.loads(line)
    check_version(snapshot)
    return snapshot
