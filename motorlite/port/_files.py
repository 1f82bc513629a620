"""Shell: reads the table, and reads and writes the files of a project."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import tomllib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite.port._rules.requirements import is_requirements_file
from motorlite.port._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE: Final = Path(__file__).with_name("table.toml")
NOTEBOOK: Final = ".ipynb"
_SCRIPT: Final = re.compile(rb"#!.*\bpython")
# Folders that are no part of a project's own code.
_SKIPPED: Final = frozenset(
    {"__pycache__", "build", "dist", "env", "node_modules", "site-packages", "venv", "__pypackages__"}
)


@cache
def read_table() -> Table:
    """Return what is known of PyMongo, Motor and motorlite."""
    return Table(tomllib.loads(_TABLE.read_text(encoding="utf-8")))


def files_of(root: Path) -> Iterator[Path]:
    """Yield `root` if it is a file, or else the files below it that are read: Python, notebooks, requirements.

    Environments, caches, build results, hidden folders, and pipes are left out.
    """
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(folder, name)))
        paths = (path for name in sorted(names) for path in [Path(folder, name)] if _is_read(path))
        # A link to nothing is reported when it is read.
        yield from (path for path in paths if path.is_file() or not path.exists())


def _is_read(path: Path) -> bool:
    is_python = path.suffix in (".py", ".pyi", ".pyw") or (not path.suffix and _is_script(path))
    return is_python or path.suffix == NOTEBOOK or is_requirements_file(path.as_posix())


def _is_script(path: Path) -> bool:
    """Whether a file without an ending says in its first line that Python runs it."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return bool(_SCRIPT.match(file.readline(200)))
    except OSError:
        # Who may not read it may not run it either.
        return False


def _is_skipped(folder: Path) -> bool:
    is_other = folder.name in _SKIPPED and not (folder / "__init__.py").exists()
    return is_other or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def parts_of(path: Path, root: Path) -> tuple[str, ...]:
    """Return a file's path below `root` as the names of packages and module."""
    below = path.relative_to(root) if root.is_dir() else Path(path.name)
    return below.with_suffix("").parts


class EditedError(Exception):
    """A file is not as it was when it was read."""


def write(path: Path, content: bytes, before: bytes) -> None:
    """Replace a file's content, or leave the file as it was: a crash leaves no half of it.

    Args:
        path: The file.
        content: What it has from now on.
        before: What it had when it was read.

    Raises:
        EditedError: It has something else now.
        OSError: It cannot be written.
    """
    target = path.resolve()
    status = target.stat()
    if not status.st_mode & 0o222:
        raise PermissionError(errno.EACCES, "it is read-only")
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, stat.S_IMODE(status.st_mode))
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                # Only the superuser may give a file away: the others own what they write.
                os.chown(name, status.st_uid, status.st_gid)
        if target.read_bytes() != before:
            raise EditedError
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
