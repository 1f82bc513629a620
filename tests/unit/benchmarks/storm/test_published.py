"""Curves that others published."""

from __future__ import annotations

import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.published import BROOKER, PUBLISHED


def test_every_policy_has_both_curves_and_an_arm_of_ours() -> None:
    for published in PUBLISHED.values():
        assert published.success.keys() == published.attempts.keys() == published.ours.keys()
        assert set(published.ours.values()) <= ARMS.keys()


@pytest.mark.parametrize(
    ("policy", "success", "attempts"),
    [
        ("no retries", lambda rate: 1 - rate, lambda _: 1.0),
        ("three retries", lambda rate: 1 - rate**4, lambda rate: 1 + rate + rate**2 + rate**3),
    ],
)
def test_the_curves_follow_their_formulas(policy: str, success, attempts) -> None:  # type: ignore[no-untyped-def]
    for rate, share in BROOKER.success[policy]:
        assert share == pytest.approx(success(rate), abs=0.005)
    for rate, times in BROOKER.attempts[policy]:
        assert times == pytest.approx(attempts(rate), abs=0.02)
