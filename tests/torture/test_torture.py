"""A short run of the torture on each event loop, by the same road as the long ones (``python -m tests.torture``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.load import BACKENDS
from tests.torture.run import torture

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 20.0
TASKS = 40


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "backend"), list(enumerate(BACKENDS)))
def test_nothing_is_lost(seed: int, backend: str, tmp_path: Path) -> None:
    report = torture(seed, SECONDS, backend=backend, tasks=TASKS, folder=tmp_path)
    assert not report.findings, report
    # It was a load, and there were faults.
    assert report.outcomes["insert ok"] > TASKS, report
    assert report.injected.total() > SECONDS / 5, report
