"""Checks a release before it is published: `make release-check`. Prints one line for each check.

It builds the packages, looks at what is in them, and then does what users do: it installs the wheel into clean
environments and runs the README's quick start against a MongoDB server. It takes some minutes, and downloads packages.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from functools import partial
from importlib.metadata import PathDistribution
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.demo.quick_start import aimed_at, quick_start
from motorlite.testing import LocalServer
from scripts.site.links import is_external, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packaging.utils import NormalizedName

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSIONS: Final = re.findall(r"'Programming Language :: Python :: (3\.\d+)'", str(PROJECT["classifiers"]))
# The packages that the wheel installs.
INSTALLED: Final = ("motorlite", "pytest_motorlite")
# What the sdist has besides, for those who build and test a package from it.
SOURCES: Final = ("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml", "tests/conftest.py")
# The tests of the code that depends on bson and dnspython the most, and what they need, in no particular version.
USERS_OF_DEPENDENCIES: Final = (
    "tests/unit/_wire",
    "tests/unit/_net/test_dns.py",
    # The counter of ObjectIds, which is private to bson.
    "tests/unit/_api/collection/test_identifiers.py",
)
TEST_TOOLS: Final = ("pytest>=8.3", "hypothesis>=6.100")
CONFIGURATION: Final = """
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider
pythonpath = .
filterwarnings = error
markers =
    slow: takes long
    timeout: the plugin for it is not installed
    real_time: run under the event loop's own clock
    virtual_time: run in virtual time
"""


class CheckFailed(Exception):
    """A check found something wrong; the message says what."""


class Packages(NamedTuple):
    """The files of a release."""

    wheel: Path
    sdist: Path


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    """Run a program without what environment variables of this process say about packages; return what it prints.

    Raises:
        CheckFailed: It failed; the message has the end of its output.
    """
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))[:200]}\n{(done.stdout + done.stderr)[-2_000:].rstrip()}")
    return done.stdout


# --- what is built ---


def build(folder: Path, *options: str) -> Packages:
    """Build the sdist, and the wheel from the sdist, as installers do that find no wheel."""
    run(sys.executable, "-m", "build", *options, "--outdir", folder, REPOSITORY)
    return Packages(*(next(folder.glob(pattern), folder) for pattern in ("*.whl", "*.tar.gz")))


def check_same_wheel(packages: Packages, folder: Path, *options: str) -> None:
    """Check that the repository and the sdist build the same wheel."""
    ours, theirs = _hashes(build(folder, "--wheel", *options).wheel), _hashes(packages.wheel)
    if differing := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
        raise CheckFailed(f"the sdist builds another wheel than the repository: {', '.join(differing)}")


def check_metadata(packages: Packages) -> None:
    """Check what a package index shows; links and pictures that are relative in the repository lead nowhere there."""
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    text = metadata(packages.wheel).metadata["Description"]
    if relative := [target for target in targets(text) if not is_external(target)]:
        raise CheckFailed(f"relative links in the text for a package index: {', '.join(relative)}")
    if "pip install motorlite" not in text:
        raise CheckFailed("the text for a package index does not say how to install from there")


def check_wheel(packages: Packages) -> None:
    """Check that the wheel has all of the package, and nothing else."""
    if problems := list(wheel_problems(set(_hashes(packages.wheel)), _sources())):
        raise CheckFailed("; ".join(problems))


def wheel_problems(found: set[str], sources: set[str]) -> Iterator[str]:
    """What is wrong with a wheel of these files, if `sources` are those of its packages in the repository."""
    inside = {name.partition("/")[2] if ".dist-info/" in name else name for name in found}
    required = {*sources, "motorlite/py.typed", "METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    yield from (f"{name} is missing" for name in sorted(required - inside))
    yield from (f"{name} does not belong there" for name in sorted(inside - required - {"WHEEL"}))


def check_sdist(packages: Packages) -> None:
    """Check that the sdist has the sources, and what is needed to test them."""
    with tarfile.open(packages.sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    if missing := sorted({*SOURCES, *_sources()} - found):
        raise CheckFailed(f"missing in the sdist: {', '.join(missing)}")


def metadata(wheel: Path) -> PathDistribution:
    """What a wheel says about itself."""
    return PathDistribution(next(path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info")))


def oldest(required: list[str]) -> list[str]:
    """The oldest versions that requirements permit: ``anyio>=4.4`` becomes ``anyio==4.4``; extras are left out."""
    found = []
    for line in required:
        requirement = Requirement(line)
        if "extra ==" in line:
            continue
        if requirement.marker or [each.operator for each in requirement.specifier] != [">="]:
            raise CheckFailed(f"{line!r} has no single oldest version")
        found.append(line.replace(">=", "=="))
    return found


def _hashes(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def _sources() -> set[str]:
    """The files of the packages in the repository."""
    files = [path for package in INSTALLED for path in (REPOSITORY / package).rglob("*") if path.is_file()]
    return {path.relative_to(REPOSITORY).as_posix() for path in files if "__pycache__" not in path.parts}


# --- what users do ---


def install(folder: Path, interpreter: str, *requirements: str) -> Path:
    """Make a virtual environment if there is none in the folder, install packages there, and return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        run(interpreter, "-m", "venv", folder)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements, cwd=folder)
    run(python, "-m", "pip", "check", cwd=folder)
    return python


