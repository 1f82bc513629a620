from __future__ import annotations

from typing import Any

import pytest
from bson.dbref import DBRef

from motorlite._operations.client_bulk import ClientBulkResult, statement_of
from motorlite._operations.slices import all_at_once
from motorlite.errors import AutoReconnect, ProtocolError
from motorlite.operations import DeleteOne, InsertOne, UpdateOne

STATEMENTS = [
    statement_of(InsertOne({"_id": 7}, "d.c")),
    statement_of(UpdateOne({}, {"$set": {"x": 1}}, namespace="d.c")),
    statement_of(DeleteOne({}, namespace="d.e")),
    statement_of(InsertOne({"_id": 8}, "d.c")),
]
DUPLICATE = {"ok": 0, "idx": 0, "code": 11000, "errmsg": "duplicate"}


def result(*, is_ordered: bool = True, is_verbose: bool = False) -> ClientBulkResult:
    return ClientBulkResult(STATEMENTS, is_ordered=is_ordered, is_verbose=is_verbose)


def test_counts_of_all_batches() -> None:
    found = result()
    assert not found.has_observed
    found.merge({"nInserted": 1, "nMatched": 1, "nModified": 1, "nUpserted": 0, "nErrors": 0}, 2)
    found.merge({"nInserted": 1, "nDeleted": 1.0}, 2)
    assert found.has_observed
    assert found.error is None
    success = found.success()
    assert (success.inserted_count, success.matched_count, success.modified_count) == (2, 1, 1)
    assert (success.deleted_count, success.upserted_count) == (1, 0)
    assert not success.has_verbose_results


def test_single_results_have_positions_in_the_whole() -> None:
    found = result(is_verbose=True)
    found.merge({"nInserted": 1}, 1)
    all_at_once(found.take([{"ok": 1, "idx": 0, "n": 1}], 0, 1))
    found.check_complete()
    found.merge({"nUpserted": 1, "nDeleted": 3}, 2)
    upserted = {"_id": None}
    results: list[Any] = [
        {"ok": 1, "idx": 0, "n": 1, "nModified": 0, "upserted": upserted},
        {"ok": 1.0, "idx": 1, "n": 3},
    ]
    all_at_once(found.take(results, 1, 2))
    success = found.success()
    assert success.insert_results[0].inserted_id == 7
    assert success.delete_results[2].deleted_count == 3
    assert success.update_results[1].upserted_id is None
    assert success.update_results[1].did_upsert


def test_what_succeeded_before_an_error_that_was_not_read() -> None:
    """The counts come with the command, and its single results one by one, if the cursor does not fail."""
    for reply, results in (({"nMatched": 1}, []), ({"nMatched": 0}, [{"ok": 1, "idx": 0, "n": 0}])):
        found = result(is_verbose=True)
        found.merge({**reply, "nErrors": 1}, 2)
        all_at_once(found.take(results, 1, 2))
        error = found.interrupted(AutoReconnect("gone"))
        assert error.partial_result is not None
        assert error.partial_result.matched_count == reply["nMatched"]


def test_errors() -> None:
    found = result()
    found.merge({"nInserted": 1, "nErrors": 1}, 2)
    all_at_once(found.take([{**DUPLICATE, "idx": 1}], 2, 2))
    assert not found.can_continue
    error: Any = found.error
    assert error.write_errors == [{**DUPLICATE, "idx": 3, "op": {"insert": "d.c", "document": {"_id": 8}}}]
    assert error.partial_result.inserted_count == 1
    assert DUPLICATE["idx"] == 0, "listeners have the reply itself"


def test_errors_are_in_order() -> None:
    found = result(is_ordered=False)
    for index in (2, 0):
        found.merge({"nErrors": 1}, 1)
        all_at_once(found.take([DUPLICATE], index, 1))
    assert found.can_continue
    error: Any = found.error
    assert [each["idx"] for each in error.write_errors] == [0, 2]
    assert error.partial_result is None, "none is known to have succeeded"


@pytest.mark.parametrize(
    ("is_ordered", "failed", "position", "succeeded"),
    [(True, 1, 0, False), (True, 1, 1, True), (False, 2, 0, False), (False, 1, 0, True)],
)
def test_whether_anything_succeeded(is_ordered: bool, failed: int, position: int, succeeded: bool) -> None:
    found = result(is_ordered=is_ordered)
    found.merge({"nErrors": failed}, 2)
    all_at_once(found.take([{**DUPLICATE, "idx": position}], 0, 2))
    error: Any = found.error
    assert (error.partial_result is not None) is succeeded


def test_write_concern_errors_of_all_batches() -> None:
    found = result()
    found.merge({"writeConcernError": {"code": 64}}, 1)
    found.merge({"writeConcernError": {"code": 91}, "errorLabels": ["RetryableWriteError"]}, 1)
    error: Any = found.error
    assert error.write_concern_errors == [{"code": 64}, {"code": 91, "errorLabels": ["RetryableWriteError"]}]
    assert error.partial_result is not None


def test_an_error_between_two_batches() -> None:
    found = result()
    found.merge({"nInserted": 1}, 1)
    cause = AutoReconnect("lost")
    cause._add_error_label("RetryableWriteError")
    cause.address, cause.phase = ("a", 1), "reply"
    error = found.interrupted(cause)
    assert str(error.error) == str(cause)
    assert error.error is not cause, "a copy without its traceback"
    assert error.has_error_label("RetryableWriteError")
    assert (error.address, error.phase) == (("a", 1), "reply")
    assert error.partial_result is not None
    assert error.partial_result.inserted_count == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"ok": 1, "idx": 2, "n": 1},
        {"ok": 1, "idx": -1, "n": 1},
        {"ok": 1, "n": 1},
        {"ok": 1, "idx": 0},
        {"ok": 1, "idx": 1, "n": "1"},
        {"ok": 1, "idx": 1, "n": 1, "nModified": []},
        {"ok": 1, "idx": 1, "n": 1, "upserted": 5},
        {"ok": 1, "idx": 1, "n": 1, "upserted": {}},
        DBRef("c", 1),
    ],
)
def test_malformed_results(wrong: Any) -> None:
    found = result(is_verbose=True)
    found.merge({}, 2)
    with pytest.raises(ProtocolError):
        all_at_once(found.take([wrong], 0, 2))


def test_more_results_than_operations() -> None:
    found = result(is_verbose=True)
    found.merge({}, 2)
    with pytest.raises(ProtocolError, match="more than 2 results of 2 operations"):
        all_at_once(found.take([{"ok": 1, "idx": 0, "n": 1}] * 3, 0, 2))


def test_errors_that_are_missing() -> None:
    found = result()
    found.merge({"nErrors": 2}, 2)
    all_at_once(found.take([DUPLICATE], 0, 2))
    with pytest.raises(ProtocolError, match="1 of the errors that it counted"):
        found.check_complete()
