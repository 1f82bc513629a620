"""What a scenario showed, in sentences, for constructed cases."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.report.conclusions import conclusion
from benchmarks.storm.report.losses import losses
from tests.support.storm_runs import SUSTAINED, Shape, make_run, make_session

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Scenario

GOOD = Shape(share=0.985, attempts=1.04)


def words(shapes: dict[str, Shape], scenario: Scenario = SUSTAINED) -> str:
    return " ".join(conclusion(make_session(shapes, scenario), scenario, "twin"))


def lost(shapes: dict[str, Shape]) -> str:
    return " ".join(losses(make_session(shapes), SUSTAINED, "twin"))


def test_a_winner() -> None:
    text = words({"default": GOOD, "no-retry": Shape(0.99, 1.0), "pymongo": Shape(0.6, 2.5, recovery=3.0)})
    # The noise of the runs moves a figure by up to half a point.
    assert "While the servers are overloaded, `no-retry` and `default` keep at least 97 % of the goodput" in text
    assert re.search(r"; `pymongo` (59|60)\.\d %\.", text)
    assert "since the overload began: 1.00 with `no-retry`, 1.03 with `default` and 2." in text
    assert "`default` and `no-retry` recover within a second and `pymongo` needs " in text
    assert "`default` is ahead of every peer: `pymongo` (" in text
    assert "motorlite's default reaches the targets" in text


def test_a_loser() -> None:
    text = words({"default": Shape(0.5, 3.0, recovery=4.0), "small-budget": GOOD, "pymongo": Shape(0.8, 1.5)})
    assert "`small-budget` keeps at least 97 %" in text
    assert "`default` is behind `pymongo` (" in text
    assert "motorlite's default misses targets" in text
    assert re.search(
        r"goodput is (49|50)\.\d %, attempts per request are 3\.00 and recovery takes (3\.\d|4\.0) s\.", text
    )
    assert "Of motorlite's policies, `small-budget` reaches all of them." in text


def test_nobody_wins() -> None:
    text = words({"default": Shape(0.9, 1.3), "immediate": Shape(0.3, 5.0, recovery=None)})
    assert "no arm keeps 97 % of the goodput that is attainable: the best is `default` with " in text
    assert "None of motorlite's policies that were run reaches all of them." in text


def test_no_recovery() -> None:
    text = words({"default": GOOD, "immediate": Shape(0.3, 5.0, recovery=None)})
    assert (
        "`default` recovers within a second and `immediate` does not recover in the 10 s that are left (goodput stays "
        in text
    )


def test_no_recovery_in_some_runs() -> None:
    session = make_session({"default": GOOD}, seeds=3)
    session.add(make_run("default", replace(GOOD, share=0.5, recovery=None), 4))
    assert "`default` does not recover in 1 of 4 runs" in " ".join(conclusion(session, SUSTAINED, "twin"))


def test_all_arms_recover() -> None:
    assert "After the overload, all arms recover within a second." in words({"default": GOOD, "no-retry": GOOD})


def test_a_run_that_ends_with_the_overload_says_nothing_of_recovery() -> None:
    text = words({"default": GOOD}, replace(SUSTAINED, seconds=10.0))
    assert "recover within" not in text
    assert "reaches the targets" in text


def test_many_arms_are_summed_up() -> None:
    arms = ("immediate", "fixed", "revision", "per-server", "shared")
    text = words({"default": GOOD, **{arm: Shape(0.9 - n / 10, 2.0 + n) for n, arm in enumerate(arms)}})
    assert re.search(r"the other 5 between (89|90)\.\d % \(`immediate`\) and (49|50)\.\d % \(`shared`\)", text)
    assert "between 1.03 with `default` and 4.26 with `shared`" in text


def test_a_budget_that_governs_in_the_end() -> None:
    session = make_session({})
    for seed in (1, 2):
        run = make_run(shape=Shape(attempts=3.0), seed=seed)
        run.series["attempts"][70:] = run.series["offered"][70:]
        session.add(run)
    text = " ".join(conclusion(session, SUSTAINED, "twin"))
    assert "in the last third of the overload `default` sends 1.00" in text


def test_runs_that_are_not_valid_count_for_nothing() -> None:
    session = make_session({"default": GOOD})
    run = make_run("pymongo", Shape(1.0, 1.0))
    run.invalid = ["the ingress was near its ceiling"]
    session.add(run)
    text = " ".join(conclusion(session, SUSTAINED, "twin"))
    assert text.endswith("Left out as not valid: 1 run of `pymongo` (the ingress was near its ceiling).")
    assert "ahead of" not in text


def test_nothing_is_valid() -> None:
    session = make_session({})
    run = make_run()
    run.invalid = ["the load fell behind"]
    session.add(run)
    text = conclusion(session, SUSTAINED, "twin")
    assert text[0] == "No run of this scenario is valid, so it shows nothing."
    assert len(text) == 2


def test_other_scenarios_have_no_targets() -> None:
    assert "targets" not in words({"default": GOOD}, replace(SUSTAINED, name="burst"))


def test_where_the_default_loses_and_why() -> None:
    text = lost({"default": replace(GOOD, latency=0.05), "no-retry": Shape(0.985, 1.0), "revision": Shape(0.7, 2.0)})
    assert "In attempts per success (1.82) `default` loses to `no-retry` (1.78), because it retries more." in text
    assert "In the median latency of all requests (53 ms) `default` loses to `no-retry` (2." in text
    assert "; of these, `revision` fails more requests." in text


def test_the_reason_of_a_longer_wait() -> None:
    text = lost({"default": replace(GOOD, latency=0.05), "pymongo": Shape(0.6, 1.0)})
    assert "because its callers wait for more retries; `pymongo` fails more requests." in text


def test_the_reason_of_less_goodput() -> None:
    text = lost({"default": Shape(0.7, 3.0), "no-retry": Shape(1.0, 1.0)})
    assert "In goodput while overloaded (" in text
    assert ", because its retries cost the servers work." in text


def test_the_reason_of_more_failures() -> None:
    text = lost({"default": Shape(0.6, 1.0), "immediate": Shape(0.9, 3.0)})
    assert "In failed requests (" in text
    assert ", because they retry more." in text


def test_without_a_difference_in_attempts_no_reason_is_known() -> None:
    text = lost({"default": replace(GOOD, latency=0.05), "pymongo": Shape(0.985, 1.04)})
    assert "In the median latency of all requests (53 ms) `default` loses to `pymongo`" in text
    assert "because" not in text


def test_a_storm_without_retries_is_not_explained_by_retries() -> None:
    session = make_session({})
    for seed in (1, 2, 3):
        for arm, shape, queue in (("default", Shape(0.5, 0.98), 90.0), ("adaptive", Shape(1.0, 0.9), 2.0)):
            run = make_run(arm, shape, seed)
            run.series["server_queue"] = [queue] * len(run.series["offered"])
            session.add(run)
    text = " ".join(losses(session, SUSTAINED, "twin"))
    assert "loses to `adaptive` (" in text
    assert ", because more requests wait at the servers." in text
    assert "retries" not in text


def test_peers_that_are_level() -> None:
    text = words({"default": GOOD, "pymongo": GOOD, "motor": Shape(0.5, 3.0), "mongojet": Shape(0.99, 1.0)})
    assert re.search(
        r"`default` is ahead of `motor` \([\d.]+\), level with `pymongo` \([\d.]+\) and behind `mongojet`", text
    )


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ({"default": GOOD}, ""),
        ({"pymongo": GOOD, "motor": GOOD}, ""),
        (
            {"default": GOOD, "pymongo": Shape(0.5, 2.0, recovery=None)},
            "`default` does worse than no other arm in any of these figures.",
        ),
    ],
)
def test_nothing_is_lost(shapes: dict[str, Shape], expected: str) -> None:
    assert lost(shapes) == expected
