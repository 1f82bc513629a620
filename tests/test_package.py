"""The packages that a release consists of can be built, and have in them what they should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scripts.release import packages
from scripts.site.links import is_external, targets

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.release.packages import Packages

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


def test_the_oldest_dependencies_are_known(built: Packages) -> None:
    """The tests that depend on them run with them in `make release-check`."""
    names = [packages.name_of(line) for line in packages.oldest(packages.requirements(built.wheel))]
    assert sorted(names) == ["anyio", "dnspython", "pymongo"]
