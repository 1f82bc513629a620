"""Pure: where motorlite's default does worse than another arm, with the reason, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.storm.report import wording
from benchmarks.storm.report.conclusions import OURS, findings, named
from benchmarks.storm.report.differences import difference
from benchmarks.storm.report.wording import listed
from benchmarks.storm.results import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

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
LONGER: Final = 1.5
"""How many times as long a queue must be to explain something."""
# Why the default does worse, if it sends more attempts than all who do better.
RETRIES_MORE: Final = {
    "share": ", because its retries cost the servers work",
    "after": ", because its retries cost the servers work",
    "per_success": ", because it retries more",
    "p50": ", because its callers wait for more retries",
    "p99": ", because its callers wait for more retries",
    "outcome_p99": ", because its callers wait for more retries",
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
            texts.append(_loss(column, default, winners))
    return texts or [f"{OURS} does worse than no other arm in any of these figures."]


def _loss(column: Column, default: Group, winners: Sequence[Group]) -> str:
    own = wording.value(column, default.estimates[column.figure].mean)
    shown = listed(
        [
            f"{wording.arm(group.arm)} ({wording.value(column, group.estimates[column.figure].mean)})"
            for group in winners
        ]
    )
    text = f"In {NAMES[column.figure]} ({own}) {OURS} loses to {shown}"
    text += _reason(column, default, winners)
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


def _reason(column: Column, default: Group, winners: Sequence[Group]) -> str:
    """The cause, where the figures of all winners bear it out."""
    own = default.estimates["amplification"].mean
    others = [group.estimates["amplification"].mean for group in winners]
    noise = wording.AMPLIFICATION.noise
    # Where there is hardly a retry, retries explain nothing.
    if own > 1 + noise and all(own > other + noise for other in others):
        return RETRIES_MORE.get(column.figure, "")
    if column is wording.ERRORS and all(max(own, 1.0) < other - noise for other in others):
        return ", because they retry more"
    is_about_queues = column in (wording.SHARE, wording.AFTER, wording.ERRORS, wording.P50, wording.RECOVERY)
    if is_about_queues and _queue(default) > 0 and all(_queue(default) > LONGER * _queue(group) for group in winners):
        return ", because more requests wait at the servers"
    return ""


def _queue(group: Group) -> float:
    """Work that waits at the servers since the overload began, the mean over all runs."""
    values = [
        value
        for record in group.records
        for value in record.run.series.get("server_queue", ())[round(record.run.overload[0] / STEP) :]
    ]
    return sum(values) / len(values) if values else 0.0
