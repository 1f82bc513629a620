"""Says loudly when the public specification suites are not there to be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import specifications

if TYPE_CHECKING:
    from pathlib import Path


def test_the_public_suites_are_there() -> None:
    if reason := specifications.not_run():
        pytest.skip(reason)
    assert len(specifications.load("uri-options/tests")) > 5


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one suite, named by the environment variable."""
    (tmp_path / "some-suite" / "tests").mkdir(parents=True)
    (tmp_path / "some-suite" / "tests" / "one.json").write_text("{}")
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path))
    return tmp_path


def test_the_named_folder_is_taken(suites: Path) -> None:
    assert specifications.root() == suites
    assert specifications.not_run() is None
    assert specifications.load("some-suite/tests") == [("one", {})]


def test_a_suite_that_is_not_there_is_an_error(suites: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no test file"):
        specifications.load("no-such-suite/tests")


def test_a_clone_of_the_repository_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source" / "some-suite" / "tests").mkdir(parents=True)
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path))
    assert specifications.root() == tmp_path / "source"


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_named_folder_without_suites_is_told_and_no_other_is_looked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path / name))
    assert specifications.root() is None
    assert specifications.load("uri-options/tests") == []
    told = specifications.not_run()
    assert told is not None
    assert f"public suites not run: {specifications.VARIABLE}={tmp_path / name} is not a folder with suites" in told


def test_without_any_place_all_of_them_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(specifications.VARIABLE, raising=False)
    monkeypatch.setattr(specifications, "PLACES", (tmp_path / "here", tmp_path / "there"))
    told = specifications.not_run()
    assert told is not None
    assert str(tmp_path / "here") in told
    assert str(tmp_path / "there") in told
