"""Shell: reads the table, and reads and writes the files of a project."""

from __future__ import annotations

import errno
import os
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite.port._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE: Final = Path(__file__).with_name("table.toml")
NOTEBOOK: Final = ".ipynb"
# Folders that are no part of a project's own code.
_SKIPPED: Final = frozenset(
    {"__pycache__", "build", "dist", "env", "node_modules", "site-packages", "venv", "__pypackages__"}
)


@cache
def read_table() -> Table:
    """Return what is known of PyMongo, Motor and motorlite."""
    return Table(tomllib.loads(_TABLE.read_text(encoding="utf-8")))


def python_files(root: Path) -> Iterator[Path]:
    """Yield `root` if it is a file, or else the Python files below it, in order.

    Environments, caches, build results, hidden folders, and pipes are left out.
    """
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(folder, name)))
        paths = (Path(folder, name) for name in sorted(names) if name.endswith((".py", ".pyi", ".pyw", NOTEBOOK)))
        # A link to nothing is reported when it is read.
        yield from (path for path in paths if path.is_file() or not path.exists())


def _is_skipped(folder: Path) -> bool:
    return folder.name in _SKIPPED or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


def parts_of(path: Path, root: Path) -> tuple[str, ...]:
    """Return a file's path below `root` as the names of packages and module."""
    below = path.relative_to(root) if root.is_dir() else Path(path.name)
    return below.with_suffix("").parts


def write(path: Path, content: bytes) -> None:
    """Replace a file's content, or leave the file as it was: a crash leaves no half of it."""
    mode = path.stat().st_mode
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, "it is read-only")
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
