"""Motor's API is motorlite's, but for the table in `motor_api.toml`."""

from __future__ import annotations

from tests.support.motor_api import differences, motors_classes, public_paths, read_table
from tests.support.public_api import Difference

TABLE = read_table()
DIFFERENCES = differences(TABLE)


def test_every_difference_has_a_row() -> None:
    assert TABLE.unexplained(DIFFERENCES) == []


def test_every_row_explains_a_difference() -> None:
    assert TABLE.superfluous(DIFFERENCES) == []


def test_every_class_of_motor_is_compared_or_has_a_reason() -> None:
    known = {path for path, _ in motors_classes(TABLE)}
    assert len(known) > 40
    assert sorted(set(public_paths()) - known - TABLE.missing.keys()) == []


def test_the_comparison_sees_what_motor_does_without_await() -> None:
    assert Difference("Client.close", "is awaited") in DIFFERENCES
    assert Difference("GridOut.seek", "is awaited") in DIFFERENCES
    assert Difference("Cursor.fetch_next", "is missing") in DIFFERENCES
    # Both are awaited, or may be.
    found = {each.where for each in DIFFERENCES}
    assert not found & {
        "Client.start_session",
        "Client.list_databases",
        "Collection.insert_one",
        "Collection.aggregate",
    }
