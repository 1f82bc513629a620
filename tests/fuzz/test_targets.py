"""Each target is fuzzed for about a second: with mutations and with what hypothesis makes, always the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import engines
from tests.fuzz.strategies import inputs
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.slow

# Inputs for each unit of a target's weight, which stands for its speed.
MUTATED = 15
LEAST = 30


@pytest.mark.parametrize("name", TARGETS)
def test_mutations(name: str) -> None:
    target = TARGETS[name]
    outcome = engines.mutate(target, max(LEAST, MUTATED * target.weight), seed=1)
    assert outcome.crash is None, f"{outcome.report} for {outcome.crash!r}"


@pytest.mark.parametrize("name", TARGETS)
def test_structures(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=10 if name == "port" else 200,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        target.run(data.draw(inputs(target)))

    check()
