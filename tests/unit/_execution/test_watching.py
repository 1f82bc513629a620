"""A watch is bounded, whatever a program does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from motorlite._base.deadline import NO_DEADLINE
from motorlite._execution.run import Attempt, Run
from motorlite._execution.watching import BOUNDS, MANY, OTHER, REMEMBERED, SHOWN, Followed, Watch, waits_of
from motorlite._operations.commands import RunCommand
from motorlite._operations.contract import Call
from motorlite._operations.cursors import GetMore
from motorlite.errors import AutoReconnect


def followed(watch: Watch, name: str = "find", started_at: float = 0.0) -> Followed:
    made = Followed(watch, name, "db", "coll", started_at)
    watch.running.add(made)
    return made


def attempt(**attributes: Any) -> Attempt:
    made = Attempt()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def test_names_of_operations_and_errors_are_bounded() -> None:
    watch = Watch()
    for index in range(MANY + 5):
        followed(watch, f"command{index}").succeeded(0.1)
        followed(watch, "find").failed(type(f"Error{index}", (Exception,), {})(), 0.1)
    assert len(watch.counts) == len(watch.errors) == MANY + 1
    assert watch.counts[OTHER].succeeded == 6, "find has one of the names"
    assert watch.errors[OTHER] == 5


def test_what_is_shown_and_remembered_is_bounded() -> None:
    watch = Watch()
    for index in range(REMEMBERED * 2):
        followed(watch).succeeded(1.0 + index / 1000)
    for index in range(SHOWN * 2):
        followed(watch, started_at=float(index))
    report = watch.report(100.0 - 98.5)
    assert len(watch.slow) == REMEMBERED
    assert [each["seconds"] for each in report["running"]] == [1.5 - index for index in range(SHOWN)]
    assert report["in_flight"] == {"before sending": 2 * SHOWN}
    seconds = [each["seconds"] for each in report["slow"]]
    assert seconds == sorted(seconds, reverse=True)
    assert (len(seconds), seconds[0]) == (SHOWN, pytest.approx(1.0 + (REMEMBERED * 2 - 1) / 1000))
    assert json.loads(json.dumps(report)) == report


@pytest.mark.parametrize("is_await_data", [False, True])
def test_a_wait_for_changes_is_not_slow(is_await_data: bool) -> None:
    watch = Watch()
    get_more = GetMore("db", "coll", 7, address=("a", 1), is_await_data=is_await_data)

    def begin(**attributes: Any) -> Followed:
        made = followed(watch, "getMore")
        made.run, made.attempt = Run(get_more, Call(None, NO_DEADLINE)), attempt(**attributes)
        return made

    begin(sent_at=0.0).succeeded(1.0)
    begin(sent_at=0.0).failed(AutoReconnect("lost"), 1.0)
    begin(waited_from=0.0, asked_at=0.0, selection_until=5.0, sent_at=0.9).succeeded(1.0)
    begin(sent_at=0.0)
    begin(selection_until=5.0, waited_from=0.0)
    report = watch.report(1.0)
    ended = [(each["outcome"], each["phase"]) for each in report["slow"]]
    running = [each["phase"] for each in report["running"]]
    if is_await_data:
        assert (sorted(ended), running) == ([("AutoReconnect", "reply"), ("ok", "queue")], ["selection"])
    else:
        assert ("ok", "reply") in ended
        assert sorted(running) == ["reply", "selection"]
    assert report["in_flight"] == {"reply": 1, "selection": 1}
    assert report["operations"]["getMore"]["succeeded"] == 2


def test_buckets() -> None:
    watch = Watch()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 0.0001, BOUNDS[-1] + 1):
        followed(watch).succeeded(seconds)
    assert watch.counts["find"].buckets == [2, 1, *[0] * (len(BOUNDS) - 2), 1]
    assert watch.counts["find"].seconds == pytest.approx(sum((*BOUNDS[:1] * 2, 0.0001, BOUNDS[-1], 1)))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (attempt(), []),
        (attempt(waited_from=1.0), [("rate limit", 9.0)]),
        (
            attempt(waited_from=1.0, admitted_at=3.0, server=object(), sent_at=6.0),
            [("rate limit", 2.0), ("queue", 3.0)],
        ),
        (attempt(waited_from=1.0, selection_until=30.0), [("selection", 9.0), ("queue", 0.0)]),
        (
            attempt(waited_from=1.0, selection_until=30.0, asked_at=4.0, server=object(), sent_at=6.0),
            [("selection", 3.0), ("queue", 2.0)],
        ),
        (attempt(waited_from=1.0, server=object()), [("queue", 9.0)]),
        (attempt(waited_from=1.0, server=object(), sent_at=1.5), [("queue", 0.5)]),
    ],
)
def test_where_an_attempt_waited(made: Attempt, expected: list[tuple[str, float]]) -> None:
    assert list(waits_of(made, 10.0)) == expected


@pytest.mark.parametrize(
    ("made", "phase"),
    [
        (attempt(), "session"),
        (attempt(waited_from=1.0), "rate limit"),
        (attempt(waited_from=1.0, selection_until=30.0), "selection"),
        (attempt(waited_from=1.0, server=object()), "queue"),
        (attempt(server=object(), sent_at=1.0), "reply"),
    ],
)
def test_what_an_operation_waits_for(made: Attempt, phase: str) -> None:
    one = followed(Watch())
    assert one.phase == "before sending"
    one.attempt = made
    assert one.phase == phase
    one.failed_at = 2.0
    assert one.phase == "backoff"


def test_a_part_of_an_operation_that_began_before_the_watch() -> None:
    watch, run = Watch(), Run(RunCommand("db", {"ping": 1}), Call(None, NO_DEADLINE))
    watch.started_part(7, run, Attempt(), 1.0)
    assert run.followed is None
    several = watch.started_several("bulkWrite", "db", "coll", 7, 1.0)
    watch.started_part(7, run, attempt(waited_from=1.0, server=object(), sent_at=2.0), 1.0)
    assert run.followed is several
    watch.started_part(7, Run(run.operation, run.call), Attempt(), 4.0)
    several.succeeded(5.0)
    assert watch.lost == {"queue": 1.0}
    assert watch.several == {}
    assert watch.running == set()
