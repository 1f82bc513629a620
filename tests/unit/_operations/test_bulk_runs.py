from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._operations.bulk import BulkRun, insert_run, ordered_runs, unordered_runs
from motorlite._operations.slices import all_at_once
from motorlite.errors import InvalidOperation
from motorlite.operations import DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUESTS = [
    InsertOne({"_id": 0}),
    InsertOne({"_id": 1}),
    UpdateOne({}, {"$set": {"x": 2}}),
    ReplaceOne({}, {"x": 3}),
    InsertOne({"_id": 4}),
    DeleteOne({}),
    UpdateMany({}, {"$set": {"x": 6}}),
]


def described(runs: list[BulkRun]) -> list[tuple[str, list[int]]]:
    return [(run.kind, list(run.indexes)) for run in runs]


def test_ordered() -> None:
    runs = all_at_once(ordered_runs(REQUESTS))
    assert described(runs) == [
        ("insert", [0, 1]),
        ("update", [2, 3]),
        ("insert", [4]),
        ("delete", [5]),
        ("update", [6]),
    ]
    assert runs[0].statements == [{"_id": 0}, {"_id": 1}]
    assert runs[4].statements == [{"q": {}, "u": {"$set": {"x": 6}}, "multi": True}]


def test_unordered() -> None:
    runs = all_at_once(unordered_runs(REQUESTS))
    assert described(runs) == [("insert", [0, 1, 4]), ("update", [2, 3, 6]), ("delete", [5])]
    assert runs[0].statements[2] == {"_id": 4}


def test_unordered_without_some_kinds() -> None:
    assert described(all_at_once(unordered_runs(REQUESTS[5:6]))) == [("delete", [0])]


def test_insert_many() -> None:
    documents = [{"_id": 1}, {"_id": 2}]
    run = insert_run(documents)
    assert run.kind == "insert"
    assert run.statements is documents
    assert list(run.indexes) == [0, 1]


def test_nothing_to_do() -> None:
    with pytest.raises(InvalidOperation, match="at least one request"):
        all_at_once(ordered_runs([]))
    with pytest.raises(InvalidOperation, match="at least one request"):
        all_at_once(unordered_runs(iter(())))
    with pytest.raises(TypeError, match="at least one document"):
        insert_run([])


def test_what_is_not_a_request() -> None:
    for group in (ordered_runs, unordered_runs):
        with pytest.raises(TypeError, match=r"^requests\[1\]: a write request must be .*, not {'insert': 1}"):
            all_at_once(group([InsertOne({}), {"insert": 1}]))


def test_errors_of_the_application_are_left_alone() -> None:
    class Odd(dict[str, object]):
        def __iter__(self) -> Iterator[str]:
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "odd")

    with pytest.raises(UnicodeDecodeError, match="odd"):
        all_at_once(ordered_runs([UpdateOne({}, Odd(a=1))]))


@given(st.lists(st.sampled_from(REQUESTS)))
def test_every_request_is_in_one_place(requests: list[Any]) -> None:
    if not requests:
        return
    ordered, unordered = all_at_once(ordered_runs(requests)), all_at_once(unordered_runs(requests))
    assert [index for run in ordered for index in run.indexes] == list(range(len(requests)))
    assert sorted(index for run in unordered for index in run.indexes) == list(range(len(requests)))
    assert all(one.kind != other.kind for one, other in pairwise(ordered))
    assert len({run.kind for run in unordered}) == len(unordered)
    for run in (*ordered, *unordered):
        assert list(run.indexes) == sorted(run.indexes)
        assert len(run.indexes) == len(run.statements)
