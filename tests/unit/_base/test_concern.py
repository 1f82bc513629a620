"""Read and write concerns are immutable values that check their arguments."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.read_concern import DEFAULT_READ_CONCERN, ReadConcern
from motorlite.write_concern import DEFAULT_WRITE_CONCERN, WriteConcern


def test_the_document_is_made_once() -> None:
    assert DEFAULT_READ_CONCERN.document == DEFAULT_WRITE_CONCERN.document == {}
    assert DEFAULT_READ_CONCERN.is_server_default
    assert DEFAULT_WRITE_CONCERN.is_server_default
    concern = WriteConcern(w="majority", wtimeout=5, j=True, fsync=False)
    assert concern.document == {"w": "majority", "wtimeout": 5, "j": True, "fsync": False}
    assert concern.document is concern.document
    assert not concern.is_server_default
    assert [WriteConcern(w).acknowledged for w in (None, 0, 1, "majority")] == [True, False, True, True]


@pytest.mark.parametrize(
    ("level", "ok_for_legacy"), [(None, True), ("local", True), ("majority", False), ("later", False)]
)
def test_read_concern_levels(level: str | None, ok_for_legacy: bool) -> None:
    concern = ReadConcern(level)
    assert concern.level == level
    assert concern.ok_for_legacy is ok_for_legacy
    assert concern.document == ({"level": level} if level else {})


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "text"),
    [
        (WriteConcern, {"w": 1.5}, TypeError, "w must be a non-negative integer or a string, not 1.5"),
        (WriteConcern, {"w": True}, TypeError, "not True"),
        (WriteConcern, {"w": -1}, ValueError, "not -1"),
        (WriteConcern, {"wtimeout": "5"}, TypeError, "wtimeout must be"),
        (WriteConcern, {"wtimeout": -5}, ValueError, "wtimeout must be"),
        (WriteConcern, {"j": 1}, TypeError, "j must be True or False, not 1"),
        (WriteConcern, {"fsync": "yes"}, TypeError, "fsync must be True or False"),
        (WriteConcern, {"j": True, "fsync": True}, ConfigurationError, "j=True and fsync=True"),
        (WriteConcern, {"w": 0, "j": True}, ConfigurationError, "w=0"),
        (ReadConcern, {"level": 1}, TypeError, "level must be a string or None, not 1"),
    ],
)
def test_wrong_arguments(kind: type[Any], arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        kind(**arguments)


def test_they_are_values() -> None:
    values = [ReadConcern(), ReadConcern("local"), WriteConcern(), WriteConcern(0), WriteConcern(2, 5)]
    for position, value in enumerate(values):
        restored = pickle.loads(pickle.dumps(value))
        # Those of both classes without arguments are empty documents, but not the same thing.
        assert [restored == other for other in values] == [index == position for index in range(len(values))]
        assert hash(restored) == hash(value)
        assert restored.document == value.document
    assert WriteConcern(1) != {"w": 1}
