from __future__ import annotations

from typing import Any

import pytest

from motorlite.testing.account import FinalState, Finding, StoredChunk, StoredFile, judge, report
from motorlite.testing.journal import Begun, Ended
from tests.support.histories import History


def kinds(history: History, **final: Any) -> list[str]:
    return [finding.kind for finding in judge(history.entries, FinalState(**final))]


# --- documents ---


def insert(*ids: str, outcome: Any = "ok", **result: Any) -> History:
    return History().add("insert", {"collection": "c", "ids": list(ids)}, outcome, result)


def documents(*ids: str, **fields: Any) -> dict[str, Any]:
    return {"documents": {"c": [{"_id": each, **fields} for each in ids]}}


@pytest.mark.parametrize(
    ("history", "final", "expected"),
    [
        (insert("a", "b"), documents("a", "b"), []),
        (insert("a", "b"), documents("a"), ["lost"]),
        (insert("a"), documents("a", "a"), ["duplicate"]),
        (insert("a"), documents("a", "z"), ["stranger"]),
        (insert("a", outcome="failed"), documents("a"), ["applied though failed"]),
        (insert("a", outcome="failed"), documents(), []),
        (insert("a", outcome="unknown"), documents("a"), []),
        (insert("a", outcome=None), documents(), []),
        (insert("a", "b", outcome="failed", applied=["a"]), documents("a"), []),
        (insert("a", "b", outcome="failed", applied=["a"]), documents("a", "b"), ["applied though failed"]),
        (insert("a", "b", outcome="failed", applied=["a"]), documents(), ["lost"]),
        (insert("a", "b", outcome="unknown", applied=["a"]), documents("a"), []),
        (insert("a", "b", outcome="unknown", applied=["a"]), documents("b"), ["lost"]),
    ],
)
def test_inserts(history: History, final: dict[str, Any], expected: list[str]) -> None:
    assert kinds(history, **final) == expected


def bulk(*steps: str) -> History:
    """Bulk writes of one document, one after the other: ``insert 1``, ``update 2``, ``?delete`` (unknown)."""
    history = History()
    for number, step in enumerate(steps):
        op, _, value = step.lstrip("?").partition(" ")
        write = {"op": op, "collection": "c", "id": "a", **({"value": int(value)} if value else {})}
        outcome: Any = "unknown" if step.startswith("?") else "ok"
        history.add("bulk", {"writes": [write]}, outcome, at=(2 * number + 1, 2 * number + 2))
    return history


@pytest.mark.parametrize(
    ("history", "final", "expected"),
    [
        (bulk("insert 1"), documents("a", value=1), []),
        (bulk("insert 1"), documents("a", value=2), ["wrong value"]),
        (bulk("insert 1", "update 2"), documents("a", value=2), []),
        (bulk("insert 1", "update 2"), documents("a", value=1), ["wrong value"]),
        (bulk("insert 1", "?update 2"), documents("a", value=1), []),
        (bulk("insert 1", "?update 2", "replace 3"), documents("a", value=2), []),  # may happen later
        (bulk("insert 1", "delete"), documents(), []),
        (bulk("insert 1", "delete"), documents("a", value=1), ["not deleted"]),
        (bulk("insert 1", "?delete"), documents("a", value=1), []),
        (bulk("?insert 1", "?delete"), documents(), []),
        (bulk("insert", "increment", "increment"), documents("a", n=2), []),
        (bulk("insert", "increment", "increment"), documents("a", n=3), ["applied twice"]),
        (bulk("insert", "increment", "increment"), documents("a", n=1), ["lost"]),
        (bulk("insert", "increment", "?increment"), documents("a", n=1), []),
        (bulk("insert", "increment", "?increment"), documents("a", n=2), []),
        (bulk("insert", "increment", "?increment"), documents("a", n=3), ["applied twice"]),
        (bulk("insert", "increment", "replace 2"), documents("a", value=2), []),
        (bulk("insert 1", "increment", "update 2"), documents("a", value=2, n=1), []),
    ],
)
def test_bulk_writes(history: History, final: dict[str, Any], expected: list[str]) -> None:
    assert kinds(history, **final) == expected


def test_writes_that_overlap_happen_in_any_order() -> None:
    history = bulk("insert 1")
    for value in (2, 3):
        history.add("bulk", {"writes": [{"op": "update", "collection": "c", "id": "a", "value": value}]}, at=(5, 6))
    assert kinds(history, **documents("a", value=2)) == kinds(history, **documents("a", value=3)) == []
    assert kinds(history, **documents("a", value=1)) == ["wrong value"]


