from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import processes
from benchmarks.processes import ChildFailedError, ask

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three modules to run."""
    (tmp_path / "good.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))")
    (tmp_path / "bad.py").write_text("raise ValueError('no')")
    (tmp_path / "slow.py").write_text("import threading; threading.Event().wait()")
    monkeypatch.setattr(processes, "ROOT", tmp_path)


def test_the_value_is_what_the_module_prints() -> None:
    assert ask("good", "1", "b") == ["1", "b"]


def test_a_failure_has_the_last_line_of_the_module() -> None:
    with pytest.raises(ChildFailedError, match="ValueError: no"):
        ask("bad")


def test_a_module_that_does_not_end_is_ended() -> None:
    with pytest.raises(ChildFailedError, match=r"longer than 0\.5 s"):
        ask("slow", limit=0.5)
