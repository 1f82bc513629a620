"""Pure: where motorlite's default does worse than another arm, with the reason, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.storm.report import wording
from benchmarks.storm.report.conclusions import OURS, findings, named
from benchmarks.storm.report.differences import difference
from benchmarks.storm.report.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.report.session import Group, Session
    from benchmarks.storm.report.wording import Column
    from benchmarks.storm.scenario import Scenario

# What an arm can win or lose, in the order of the sentences.
JUDGED: Final = (
    wording.SHARE,
    wording.AFTER,
    wording.PER_SUCCESS,
    wording.ERRORS,
    wording.P50,
    wording.P99,
    wording.OUTCOME,
    wording.RECOVERY,
)
NAMES: Final = {
    "share": "goodput while overloaded",
    "after": "goodput after the overload",
    "per_success": "attempts per success",
    "errors": "failed requests",
    "p50": "the median latency of all requests",
    "p99": "the p99 of all requests",
    "outcome_p99": "the time until an outcome (p99)",
    "recovery": "recovery",
}


def losses(session: Session, scenario: Scenario, backend: str) -> list[str]:
    """Where the default does worse than another arm beyond the noise: a sentence for each figure, with the reason."""
    found = findings(session, scenario, backend)
    default = found.default
    if default is None or len(found.groups) < 2:
        return []
    texts = []
    for column in JUDGED:
        winners = [group for group in found.groups if difference(column, group, default).verdict == "worse"]
        if winners:
            texts.append(_loss(column, default, winners, {arm.name: arm for arm in session.arms}))
    return texts or [f"{OURS} does worse than no other arm in any of these figures."]


def _loss(column: Column, default: Group, winners: Sequence[Group], arms: Mapping[str, Arm]) -> str:
    own = wording.value(column, default.estimates[column.figure].mean)
    shown = listed(
        [
            f"{wording.arm(group.arm)} ({wording.value(column, group.estimates[column.figure].mean)})"
            for group in winners
        ]
    )
    text = f"In {NAMES[column.figure]} ({own}) {OURS} loses to {shown}"
    text += _reason(column, default, [arms[group.arm] for group in winners if group.arm in arms])
    if column is wording.ERRORS:
        return f"{text}."
    paying = [
        wording.arm(group.arm) for group in winners if difference(wording.ERRORS, default, group).verdict == "worse"
    ]
    if not paying:
        return f"{text}."
    verb = "fail" if len(paying) > 1 else "fails"
    if len(paying) == len(winners):
        return f"{text}; {'all of these fail' if len(paying) > 1 else f'{paying[0]} fails'} more requests."
    return f"{text}; of these, {named(paying)} {verb} more requests."


def _reason(column: Column, default: Group, winners: Sequence[Arm]) -> str:
    """What the policies say about the cause, where all winners share it; of peers nothing is known."""
    if not winners or any(arm.driver != "motorlite" for arm in winners):
        return ""
    is_latency = column in (wording.P50, wording.P99, wording.OUTCOME)
    if is_latency and all(arm.retries == 0 or arm.backoff in ("none", "fixed") for arm in winners):
        return ", because its retries wait longer and longer before they are sent"
    retried = default.estimates["amplification"].mean > 1 + wording.AMPLIFICATION.noise
    if column is wording.PER_SUCCESS and retried and all(arm.retries == 0 for arm in winners):
        return ", because its retries are attempts too"
    if column is wording.ERRORS and all(arm.budget == "none" for arm in winners):
        return ", because they go on retrying where its budget is empty"
    return ""
