"""Builds wheel and sdist, and checks what is in them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.site.links import is_external, targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from email.message import Message

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# The packages that the wheel installs.
INSTALLED: Final = ("motorlite", "pytest_motorlite")
# What the sdist has besides, for those who build and test a package from it.
SOURCES: Final = ("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml", "tests/conftest.py")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class CheckFailed(Exception):
    """A check found something wrong; the message says what."""


@dataclass(frozen=True)
class Packages:
    """The files of a release."""

    wheel: Path
    sdist: Path


def run(*command: str | Path, cwd: Path = REPOSITORY, environment: Mapping[str, str] | None = None) -> str:
    """Run a program and return its standard output.

    Raises:
        CheckFailed: It failed; the message has the end of its output.
    """
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))[:200]}\n{(done.stdout + done.stderr)[-2_000:].rstrip()}")
    return done.stdout


def build(folder: Path, *, isolated: bool) -> Packages:
    """Build the sdist, and the wheel from the sdist, as installers do that find no wheel.

    Args:
        folder: Where to put them.
        isolated: Whether to build in a fresh environment with the newest permitted hatchling.
    """
    _build(folder, REPOSITORY, isolated=isolated)
    return Packages(_only(folder, "*.whl"), _only(folder, "*.tar.gz"))


def check_same_wheel(packages: Packages, folder: Path, *, isolated: bool) -> None:
    """Check that the repository and the sdist build the same wheel."""
    _build(folder, REPOSITORY, "--wheel", isolated=isolated)
    ours, theirs = _hashes(_only(folder, "*.whl")), _hashes(packages.wheel)
    if ours != theirs:
        differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise CheckFailed(f"the sdist builds another wheel than the repository: {', '.join(differing)}")


def check_metadata(packages: Packages) -> None:
    """Check what a package index shows; links and pictures that are relative in the repository lead nowhere there."""
    run(sys.executable, "-m", "twine", "check", "--strict", packages.wheel, packages.sdist)
    relative = [target for target in targets(description(packages.wheel)) if not is_external(target)]
    if relative:
        raise CheckFailed(f"relative links in the text for a package index: {', '.join(relative)}")


def check_wheel(packages: Packages) -> None:
    """Check that the wheel has all of the package, and nothing else."""
    problems = list(wheel_problems(set(_hashes(packages.wheel)), _sources()))
    if problems:
        raise CheckFailed("; ".join(problems))


def wheel_problems(found: set[str], sources: set[str]) -> Iterator[str]:
    """What is wrong with a wheel of these files, if `sources` are those of its packages in the repository."""
    information = {name for name in found if name.partition("/")[0].endswith(".dist-info")}
    packaged = found - information
    for name in sorted(sources - packaged):
        yield f"{name} is missing"
    for name in sorted(packaged - sources):
        yield f"{name} does not belong there"
    for name in ("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE"):
        if not any(path.partition("/")[2] == name for path in information):
            yield f"{name} is missing"
    if "motorlite/py.typed" not in packaged:
        yield "motorlite/py.typed is missing"


def check_sdist(packages: Packages) -> None:
    """Check that the sdist has the sources, and what is needed to test them."""
    with tarfile.open(packages.sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    missing = sorted({*SOURCES, *_sources()} - found)
    if missing:
        raise CheckFailed(f"missing in the sdist: {', '.join(missing)}")


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires without any extra."""
    return [line for line in _metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in line]


def description(wheel: Path) -> str:
    """The text that a package index shows."""
    return str(_metadata(wheel).get_payload())


def oldest(required: list[str]) -> list[str]:
    """The oldest versions that these requirements permit: ``anyio>=4.4`` becomes ``anyio==4.4``."""
    for line in required:
        if line.count(">=") != 1 or "," in line or ";" in line:
            raise CheckFailed(f"{line!r} has no single oldest version")
    return [line.replace(">=", "==") for line in required]


def name_of(requirement: str) -> str:
    """The name of the package that a requirement names, in lower case."""
    found = NAME.match(requirement)
    if found is None:
        raise CheckFailed(f"{requirement!r} names no package")
    return found[0].lower()


def _build(folder: Path, source: Path, *options: str, isolated: bool) -> None:
    isolation = [] if isolated else ["--no-isolation"]
    run(sys.executable, "-m", "build", *isolation, *options, "--outdir", folder, source)


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _hashes(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def _sources() -> set[str]:
    """The files of the packages in the repository."""
    return {
        path.relative_to(REPOSITORY).as_posix()
        for package in INSTALLED
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