def test_the_result_of_a_bulk_write_counts_its_writes() -> None:
    writes = [{"op": "insert", "collection": "c", "id": each} for each in "ab"]
    assert kinds(History().add("bulk", {"writes": writes}, "ok", {"inserted": 2}), **documents("a", "b")) == []
    history = History().add("bulk", {"writes": writes}, "ok", {"inserted": 1, "deleted": 1})
    assert kinds(history, **documents("a", "b")) == ["wrong count", "wrong count"]


def test_a_part_of_a_bulk_write() -> None:
    writes = [{"op": "insert", "collection": "c", "id": each} for each in "ab"]
    history = History().add("bulk", {"writes": writes}, "failed", {"applied": [1]})
    assert kinds(history, **documents("b")) == []
    assert sorted(kinds(history, **documents("a"))) == ["applied though failed", "lost"]


# --- transfers ---


def transfer(outcome: Any = "ok") -> History:
    history = History().see("start", accounts=[["a", 10], ["b", 10]])
    return history.add("transfer", {"source": "a", "target": "b", "amount": 3, "id": "t"}, outcome)


THERE = {"documents": {"transfers": [{"_id": "t", "source": "a", "target": "b", "amount": 3}]}}
ALTERED = {"documents": {"transfers": [{"_id": "t", "source": "a", "target": "b", "amount": 4}]}}


@pytest.mark.parametrize(
    ("outcome", "there", "balances", "expected"),
    [
        ("ok", THERE, (7, 13), []),
        ("ok", {}, (10, 10), ["lost"]),
        ("ok", THERE, (7, 10), ["wrong balance"]),
        ("ok", THERE, (4, 16), ["wrong balance", "wrong balance"]),
        ("ok", ALTERED, (7, 13), ["wrong value"]),
        ("unknown", THERE, (7, 13), []),
        ("unknown", {}, (10, 10), []),
        ("unknown", {}, (7, 13), ["wrong balance", "wrong balance"]),
        ("failed", {}, (10, 10), []),
        ("failed", THERE, (7, 13), ["applied though failed"]),
    ],
)
def test_transfers(outcome: str, there: dict[str, Any], balances: tuple[int, int], expected: list[str]) -> None:
    assert kinds(transfer(outcome), balances=dict(zip("ab", balances, strict=True)), **there) == expected


# --- counters ---


@pytest.mark.parametrize(
    ("counts", "value", "expected"),
    [
        (((1, 2, 1), (3, 4, 2)), 2, []),
        (((1, 2, 1), (3, 4, 2)), 3, ["applied twice"]),
        (((1, 2, 1), (3, 4, 2)), 1, ["lost"]),
        (((1, 4, 1), (2, 5, 1)), 2, ["lost"]),
        (((1, 4, 2), (2, 5, 1)), 2, []),
        (((1, 2, 2), (3, 4, 1)), 2, ["out of order"]),
        (((1, 2, 1), (3, 4, 7)), 2, ["wrong value"]),
        (((1, 2, 1), (3, 4, None)), 2, []),
        (((1, 2, 1), (3, 4, None)), 1, []),
        (((1, 2, 1), (3, 4, None)), 3, ["applied twice"]),
        (((1, 2, None), (3, 4, 2)), 2, []),
    ],
)
def test_counters(counts: Any, value: int, expected: list[str]) -> None:
    history = History()
    for begin, end, returned in counts:
        outcome: Any = "unknown" if returned is None else "ok"
        history.add("count", {"counter": "c"}, outcome, {"value": returned}, at=(begin, end))
    assert kinds(history, counters={"c": value}) == expected


def test_a_counter_counts_from_its_start() -> None:
    history = History().see("start", counters=[["c", 5]]).add("count", {"counter": "c"}, result={"value": 6})
    assert kinds(history, counters={"c": 6}) == []
    assert kinds(history, counters={"c": 5}) == ["lost"]
    assert kinds(History().add("count", {"counter": "c"}, "failed"), counters={"c": 1}) == ["applied twice"]


# --- files ---


def upload(outcome: Any = "ok", deletion: Any = "", **result: Any) -> History:
    history = History().add("upload", {"file": "f", "length": 7, "digest": "d"}, outcome, at=(1, 2))
    return history.add("delete_file", {"file": "f"}, deletion, result, at=(3, 4)) if deletion != "" else history


