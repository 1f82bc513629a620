"""Public tests of the options in connection strings."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.uri import parse_uri
from tests.support.specifications import load

SUITE = "uri-options/tests"

# Options of drivers that motorlite cannot be: they are unknown here, which warns. The specification requires
# this one of single-threaded drivers only.
NOT_OURS = {"serverSelectionTryOnce"}

CASES = [
    pytest.param(test, id=f"{name}: {test['description']}")
    for name, content in load(SUITE)
    for test in content["tests"]
]


@pytest.mark.parametrize("test", CASES)
def test_uri_options(test: dict[str, Any]) -> None:
    if not test["valid"]:
        with pytest.raises(ConfigurationError):
            parse_uri(test["uri"])
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parsed = parse_uri(test["uri"])
    expected = {name: value for name, value in (test["options"] or {}).items() if name not in NOT_OURS}
    is_foreign = len(expected) < len(test["options"] or {})
    assert bool(caught) is (test["warning"] or is_foreign), [str(warning.message) for warning in caught]
    for name, value in expected.items():
        assert parsed.options[name] == value
