"""The packages that a release consists of can be built, and have in them what they should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from scripts import release
from scripts.release import VERSIONS

if TYPE_CHECKING:
    from scripts.release import Packages

ROOT: Final = Path(__file__).parents[1]

# Each program that builds or checks starts a few others.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    # `make release-check` builds in a fresh environment.
    return release.build(tmp_path_factory.mktemp("built"), "--no-isolation")


def test_the_wheel_has_all_of_the_package_and_nothing_else(built: Packages) -> None:
    release.check_wheel(built)


def test_the_sdist_has_sources_and_tests(built: Packages) -> None:
    release.check_sdist(built)


def test_the_metadata_are_valid_and_links_in_the_text_are_absolute(built: Packages) -> None:
    release.check_metadata(built)


def test_repository_and_sdist_build_the_same_wheel(built: Packages, tmp_path: Path) -> None:
    release.check_same_wheel(built, tmp_path, "--no-isolation")


def test_the_same_versions_of_python_are_declared_released_and_searched() -> None:
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    searched = re.findall(
        r"python(3\.\d+)", (ROOT / "scripts/find-python").read_text().split("VERSIONS=")[1].split("\n")[0]
    )
    assert declared == searched[::-1] == list(VERSIONS)
    assert {"3.14", "3.15"} <= set(declared)


def test_the_newest_python_is_the_first_that_exists(tmp_path: Path) -> None:
    for name in ("python3", "python3.11", "python3.14"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)

    def found(*arguments: str) -> str:
        line = ["/bin/sh", str(ROOT / "scripts/find-python"), *arguments]
        environment = {"PATH": str(tmp_path)}
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert found() == str(tmp_path / "python3")
    assert found("--newest") == str(tmp_path / "python3.14")
    assert found("python3.11") == str(tmp_path / "python3.11")


def test_the_oldest_dependencies_are_known(built: Packages) -> None:
    """The tests that depend on them run with them in `make release-check`."""
    pins = release.oldest(release.metadata(built.wheel).requires or [])
    assert sorted(line.partition("==")[0] for line in pins) == ["anyio", "dnspython", "pymongo"]