def stored(*lengths: int, digest: str = "d", file: bool = True) -> dict[str, Any]:
    chunks = [StoredChunk("f", number, length) for number, length in enumerate(lengths)]
    return {"files": [StoredFile("f", 7, 4, digest)] if file else [], "chunks": chunks}


@pytest.mark.parametrize(
    ("history", "final", "expected"),
    [
        (upload(), stored(4, 3), []),
        (upload(), stored(4), ["incomplete file"]),
        (upload(), stored(4, 2), ["incomplete file"]),
        (upload(), stored(4, 3, 3), ["incomplete file"]),
        (upload(), stored(4, 3, digest="e"), ["wrong value"]),
        (upload(), stored(file=False), ["lost"]),
        (upload("failed"), stored(file=False), []),
        (upload("failed"), stored(4, file=False), ["orphaned chunks"]),
        (upload("failed"), stored(4, 3), ["applied though failed"]),
        (upload("unknown"), stored(4, file=False), []),
        (upload(None), stored(4, 3), []),
        (upload("unknown"), stored(4), ["incomplete file"]),
        (upload(deletion="ok"), stored(file=False), []),
        (upload(deletion="ok"), stored(3, file=False), ["orphaned chunks"]),
        (upload(deletion="ok"), stored(4, 3), ["not deleted"]),
        (upload(deletion="unknown"), stored(4, file=False), []),
        (upload(deletion="unknown"), stored(4, 3), []),
        (upload(deletion="unknown", is_whole=False), stored(4, file=False), []),
        (upload(deletion="unknown", is_whole=True), stored(4, file=False), ["orphaned chunks"]),
        (upload(deletion="unknown", is_whole=True), stored(4, 3), []),
        (upload(deletion="unknown", is_whole=True), stored(file=False), []),
        (
            upload(deletion="unknown", is_whole=True).add("delete_file", {"file": "f"}, "unknown", at=(5, 6)),
            stored(4, file=False),
            [],
        ),
        (upload(deletion="failed"), stored(file=False), ["lost"]),
        (History(), stored(4, 3), ["stranger"]),
        (upload(), {**stored(4, 3), "files": [StoredFile("f", 7, 4, "d")] * 2}, ["duplicate"]),
    ],
)
def test_files(history: History, final: dict[str, Any], expected: list[str]) -> None:
    assert kinds(history, **final) == expected


def test_a_file_without_bytes_has_no_chunks() -> None:
    history = History().add("upload", {"file": "f", "length": 0, "digest": "d"})
    assert kinds(history, files=[StoredFile("f", 0, 4, "d")]) == []


# --- lists and registers ---


def test_lists_and_registers_are_judged_with_their_final_values() -> None:
    history = History().transaction("ax1").add("register", {"op": "write", "key": "r", "value": 1})
    assert kinds(history, lists={"x": [1]}, registers={"r": 1}) == []
    assert kinds(history) == ["lost append", "not linearizable"]


def test_the_level_of_transactions_is_a_parameter() -> None:
    history = History().transaction("rx ry ax1").transaction("rx ry ay2")
    final = FinalState(lists={"x": [1], "y": [2]})
    assert judge(history.entries, final) == []
    assert [finding.kind for finding in judge(history.entries, final, level="serializable")] == ["G2-item"]


@pytest.mark.parametrize("outcome", ["ok", None])
def test_a_kind_that_nothing_judges_is_no_proof(outcome: Any) -> None:
    with pytest.raises(ValueError, match="nothing judges operations of the kind 'inserts'; known are append, bulk"):
        kinds(History().add("inserts", {"collection": "c", "ids": ["a"]}, outcome))


# --- the report ---


def test_nothing_is_wrong() -> None:
    assert report([]) == "nothing is wrong"


def test_a_finding_names_its_operations() -> None:
    begun, ended = Begun(7, 2, "count", {"counter": "c"}, 1.5), Ended(7, "ok", {"value": 1}, 2)
    assert report([Finding("lost", "it is gone", (ended, begun)), Finding("stranger", "who is it")]) == (
        "lost: it is gone\n"
        '      1.500000  #7 process 2 begins count {"counter": "c"}\n'
        '      2.000000  #7 ended as ok {"value": 1}\n'
        "\n"
        "stranger: who is it"
    )


def test_a_finding_with_much_to_show_is_cut_short() -> None:
    entries = tuple(Begun(number, 0, "insert", {"ids": ["x" * 1000]}, number) for number in range(30))
    lines = report([Finding("lost", "much", entries)]).splitlines()
    assert lines[-1] == "  and 10 more entries"
    assert max(map(len, lines)) < 500
