"""Options of queries, and filters with the modifiers of old servers."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._api.arguments.find_options import find_arguments, unwrapped
from motorlite.errors import InvalidOperation
from tests.support.fake_core import fake_client


def test_modifiers_are_options() -> None:
    query = {"a": 1}
    filter = {
        "$query": query,
        "$orderby": {"a": 1},
        "$hint": "a_1",
        "$min": {"a": 1},
        "$max": {"a": 5},
        "$maxTimeMS": 5,
        "$comment": "c",
        "$returnKey": True,
        "$showDiskLoc": True,
        "$readPreference": {"mode": "secondary"},
    }
    found, options = unwrapped(filter, {"hint": "b_1", "limit": 1})
    assert found is query
    assert options == {
        "sort": {"a": 1},
        "hint": "b_1",  # what the call says counts more
        "min": {"a": 1},
        "max": {"a": 5},
        "max_time_ms": 5,
        "comment": "c",
        "return_key": True,
        "show_record_id": True,
        "limit": 1,
    }


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ({"$query": {}, "$explain": True}, r"write find\(...\).explain\(\)"),
        ({"$query": {}, "$snapshot": True}, "filter must be one with .*orderby"),
        ({"$query": {}, "a": 1}, "filter must be one with .*orderby"),
        ({"$query": 5}, r"query must be a mapping.*, not 5"),
    ],
)
def test_other_modifiers(filter: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        unwrapped(filter, {})


@pytest.mark.parametrize("bound", ["min", "max"])
def test_bounds_need_a_hint(bound: str) -> None:
    settings = fake_client()[0].db.coll._settings
    assert find_arguments(settings, {bound: {"a": 1}, "hint": "a_1"})[bound] == {"a": 1}
    with pytest.raises(InvalidOperation, match="min and max need a hint"):
        find_arguments(settings, {bound: {"a": 1}})
