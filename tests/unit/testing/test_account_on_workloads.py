"""The account never accuses a correct database, and notices each way in which one may be wrong."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite.testing.account import judge, report
from tests.support.histories import MUTATIONS, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite.testing.account import FinalState
    from motorlite.testing.journal import Entry

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.sampled_from([0.0, 0.08, 0.3]), st.sampled_from([1, 3, 8]))
def test_snapshot_isolation_is_not_accused(seed: int, unknown: float, processes: int) -> None:
    workload = Workload(seed, unknown=unknown, processes=processes)
    final = workload.run()
    assert report(judge(workload.entries, final)) == "nothing is wrong"


@given(SEEDS)
def test_a_serial_database_is_not_accused_at_the_highest_level(seed: int) -> None:
    workload = Workload(seed, is_serial=True)
    final = workload.run()
    assert report(judge(workload.entries, final, level="serializable")) == "nothing is wrong"


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_mutation_is_accused(mutation: Callable[[list[Entry], FinalState, Random], FinalState | None]) -> None:
    accused = 0
    for seed in range(30):
        workload = Workload(seed)
        final = mutation(workload.entries, workload.run(), Random(seed))
        if final is not None:
            assert judge(workload.entries, final), seed
            accused += 1
    assert accused > 10


@pytest.mark.slow
def test_a_long_journal_is_judged_soon() -> None:
    workload = Workload(1, processes=100, unknown=0.002)
    final = workload.run(100_000)
    started = time.process_time()
    assert judge(workload.entries, final) == []
    # 50,000 operations take 1 to 2 s; time that grew with their square would be minutes.
    assert time.process_time() - started < 15