def optional_packages() -> set[NormalizedName]:
    """The names of all packages that only extras install."""
    extras = chain.from_iterable(PROJECT["optional-dependencies"].values())
    optional = {canonicalize_name(Requirement(line).name) for line in extras}
    required = {canonicalize_name(Requirement(line).name) for line in (*PROJECT["dependencies"], "motorlite")}
    return optional - required


def check_user(folder: Path, interpreter: str, uri: str, *requirements: str) -> None:
    """Install the wheel, which must bring nothing optional, and run the README's first program: warnings are errors."""
    python = install(folder, interpreter, *requirements)
    installed = re.findall(r"^(\S+)==", run(python, "-m", "pip", "list", "--format=freeze", cwd=folder), re.MULTILINE)
    if superfluous := sorted(optional_packages() & set(map(canonicalize_name, installed))):
        raise CheckFailed(f"installed without being asked for: {', '.join(superfluous)}")
    location = run(python, "-I", "-c", "import motorlite; print(motorlite.__file__)", cwd=folder).strip()
    if not Path(location).is_relative_to(folder):
        raise CheckFailed(f"motorlite was imported from {location}")
    program = aimed_at(quick_start((REPOSITORY / "README.md").read_text(encoding="utf-8")), uri)
    if not run(python, "-I", "-W", "error", "-X", "dev", "-c", program, cwd=folder).strip():
        raise CheckFailed("the quick start printed nothing")


def check_dependencies(folder: Path, packages: Packages, interpreter: str, *pins: str) -> str:
    """Run the tests of `USERS_OF_DEPENDENCIES` against the installed package; return pytest's last line."""
    python = install(folder, interpreter, f"{packages.wheel}[snappy,trio,zstd]", *pins, *TEST_TOOLS)
    with tarfile.open(packages.sdist) as archive:
        archive.extractall(folder / "sources", filter="data")
    (root,) = (folder / "sources").iterdir()
    for package in INSTALLED:  # Of the sources only the tests may be imported.
        shutil.rmtree(root / package)
    (root / "release.ini").write_text(CONFIGURATION)
    return run(python, "-m", "pytest", "-q", "-c", "release.ini", *USERS_OF_DEPENDENCIES, cwd=root).splitlines()[-1]


def find_python(version: str) -> str | None:
    """The path of this version of Python, or None."""
    command = ["sh", str(REPOSITORY / "scripts" / "find-python"), f"python{version}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def check(what: str, work: Callable[[], object]) -> bool:
    """Print whether a check succeeded, and what it returned."""
    started = time.monotonic()
    try:
        details = work()
    except CheckFailed as error:
        print(f"FAILED    {what}: {error}", flush=True)
        return False
    print(f"ok        {what}{f': {details}' if details else ''} ({time.monotonic() - started:.0f} s)", flush=True)
    return True


def check_all(folder: Path) -> Iterator[bool]:
    """Run all checks and say of each whether it succeeded."""
    made: list[Packages] = []
    yield check("wheel and sdist are built in a fresh environment", lambda: made.append(build(folder / "built")))
    if not made:
        return
    (built,) = made
    yield check("their metadata is valid", partial(check_metadata, built))
    yield check("the wheel has all of the package and nothing else", partial(check_wheel, built))
    yield check("the sdist has sources and tests", partial(check_sdist, built))
    yield check("repository and sdist build the same wheel", partial(check_same_wheel, built, folder / "again"))
    with LocalServer.start("replicaset", own=True) as server:
        found = {version: path for version in VERSIONS if (path := find_python(version))}
        for version in VERSIONS:
            what = f"Python {version} installs the wheel and runs the quick start"
            if version in found:
                yield check(what, partial(check_user, folder / version, found[version], server.uri, str(built.wheel)))
            else:
                print(f"left out  {what}: not found on this machine", flush=True)
        version, python = next(iter(found.items()))
        pins = oldest(metadata(built.wheel).requires or [])
        what = f"Python {version} with {', '.join(pins)}"
        user = partial(check_user, folder / "oldest", python, server.uri, str(built.wheel), *pins)
        yield check(f"{what} runs the quick start", user)
        dependencies = partial(check_dependencies, folder / "oldest", built, python, *pins)
        yield check(f"{what} passes the tests of _wire and DNS", dependencies)


def main() -> int:
    """Run all checks; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy wheel and sdist there if all is well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="motorlite-release-") as name:
        failed = sum(not succeeded for succeeded in check_all(Path(name)))
        if arguments.keep and not failed:
            shutil.copytree(Path(name, "built"), arguments.keep, dirs_exist_ok=True)
    print(f"{failed} checks failed" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
