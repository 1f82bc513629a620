"""Collations check their arguments and become the document that commands carry."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from motorlite import Collation, collation


def test_only_what_was_set_is_in_the_document() -> None:
    assert Collation("simple").document == {"locale": "simple"}
    made = Collation(
        "fr",
        caseLevel=False,
        caseFirst=collation.CollationCaseFirst.UPPER,
        strength=collation.CollationStrength.SECONDARY,
        numericOrdering=True,
        alternate=collation.CollationAlternate.SHIFTED,
        maxVariable=collation.CollationMaxVariable.SPACE,
        normalization=True,
        backwards=True,
        version="57.1",
    )
    assert made.document == {
        "locale": "fr",
        "caseLevel": False,
        "caseFirst": "upper",
        "strength": 2,
        "numericOrdering": True,
        "alternate": "shifted",
        "maxVariable": "space",
        "normalization": True,
        "backwards": True,
        "version": "57.1",
    }
    made.document.clear()
    assert made.document["locale"] == "fr"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"locale": 1}, r"locale must be a string, not "),
        ({"locale": "en", "caseLevel": 1}, "caseLevel must be True or False, not 1"),
        ({"locale": "en", "strength": True}, "strength must be an integer, not True"),
        ({"locale": "en", "alternate": 5}, r"alternate must be a string, not "),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Collation(**arguments)


def test_it_is_a_value() -> None:
    made = Collation("en", strength=2)
    assert made == Collation(locale="en", strength=2) != Collation("en")
    assert made != made.document
    assert repr(made) == "Collation(locale='en', strength=2)"
    for restored in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert restored == made
