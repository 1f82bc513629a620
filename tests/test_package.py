"""The packages that a release consists of can be built, and have in them what they should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from scripts.release import packages
from scripts.release.__main__ import VERSIONS
from scripts.site.links import is_external, targets

if TYPE_CHECKING:
    from scripts.release.packages import Packages

ROOT: Final = Path(__file__).parents[1]

# Each program that builds or checks starts a few others.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    # `make release-check` builds in a fresh environment.
    return packages.build(tmp_path_factory.mktemp("built"), isolated=False)


def test_the_wheel_has_all_of_the_package_and_nothing_else(built: Packages) -> None:
    packages.check_wheel(built)


def test_the_sdist_has_sources_and_tests(built: Packages) -> None:
    packages.check_sdist(built)


def test_the_metadata_are_valid(built: Packages) -> None:
    packages.check_metadata(built)


def test_the_text_for_the_package_index_has_absolute_links(built: Packages) -> None:
    text = packages.description(built.wheel)
    assert [target for target in targets(text) if not is_external(target)] == []
    assert "pip install motorlite" in text


def test_repository_and_sdist_build_the_same_wheel(built: Packages, tmp_path: Path) -> None:
    packages.check_same_wheel(built, tmp_path, isolated=False)


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
    names = [packages.name_of(line) for line in packages.oldest(packages.requirements(built.wheel))]
    assert sorted(names) == ["anyio", "dnspython", "pymongo"]
