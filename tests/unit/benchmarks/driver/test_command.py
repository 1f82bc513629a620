from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks.driver import command, data
from benchmarks.driver.adapters import ARMS
from benchmarks.driver.tasks import TASKS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_everything_is_measured_by_default() -> None:
    found = arguments()
    assert (found.tasks, found.arms, found.seconds) == ([*TASKS], [*ARMS], 5.0)
    assert list(ARMS)[3:] == ["pymongo", "pymongo-sync", "motor", "mongojet"]


def test_without_the_data_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert command.run(arguments("--quick")) == 1
    assert "the data of the public benchmark is not there" in capsys.readouterr().err
