"""Says loudly when the public specification suites are not there to be run."""

from __future__ import annotations

import pytest

from tests.support import specifications


def test_the_public_suites_are_there() -> None:
    if reason := specifications.not_run():
        pytest.skip(reason)
    assert len(specifications.load("uri-options/tests")) > 5


def test_a_suite_that_is_not_there_is_an_error(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no test file"):
        specifications.load("no-such-suite/tests")


def test_a_named_folder_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(specifications.VARIABLE, "/nowhere")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        specifications.root()
