from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.testing.isolation import judge_lists
from tests.support.histories import History

if TYPE_CHECKING:
    from motorlite.testing.isolation import Order


def kinds(history: History, final: Any = None, **options: Any) -> list[str]:
    return [finding.kind for finding in judge_lists(history.entries, final, **options)]


def lists(*transactions: str, failed: str = "", unknown: str = "") -> History:
    """Transactions that overlap: their entries have the numbers 0, 1 ... in this order."""
    history = History()
    for text in transactions:
        history.transaction(text)
    if failed:
        history.transaction(failed, "failed")
    if unknown:
        history.transaction(unknown, "unknown")
    return history


CASES = [
    # Each writes before the other; or one after the other.
    ("G0", lists("ax1 ay2", "ax3 ay4", "rx13 ry42"), "snapshot"),
    (None, lists("ax1 ay2", "ax3 ay4", "rx13 ry24"), "snapshot"),
    # Each reads what the other wrote; or only one does.
    ("G1c", lists("ax1 ry2", "ay2 rx1"), "snapshot"),
    (None, lists("ax1 ry", "ay2 rx1"), "snapshot"),
    # Sees one write of a transaction but not the other; or neither.
    ("G-single", lists("ax1 ay2", "rx1 ry"), "snapshot"),
    (None, lists("ax1 ay2", "rx ry"), "snapshot"),
    # Both read the same list and append to it; or the second reads what the first appended.
    ("lost update", lists("rx ax1", "rx ax2", "rx12"), "snapshot"),
    (None, lists("rx ax1", "rx1 ax2", "rx12"), "snapshot"),
    # A long fork: two readers see two writes in different orders. No two rw follow each other ...
    ("G-nonadjacent", lists("ax1", "ay2", "rx1 ry", "rx ry2"), "snapshot"),
    (None, lists("ax1", "ay2", "rx1 ry", "rx1 ry2"), "snapshot"),
    # ... as they do in write skew, which only serializable transactions exclude.
    (None, lists("rx ry ax1", "rx ry ay2", "rx1 ry2"), "snapshot"),
    ("G2-item", lists("rx ry ax1", "rx ry ay2", "rx1 ry2"), "serializable"),
    (None, lists("rx ry ax1", "rx1 ry ay2", "rx1 ry2"), "serializable"),
    # A value of a failed transaction was read; one of an unknown transaction may be, also if nothing else is known.
    ("G1a", lists("rx1", failed="ax1"), "snapshot"),
    (None, lists("rx1", unknown="ax1"), "snapshot"),
    (None, lists("rx", failed="ax1"), "snapshot"),
    (None, lists("rx", unknown="ax1"), "snapshot"),
    # A version in the middle of a transaction.
    ("G1b", lists("ax1 ax2", "rx1"), "snapshot"),
    (None, lists("ax1 ax2", "rx12"), "snapshot"),
    ("incompatible order", lists("ax1", "ax2", "rx12", "rx21"), "snapshot"),
    (None, lists("ax1", "ax2", "rx12", "rx1"), "snapshot"),
    ("duplicate", lists("ax1", "ax2", "rx121"), "snapshot"),
    ("garbage", lists("ax1", "rx19"), "snapshot"),
    # Against its own reads and appends.
    ("internal", lists("ax1", "rx rx1"), "snapshot"),
    (None, lists("ax1", "rx1 rx1"), "snapshot"),
    ("internal", lists("ax1 rx"), "snapshot"),
    (None, lists("ax1 rx1"), "snapshot"),
    ("internal", lists("ax1", "rx1 ax2 rx21"), "snapshot"),
    (None, lists("ax1", "rx1 ax2 rx12"), "snapshot"),
    # An unknown transaction of which one value was read happened as a whole.
    ("G-single", lists("rx1 ry", unknown="ax1 ay2"), "snapshot"),
]


@pytest.mark.parametrize(("kind", "history", "level"), CASES)
def test_what_is_wrong_with_lists(kind: str | None, history: History, level: str) -> None:
    # Without the order of time, since the transactions are in no order here.
    found = kinds(history, level=level, order="none")
    assert (kind in found) if kind else found == []


@pytest.mark.parametrize(
    ("order", "processes", "expected"),
    [
        ("none", (1, 1), []),
        ("process", (1, 2), []),
        ("process", (1, 1), ["G-single-process"]),
        ("realtime", (1, 2), ["G-single-realtime"]),
    ],
)
def test_an_old_version_is_read(order: Order, processes: tuple[int, int], expected: list[str]) -> None:
    history = History().transaction("ax1", at=(1, 2), process=processes[0])
    history.transaction("rx", at=(3, 4), process=processes[1]).transaction("rx1", at=(5, 6), process=9)
    assert kinds(history, order=order) == expected


def test_what_overlaps_may_be_read_or_not() -> None:
    assert kinds(History().transaction("ax1", at=(1, 3)).transaction("rx", at=(3, 4))) == []


def test_what_was_acknowledged_is_there_also_if_it_was_never_read_again() -> None:
    history = History().transaction("ax1", at=(1, 2)).transaction("rx", at=(3, 4))
    assert kinds(history) == ["G-single-realtime"]
    assert "lost append" in kinds(history, {"x": []})
    assert "lost append" in kinds(History().transaction("ax1"), {})
    assert kinds(History().transaction("ax1"), {"x": [1]}) == []


def test_an_unknown_transaction_happens_as_a_whole() -> None:
    history = History().transaction("ax1 ay2", "unknown", at=(1, 2)).transaction("ax3", None)
    assert kinds(history, {}) == []
    assert kinds(history, {"x": [1], "y": [2]}) == []
    assert kinds(history, {"x": [1]}) == ["lost append"]


def test_an_unknown_transaction_may_happen_later() -> None:
    history = History().transaction("ax1", "unknown", at=(1, 2)).transaction("rx", at=(3, 4))
    assert kinds(history, {"x": [1]}) == []


def test_a_value_that_was_read_and_lost() -> None:
    history = History().transaction("ax1", None).transaction("rx1")
    assert "lost append" in kinds(history, {"x": []})


def test_lists_at_the_start() -> None:
    history = History().see("start", lists=[["x", [1]]]).transaction("rx1 ax2").transaction("rx12")
    assert kinds(history, {"x": [1, 2]}) == []
    assert kinds(history.transaction("rx")) == ["G-single-realtime"]


def test_the_message_names_the_transactions() -> None:
    (finding,) = judge_lists(lists("ax1 ay2", "rx1 ry", "ry2").entries, level="snapshot", order="none")
    assert "#1 read 1 in 'x', which #0 appended" in finding.message
    assert "#1 read 'y' without 2, which #0 appended" in finding.message
    assert {entry.id for entry in finding.entries} == {0, 1}


def test_separate_cycles_are_separate_findings() -> None:
    history = lists("rx ax1", "rx ax2", "rx12", "rz az1", "rz az2", "rz12")
    assert kinds(history, order="none") == ["lost update", "lost update"]


@pytest.mark.parametrize(
    ("history", "message"),
    [
        (lists("ax1", "ax1"), "appends 1 to 'x' twice"),
        (History().add("append", {"ops": [["pop", "x", 1]]}, "unknown"), "neither append nor read"),
    ],
)
def test_a_journal_that_proves_nothing(history: History, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        judge_lists(history.entries)
