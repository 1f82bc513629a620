from __future__ import annotations

from typing import Any

import pytest

from motorlite.testing.account import FinalState, judge
from tests.support.histories import History


def streams(*seen: str, stopped: bool = False, outcomes: str = "ooo") -> History:
    """Inserts of a, b and c, one after the other, and what a stream shows: ``a1`` is a with the token 1.

    The outcomes are "o" for ok, "u" for unknown and "f" for failed.
    """
    history = History().see("watching", 5, stream="s", collections=["c"])
    for number, (name, outcome) in enumerate(zip("abc", outcomes, strict=True)):
        begin = 10 * (number + 1)
        full: Any = {"o": "ok", "u": "unknown", "f": "failed"}[outcome]
        history.add("insert", {"collection": "c", "ids": [name]}, full, at=(begin, begin + 5))
    for each in seen:
        history.see("change", 50, stream="s", token=each[1], collection="c", key=each[0], operation="insert")
    if stopped:
        history.see("stopped", 60, stream="s")
    return history


def kinds(history: History, there: str = "abc") -> list[str]:
    final = FinalState(documents={"c": [{"_id": each} for each in there]})
    return [finding.kind for finding in judge(history.entries, final)]


@pytest.mark.parametrize(
    ("history", "there", "expected"),
    [
        (streams("a1", "b2", "c3"), "abc", []),
        (streams("a1", "c3"), "abc", ["missing change"]),
        (streams("a1", "b2"), "abc", ["missing change"]),
        (streams("a1", "b2", stopped=True), "abc", []),
        (streams("a1", "c3", stopped=True), "abc", ["missing change"]),
        (streams(stopped=True), "abc", []),
        (streams("a1", "b2", "b2", "c3"), "abc", ["delivered twice", "delivered twice"]),
        (streams("a1", "b2", "c3", "b4"), "abc", ["out of order", "delivered twice"]),
        (streams("b2", "a1", "c3"), "abc", ["out of order", "out of order"]),
        (streams("b1", "a2", "c3"), "abc", ["out of order"]),
        (streams("a1", "b2", "c3", "z4"), "abc", ["stranger"]),
        (streams("a1", "b2", "c3", outcomes="ouo"), "abc", []),
        (streams("a1", "c3", outcomes="ouo"), "ac", []),
        (streams("a1", "c3", outcomes="ouo"), "abc", ["missing change"]),
        (streams("a1", "b2", "c3", outcomes="ouo"), "ac", ["stranger"]),
        (streams("a1", "b2", "c3", outcomes="ofo"), "ac", ["stranger"]),
    ],
)
def test_streams(history: History, there: str, expected: list[str]) -> None:
    assert kinds(history, there) == expected


def test_what_overlaps_comes_in_any_order() -> None:
    history = History().see("watching", 0, stream="s", collections=["c"])
    for name in "ab":
        history.add("insert", {"collection": "c", "ids": [name]}, at=(1, 2))
    for token, name in enumerate("ba"):
        history.see("change", 3, stream="s", token=str(token), collection="c", key=name, operation="insert")
    assert kinds(history, "ab") == []


def test_what_began_before_the_stream_may_be_missing() -> None:
    history = History().add("insert", {"collection": "c", "ids": ["a"]}, at=(1, 9))
    history.see("watching", 5, stream="s", collections=["c"])
    assert kinds(history, "a") == []
    history.see("change", 6, stream="s", token="1", collection="c", key="a", operation="insert")
    assert kinds(history, "a") == []


def test_every_kind_of_operation_becomes_its_changes() -> None:
    names = ["accounts", "transfers", "counters", "registers", "lists", "fs.files", "bulk"]
    history = History().see("watching", 0, stream="s", collections=names)
    history.add("transfer", {"source": "a", "target": "b", "amount": 0, "id": "t"})
    history.add("count", {"counter": "n"}, result={"value": 1})
    history.add("register", {"op": "write", "key": "r", "value": 1})
    history.add("register", {"op": "read", "key": "r"}, result={"value": 1})
    history.add("register", {"op": "cas", "key": "r", "expected": 5, "value": 6}, result={"swapped": False})
    history.transaction("ax1 rx1").transaction("ay1", "unknown").transaction("az1", "failed")
    history.add("upload", {"file": "f", "length": 0, "digest": ""})
    history.add("delete_file", {"file": "f"})
    history.add("bulk", {"writes": [{"op": "insert", "collection": "bulk", "id": 1}]}, at=(1, 2))
    for position, op in enumerate(("increment", "replace", "update", "delete")):
        at = (position + 3, position + 3.5)
        value = {"value": position} if op in ("replace", "update") else {}
        history.add("bulk", {"writes": [{"op": op, "collection": "bulk", "id": 1, **value}]}, at=at)
    changes = [
        ("accounts", "a", "update"),
        ("accounts", "b", "update"),
        ("transfers", "t", "insert"),
        ("counters", "n", "update"),
        ("registers", "r", "update"),
        ("lists", "x", "insert"),
        ("fs.files", "f", "insert"),
        ("fs.files", "f", "delete"),
        ("bulk", 1, "insert"),
        ("bulk", 1, "update"),
        ("bulk", 1, "replace"),
        ("bulk", 1, "update"),
        ("bulk", 1, "delete"),
    ]
    for position, (collection, key, operation) in enumerate(changes):
        history.see(
            "change", 200, stream="s", token=f"{position:02}", collection=collection, key=key, operation=operation
        )
    final = FinalState(
        documents={"transfers": [{"_id": "t", "source": "a", "target": "b", "amount": 0}]},
        balances={"a": 0, "b": 0},
        counters={"n": 1},
        registers={"r": 1},
        lists={"x": [1]},
    )
    assert judge(history.entries, final) == []
    for position in range(len(changes)):
        changed = [entry for entry in history.entries if entry.details.get("token") != f"{position:02}"]
        assert [finding.kind for finding in judge(changed, final)] == ["missing change"], changes[position]


def test_an_update_to_the_present_value_is_no_change() -> None:
    history = History().see("watching", 0, stream="s", collections=["c"])
    for position, op in enumerate(("insert", "update")):
        write = {"op": op, "collection": "c", "id": "a", "value": 1}
        history.add("bulk", {"writes": [write]}, at=(2 * position + 1, 2 * position + 2))
    history.see("change", 9, stream="s", token="1", collection="c", key="a", operation="insert")
    assert judge(history.entries, FinalState(documents={"c": [{"_id": "a", "value": 1}]})) == []


def test_a_stream_that_was_not_opened() -> None:
    history = History().see("change", 1, stream="s", token="1", collection="c", key="a", operation="insert")
    with pytest.raises(ValueError, match="which is not watching"):
        judge(history.entries, FinalState())
