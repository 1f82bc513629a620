from __future__ import annotations

import pytest

from motorlite._operations.indexes import CreateIndexes
from motorlite.errors import ConfigurationError, WriteConcernError
from motorlite.operations import IndexModel
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, sent

INDEXES = [IndexModel("a").document, IndexModel([("b", -1)], name="by_b", unique=True).document]


def test_the_command() -> None:
    assert sent(CreateIndexes("db", "coll", INDEXES)) == {
        "createIndexes": "coll",
        "indexes": [{"name": "a_1", "key": {"a": 1}}, {"name": "by_b", "unique": True, "key": {"b": -1}}],
    }
    operation = CreateIndexes(
        "db",
        "coll",
        INDEXES,
        commit_quorum="votingMembers",
        comment="c",
        max_time_ms=9,
        options={"serverOption": 1},
        write_concern=WriteConcern("majority"),
    )
    assert sent(operation, V4_4) == {
        "createIndexes": "coll",
        "indexes": INDEXES,
        "serverOption": 1,
        "commitQuorum": "votingMembers",
        "comment": "c",
        "maxTimeMS": 9,
        "writeConcern": {"w": "majority"},
    }


@pytest.mark.parametrize("options", [{"commit_quorum": 1}, {"options": {"commitQuorum": 1}}])
def test_commit_quorum_needs_4_4(options: dict[str, object]) -> None:
    operation = CreateIndexes("db", "coll", INDEXES, **options)  # type: ignore[arg-type]  # one dict for both
    with pytest.raises(ConfigurationError, match=r"commitQuorum needs MongoDB 4\.4 \(wire version 9\)"):
        operation.command(V4_2)


def test_the_reply() -> None:
    operation = CreateIndexes("db", "coll", INDEXES)
    assert operation.parse({"numIndexesAfter": 3, "ok": 1}) == ["a_1", "by_b"]
    assert operation.unacknowledged() == ["a_1", "by_b"]
    with pytest.raises(WriteConcernError):
        operation.parse({"writeConcernError": {"code": 64, "errmsg": "slow"}, "ok": 1})


def test_no_indexes() -> None:
    with pytest.raises(ValueError, match="the list of indexes must not be empty"):
        CreateIndexes("db", "coll", [])
