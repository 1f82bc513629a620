"""Installs the wheel into clean environments, as users do, and runs programs there."""

from __future__ import annotations

import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.demo.quick_start import aimed_at, quick_start
from scripts.release.packages import REPOSITORY, CheckFailed, run

if TYPE_CHECKING:
    from collections.abc import Iterable

# What comes with an environment.
INSTALLERS: Final = frozenset({"pip", "setuptools"})
# The tests of the code that depends on bson and dnspython the most.
USERS_OF_DEPENDENCIES: Final = (
    "tests/unit/_wire",
    "tests/unit/_net/test_dns.py",
    # The counter of ObjectIds, which is private to bson.
    "tests/unit/_api/collection/test_identifiers.py",
)
# What these tests need, in no particular version.
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


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside of the repository."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @classmethod
    def make(cls, folder: Path, interpreter: str) -> Environment:
        run(interpreter, "-m", "venv", folder)
        return cls(folder)

    def install(self, *requirements: str) -> None:
        command = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        self.run(*command)
        self.run("-m", "pip", "check")

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run Python there, without what the environment variables of this process say about packages."""
        left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        return run(self.python, *arguments, cwd=cwd or self.folder, environment=environment)

    def distributions(self) -> set[str]:
        """The names of the installed packages, in lower case."""
        program = "from importlib.metadata import distributions\nprint(*(d.metadata['Name'] for d in distributions()))"
        return set(self.run("-I", "-c", program).lower().split()) - INSTALLERS


def find_python(version: str) -> str | None:
    """The path of this version of Python, or None."""
    command = ["sh", str(REPOSITORY / "scripts" / "find-python"), f"python{version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def check_nothing_else_is_installed(environment: Environment, extras: Iterable[str]) -> None:
    """Check that a plain installation brings none of the packages of the extras."""
    superfluous = environment.distributions() & set(extras)
    if superfluous:
        raise CheckFailed(f"installed without being asked for: {', '.join(sorted(superfluous))}")


def run_quick_start(environment: Environment, uri: str) -> None:
    """Run the first program of the README; every warning is an error."""
    location = environment.run("-I", "-c", "import motorlite; print(motorlite.__file__)").strip()
    if not Path(location).is_relative_to(environment.folder):
        raise CheckFailed(f"motorlite was imported from {location}")
    program = aimed_at(quick_start((REPOSITORY / "README.md").read_text(encoding="utf-8")), uri)
    if not environment.run("-I", "-W", "error", "-X", "dev", "-c", program).strip():
        raise CheckFailed("the quick start printed nothing")


def run_tests_of_dependencies(environment: Environment, sdist: Path) -> str:
    """Run the tests of `USERS_OF_DEPENDENCIES` against the installed package; return pytest's last line."""
    sources = environment.folder / "sources"
    with tarfile.open(sdist) as archive:
        archive.extractall(sources, filter="data")
    (root,) = sources.iterdir()
    # Of the sources only the tests may be imported.
    for package in ("motorlite", "pytest_motorlite"):
        (root / package).rename(sources / package)
    (root / "release.ini").write_text(CONFIGURATION)
    output = environment.run("-m", "pytest", "-q", "-c", "release.ini", *USERS_OF_DEPENDENCIES, cwd=root)
    return output.strip().splitlines()[-1]
