"""Read and write concerns are immutable values that check their arguments."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.read_concern import DEFAULT_READ_CONCERN, ReadConcern
from motorlite.write_concern import DEFAULT_WRITE_CONCERN, WriteConcern


def test_the_defaults_send_nothing() -> None:
    assert DEFAULT_READ_CONCERN.document == {}
    assert DEFAULT_READ_CONCERN.is_server_default
    assert DEFAULT_WRITE_CONCERN.document == {}
    assert DEFAULT_WRITE_CONCERN.is_server_default
    assert DEFAULT_WRITE_CONCERN.acknowledged


def test_the_document_is_made_once() -> None:
    concern = WriteConcern(w="majority", wtimeout=5, j=True, fsync=False)
    assert concern.document == {"w": "majority", "wtimeout": 5, "j": True, "fsync": False}
    assert concern.document is concern.document
    assert not concern.is_server_default


@pytest.mark.parametrize(
    ("level", "ok_for_legacy"), [(None, True), ("local", True), ("majority", False), ("later", False)]
)
def test_read_concern_levels(level: str | None, ok_for_legacy: bool) -> None:
    concern = ReadConcern(level)
    assert concern.level == level
    assert concern.ok_for_legacy is ok_for_legacy
    assert concern.document == ({"level": level} if level else {})


@pytest.mark.parametrize(("w", "acknowledged"), [(None, True), (0, False), (1, True), ("majority", True)])
def test_acknowledged(w: int | str | None, acknowledged: bool) -> None:
    assert WriteConcern(w).acknowledged is acknowledged


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"w": 1.5}, TypeError, "w must be a non-negative integer or a string, not 1.5"),
        ({"w": True}, TypeError, "not True"),
        ({"w": -1}, ValueError, "not -1"),
        ({"wtimeout": "5"}, TypeError, "wtimeout must be"),
        ({"wtimeout": -5}, ValueError, "wtimeout must be"),
        ({"j": 1}, TypeError, "j must be True or False, not 1"),
        ({"fsync": "yes"}, TypeError, "fsync must be True or False"),
        ({"j": True, "fsync": True}, ConfigurationError, "j=True and fsync=True"),
        ({"w": 0, "j": True}, ConfigurationError, "w=0"),
    ],
)
def test_wrong_write_concerns(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        WriteConcern(**arguments)


def test_wrong_read_concern() -> None:
    level: Any = 1
    with pytest.raises(TypeError, match="level must be a string or None, not 1"):
        ReadConcern(level)


def test_equality() -> None:
    assert WriteConcern(1) == WriteConcern(1)
    assert hash(WriteConcern(1, j=True)) == hash(WriteConcern(1, j=True))
    assert WriteConcern(1) != WriteConcern(2)
    assert ReadConcern("local") == ReadConcern("local")
    assert ReadConcern("local") != ReadConcern()
    # Both are empty documents, but not the same thing.
    assert ReadConcern() != WriteConcern()
    assert WriteConcern(1) != {"w": 1}


def test_repr() -> None:
    assert repr(WriteConcern("majority", j=True)) == "WriteConcern(w='majority', j=True)"
    assert repr(ReadConcern("local")) == "ReadConcern(level='local')"
    assert repr(ReadConcern()) == "ReadConcern()"


@pytest.mark.parametrize("concern", [ReadConcern("local"), ReadConcern(), WriteConcern(0), WriteConcern(2, 5)])
def test_pickle(concern: ReadConcern | WriteConcern) -> None:
    restored = pickle.loads(pickle.dumps(concern))
    assert restored == concern
    assert restored.document == concern.document
