"""Checks a release before it is published: `make release-check`. Prints one line for each check.

It builds the packages, looks at what is in them, and then does what users do: it installs the wheel into clean
environments and runs the README's quick start against a MongoDB server. It takes some minutes, and downloads packages.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import tomllib
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite.testing import LocalServer
from scripts.release import environments, packages
from scripts.release.environments import Environment
from scripts.release.packages import REPOSITORY, CheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.15")


class Report:
    """Runs checks and prints their results."""

    def __init__(self) -> None:
        self.failed = 0

    @contextmanager
    def check(self, what: str) -> Iterator[Callable[[str], None]]:
        """Print whether the block succeeded; it may add something to the line."""
        started, details = time.monotonic(), [""]
        try:
            yield lambda text: details.append(f": {text}")
        except CheckFailed as error:
            self.failed += 1
            print(f"FAILED    {what}: {error}", flush=True)
        else:
            print(f"ok        {what}{details[-1]} ({time.monotonic() - started:.0f} s)", flush=True)

    def leave_out(self, what: str, why: str) -> None:
        print(f"left out  {what}: {why}", flush=True)


def main() -> int:
    """Run all checks; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy wheel and sdist there if all is well")
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="motorlite-release-") as name:
        folder = Path(name)
        built = check_packages(report, folder)
        if built is not None:
            with LocalServer.start("replicaset", own=True) as server:
                check_environments(report, built, folder, server.uri)
            if arguments.keep and not report.failed:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                for file in (built.wheel, built.sdist):
                    shutil.copy(file, arguments.keep)
    print(f"{report.failed} checks failed" if report.failed else "all checks passed")
    return 1 if report.failed else 0


def check_packages(report: Report, folder: Path) -> packages.Packages | None:
    """Build and inspect; None if there is nothing to install."""
    built = None
    with report.check("wheel and sdist are built in a fresh environment") as add:
        built = packages.build(folder / "built", isolated=True)
        add(f"{built.wheel.name}, {built.wheel.stat().st_size // 1024} KiB")
    if built is None:
        return None
    checks: dict[str, Callable[[], None]] = {
        "their metadata is valid": partial(packages.check_metadata, built),
        "the wheel has all of the package and nothing else": partial(packages.check_wheel, built),
        "the sdist has sources and tests": partial(packages.check_sdist, built),
        "repository and sdist build the same wheel": partial(
            packages.check_same_wheel, built, folder / "again", isolated=True
        ),
    }
    for what, check in checks.items():
        with report.check(what):
            check()
    return built


def check_environments(report: Report, built: packages.Packages, folder: Path, uri: str) -> None:
    """Install the wheel for each version of Python, and for one with the oldest dependencies."""
    found = {version: path for version in VERSIONS if (path := environments.find_python(version))}
    for version in VERSIONS:
        what = f"Python {version} installs the wheel and runs the quick start"
        if version not in found:
            report.leave_out(what, "not found on this machine")
            continue
        with report.check(what):
            environment = Environment.make(folder / version, found[version])
            environment.install(str(built.wheel))
            environments.check_nothing_else_is_installed(environment, optional_packages())
            environments.run_quick_start(environment, uri)
    for version in list(found)[:1]:
        check_oldest_dependencies(report, built, Environment(folder / "oldest"), version, found[version], uri)


def check_oldest_dependencies(
    report: Report, built: packages.Packages, environment: Environment, version: str, interpreter: str, uri: str
) -> None:
    """Run the quick start and the tests of what depends on bson the most, with the oldest dependencies."""
    pins: list[str] = []
    with report.check(f"Python {version} with the oldest dependencies runs the quick start") as add:
        pins = packages.oldest(packages.requirements(built.wheel))
        environment.make(environment.folder, interpreter)
        environment.install(str(built.wheel), *pins)
        environments.run_quick_start(environment, uri)
        add(", ".join(pins))
    with report.check(f"Python {version} with the oldest dependencies passes the tests of _wire and DNS") as add:
        environment.install(f"{built.wheel}[snappy,trio,zstd]", *pins, *environments.TEST_TOOLS)
        add(environments.run_tests_of_dependencies(environment, built.sdist))


def optional_packages() -> set[str]:
    """The names of all packages that only extras install."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {packages.name_of(line) for line in project["dependencies"]}
    extras = {packages.name_of(line) for lines in project["optional-dependencies"].values() for line in lines}
    return extras - required - {"motorlite"}


if __name__ == "__main__":
    sys.exit(main())
