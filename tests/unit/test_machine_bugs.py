"""The bugs that state machines find fit the driver. Each machine looks for its own."""

from __future__ import annotations

import pytest

from tests.support.machine_bugs import BUGS
from tests.support.planting import plant


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_fits_the_driver(name: str) -> None:
    with plant(BUGS[name]):
        assert BUGS[name].breaks
