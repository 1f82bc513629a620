"""Net: facts about the machine and the interpreter, for the client metadata of the handshake."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlatformFacts:
    """Facts about the machine for the handshake's client metadata; None means unknown."""

    __slots__ = ("architecture", "backend", "is_docker", "os_name", "os_type", "os_version", "runtime")

    def __init__(
        self,
        *,
        os_type: str,
        os_name: str | None,
        os_version: str | None,
        architecture: str | None,
        runtime: str,
        backend: str,
        is_docker: bool,
    ) -> None:
        self.os_type = os_type
        self.os_name = os_name
        self.os_version = os_version
        self.architecture = architecture
        # Interpreter and version, for example "CPython 3.11.9".
        self.runtime = runtime
        # "asyncio", "uvloop" or "trio".
        self.backend = backend
        # Whether the file /.dockerenv exists.
        self.is_docker = is_docker


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
