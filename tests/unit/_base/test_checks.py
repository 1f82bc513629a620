"""Checks of arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson import ObjectId

from motorlite._base import arguments


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (arguments.integer, True, TypeError),
        (arguments.integer, 1.5, TypeError),
        (arguments.count, -1, ValueError),
        (arguments.positive, 0, ValueError),
        (arguments.milliseconds, "1", TypeError),
        (arguments.milliseconds, float("nan"), ValueError),
        (arguments.milliseconds, -1, ValueError),
        (arguments.server_milliseconds, float("inf"), ValueError),
        (arguments.server_milliseconds, 2**63, ValueError),
        (arguments.boolean, 1, TypeError),
        (arguments.text, b"x", TypeError),
        (arguments.mapping, [], TypeError),
        (arguments.mappings, {}, TypeError),
        (arguments.mappings, [1], TypeError),
    ],
)
def test_wrong_values(check: arguments.Check, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^x must be .*, not {re.escape(repr(value))}"):
        arguments.converted("x", value, check)


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (arguments.anything, None, None),
        (arguments.integer, -3, -3),
        (arguments.count, 0, 0),
        (arguments.positive, 1, 1),
        (arguments.milliseconds, 1.5, 1.5),
        (arguments.server_milliseconds, 1.5, 1),
        (arguments.boolean, False, False),
        (arguments.text, "x", "x"),
        (arguments.mapping, {"a": 1}, {"a": 1}),
        (arguments.mappings, ({"a": 1},), [{"a": 1}]),
    ],
)
def test_right_values(check: arguments.Check, value: Any, result: Any) -> None:
    assert arguments.converted("x", value, check) == result


def test_unknown_options_name_value_and_what_is_allowed() -> None:
    checks = {"limit": arguments.count, "skip": arguments.count}
    with pytest.raises(TypeError, match=r"find\(\) has no option limi=3; did you mean limit\?$"):
        arguments.checked("find", {"limi": 3}, checks)
    with pytest.raises(TypeError, match=r"no option zzz=3 \(allowed: limit, skip\)"):
        arguments.checked("find", {"zzz": 3}, checks)


def test_parameters_of_the_method_are_options_too() -> None:
    def insert_one(self: object, document: object, *, by_name: int = 0, **options: Any) -> None:
        def check_later() -> None:
            arguments.checked("insert_one", options, {"limit": arguments.count})

        check_later()

    with pytest.raises(TypeError, match=r"no option byName=1; did you mean by_name\?$"):
        insert_one(None, {}, byName=1)
    with pytest.raises(TypeError, match=r"no option zzz=1 \(allowed: by_name, document, limit\)$"):
        insert_one(None, {}, zzz=1)


def test_what_a_name_is_similar_to() -> None:
    assert arguments.similar("maxPoolSize", ["max_pool_size", "min_pool_size"]) == "max_pool_size"
    assert arguments.similar("zzz", ["a", "b"]) is None


def test_a_forgotten_await_is_named() -> None:
    async def found() -> int:
        return 5

    coroutine = found()
    with pytest.raises(TypeError, match=r"limit must be an integer, not <coroutine .*>; await it first$"):
        arguments.converted("limit", coroutine, arguments.integer)
    coroutine.close()

    class Cursor:
        async def __anext__(self) -> int:
            return 5

    with pytest.raises(TypeError, match=r"; read it first, as with `await cursor\.to_list\(\)`$"):
        arguments.converted("documents", Cursor(), arguments.mappings)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("65f1c7f6c2a4f1f6c2a4f1f6", r"write {'_id': ObjectId\('65f1c7f6c2a4f1f6c2a4f1f6'\)}$"),
        (ObjectId("65f1c7f6c2a4f1f6c2a4f1f6"), r"write {'_id': ObjectId\('65f1c7f6c2a4f1f6c2a4f1f6'\)}$"),
        ([("a", 1)], r"write dict\(\.\.\.\) around it$"),
        ("x", "not 'x'$"),
        ([], r"not \[\]$"),
    ],
)
def test_what_was_meant_instead_of_a_mapping(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        arguments.converted("filter", value, arguments.mapping)
    with pytest.raises(TypeError, match=message):
        arguments.check_mapping("filter", value)


def test_none_is_not_given() -> None:
    assert arguments.checked(
        "find", {"limit": None, "skip": 0}, {"limit": arguments.count, "skip": arguments.count}
    ) == {"skip": 0}


def test_instances() -> None:
    arguments.instance("x", 3, int)
    with pytest.raises(TypeError, match=r"x must be an instance of int, not '3'"):
        arguments.instance("x", "3", int)
    with pytest.raises(TypeError, match="x must be a number, not '3'"):
        arguments.instance("x", "3", int, "a number")
