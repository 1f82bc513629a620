"""The table of commands in docs/timeouts.md says what the operations declare."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from motorlite._base.values import ServerFacts
from motorlite._execution import building
from motorlite._operations.contract import TimeLimit
from tests.unit._operations.facts_table import TABLE

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "timeouts.md").read_text(encoding="utf-8")
ROWS: Final = re.findall(r"^\| `(\w+)` \| (yes|no) \| (.*?) *\| (.*?) *\| (.*?) *\|$", DOCUMENT, re.MULTILINE)
MONGOD: Final = ServerFacts(("a", 1), max_wire_version=9)
MONGOS_5_0: Final = ServerFacts(("a", 1), max_wire_version=13, is_mongos=True)
MONGOS_4_4: Final = ServerFacts(("a", 1), max_wire_version=9, is_mongos=True)


def test_the_table_is_there() -> None:
    names = {name for name, *_ in ROWS}
    assert {"find", "findAndModify", "aggregate", "count", "distinct", "insert", "update", "delete"} <= names


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row(row: tuple[str, ...]) -> None:
    name, is_sent, *servers = row
    operations = [fact.operation for fact in TABLE if fact.name == name]
    assert operations
    assert {operation.time_limit is TimeLimit.SEND for operation in operations} == {is_sent == "yes"}
    for facts, said in zip((MONGOD, MONGOS_5_0, MONGOS_4_4), servers, strict=True):
        if is_sent == "yes":
            is_enforced = building.server_limit({name: 1, "maxTimeMS": 5}, facts) is not None
            assert said == ("enforced" if is_enforced else "ignored")
