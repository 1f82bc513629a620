"""Checks of arguments."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._api import validation
from motorlite.errors import InvalidName


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (validation.integer, True, TypeError),
        (validation.integer, 1.5, TypeError),
        (validation.count, -1, ValueError),
        (validation.positive, 0, ValueError),
        (validation.milliseconds, "1", TypeError),
        (validation.milliseconds, float("nan"), ValueError),
        (validation.milliseconds, -1, ValueError),
        (validation.server_milliseconds, float("inf"), ValueError),
        (validation.server_milliseconds, 2**63, ValueError),
        (validation.boolean, 1, TypeError),
        (validation.text, b"x", TypeError),
        (validation.mapping, [], TypeError),
        (validation.mappings, {}, TypeError),
        (validation.mappings, [1], TypeError),
    ],
)
def test_wrong_values(check: validation.Check, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"^x={value!r} is wrong: allowed is ".replace("[", r"\[")):
        validation.converted("x", value, check)


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (validation.anything, None, None),
        (validation.integer, -3, -3),
        (validation.count, 0, 0),
        (validation.positive, 1, 1),
        (validation.milliseconds, 1.5, 1.5),
        (validation.server_milliseconds, 1.5, 1),
        (validation.boolean, False, False),
        (validation.text, "x", "x"),
        (validation.mapping, {"a": 1}, {"a": 1}),
        (validation.mappings, ({"a": 1},), [{"a": 1}]),
    ],
)
def test_right_values(check: validation.Check, value: Any, result: Any) -> None:
    assert validation.converted("x", value, check) == result


def test_unknown_options_name_value_and_what_is_allowed() -> None:
    checks = {"limit": validation.count, "skip": validation.count}
    with pytest.raises(
        TypeError, match=r"find\(\) has no option limi=3; did you mean limit\? \(allowed: limit, skip\)"
    ):
        validation.checked("find", {"limi": 3}, checks)
    with pytest.raises(TypeError, match=r"no option zzz=3 \(allowed"):
        validation.checked("find", {"zzz": 3}, checks)


def test_none_is_not_given() -> None:
    assert validation.checked(
        "find", {"limit": None, "skip": 0}, {"limit": validation.count, "skip": validation.count}
    ) == {"skip": 0}


def test_instances() -> None:
    validation.instance("x", 3, int)
    with pytest.raises(TypeError, match=r"x='3' is wrong; allowed: an instance of int"):
        validation.instance("x", "3", int)
    with pytest.raises(TypeError, match="allowed: a number"):
        validation.instance("x", "3", int, "a number")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a$", "a\x00", "a/b", 'a"', "a\\b"])
def test_wrong_database_names(name: str) -> None:
    with pytest.raises(InvalidName):
        validation.database_name(name)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a$b", "a\x00"])
def test_wrong_collection_names(name: str) -> None:
    with pytest.raises(InvalidName):
        validation.collection_name(name)


@pytest.mark.parametrize("check", [validation.database_name, validation.collection_name])
def test_names_are_text(check: validation.Check) -> None:
    with pytest.raises(TypeError, match="name=3"):
        check(3)


def test_right_names() -> None:
    assert validation.database_name("$external") == "$external"
    assert validation.collection_name("a.b") == "a.b"
    assert validation.collection_name("oplog.$main") == "oplog.$main"
    assert validation.collection_name("$cmd.aggregate") == "$cmd.aggregate"
