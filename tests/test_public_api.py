"""The public API is PyMongo's, but for the table in `public_api.toml`."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pytest

from tests.support import public_api
from tests.support.public_api import Difference, Table, compared, differences, read_table, their_modules

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = read_table()
DIFFERENCES = differences(TABLE)


def test_every_difference_has_a_reason() -> None:
    assert TABLE.unexplained(DIFFERENCES) == []


def test_every_reason_explains_a_difference() -> None:
    assert TABLE.superfluous(DIFFERENCES) == []


def test_every_module_of_pymongo_is_compared_or_has_a_reason() -> None:
    named = {*TABLE.modules, *TABLE.not_compared}
    found = set(their_modules())
    assert sorted(found - named) == []
    assert sorted(named - found) == []
    assert not TABLE.not_compared & set(TABLE.modules)


# --- the comparison notices what it should ---


class Theirs:
    kept = 1
    lost = 2

    def __init__(self, first: int, second: int = 0) -> None:
        self.attribute = first

    def method(self, first: int, second: str = "a", *, third: bool = False) -> None: ...

    async def awaited(self) -> None: ...

    @property
    def value(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index


class Options(TypedDict, total=False):
    second: str
    third: bool


class Same(Theirs):
    pass


class WithOptions(Theirs):
    async def awaited(self, more: int = 0) -> None: ...


class Base:
    """What each of the classes below has in common with `Theirs`, or has instead."""

    kept = 1
    lost = 2

    def __init__(self, first: int, second: int = 0) -> None: ...

    def method(self, first: int, second: str = "a", *, third: bool = False) -> None: ...

    async def awaited(self) -> None: ...

    @property
    def value(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index


def changed(name: str, value: Any) -> type:
    return type("Ours", (Base,), {name: value})


def without(name: str) -> type:
    return type("Ours", (), {key: value for key, value in vars(Base).items() if key != name and key != "__dict__"})


def no_second(self: object, first: int, *, third: bool = False) -> None: ...
def keyword_only(self: object, first: int, *, second: str = "a", third: bool = False) -> None: ...
def swapped(self: object, second: str = "a", first: int = 0, *, third: bool = False) -> None: ...
def other_default(self: object, first: int, second: str = "b", *, third: bool = False) -> None: ...
def no_default(self: object, first: int, second: str, *, third: bool = False) -> None: ...
def one_more(self: object, first: int, second: str = "a", *, third: bool = False, fourth: int) -> None: ...
def harmless(self: object, first: int, second: str = "a", fourth: int = 1, *, third: bool = False) -> None: ...
def anything(self: object, first: int, second: str = "a", **options: Any) -> None: ...
async def waits(self: object, first: int, second: str = "a", *, third: bool = False) -> None: ...
def does_not_wait(self: object) -> None: ...


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (Same, []),
        (WithOptions, []),
        (changed("method", harmless), []),
        (changed("method", anything), []),
        (without("lost"), ["Theirs.lost: is missing"]),
        (without("__getitem__"), ["Theirs.__getitem__: is missing"]),
        (changed("kept", 3), ["Theirs.kept: is 3, not 1"]),
        (changed("method", 3), ["Theirs.method: is not a method"]),
        (changed("method", no_second), ["Theirs.method(second): is missing"]),
        (changed("method", keyword_only), ["Theirs.method(second): is not positional, or elsewhere"]),
        (changed("method", other_default), ["Theirs.method(second): is 'b' by default, not 'a'"]),
        (changed("method", no_default), ["Theirs.method(second): has no default"]),
        (changed("method", one_more), ["Theirs.method(fourth): must be passed, but is unknown to PyMongo"]),
        (changed("method", waits), ["Theirs.method: is awaited in one of them only"]),
        (changed("awaited", does_not_wait), ["Theirs.awaited: is awaited in one of them only"]),
        (changed("value", harmless), ["Theirs.value: is a method, not a property"]),
        (
            changed("method", swapped),
            [
                "Theirs.method(first): is not positional, or elsewhere",
                "Theirs.method(second): is not positional, or elsewhere",
            ],
        ),
        (changed("__init__", does_not_wait), ["Theirs(first): is missing", "Theirs(second): is missing"]),
    ],
)
def test_a_difference_of_classes_is_found(ours: type, expected: list[str]) -> None:
    assert [str(each) for each in compared("module.Theirs", Theirs, ours)] == expected


def test_unpacked_options_are_keyword_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(first: int, second: str = "a", third: bool = False) -> None: ...

    def ours(first: int, **options: Unpack[Options]) -> None: ...

    monkeypatch.setattr("motorlite._api.arguments.method_options.Options", Options, raising=False)
    found = [str(each) for each in compared("f", theirs, ours)]
    assert found == ["f(second): is not positional, or elsewhere", "f(third): is not positional, or elsewhere"]


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ("a", "a", []),
        ("a", "b", ["x: is 'b', not 'a'"]),
        (1, "1", ["x: is of type str, not int"]),
        (KeyError, LookupError, ["KeyError: is not a KeyError"]),
        (Enum("Theirs", {"a": 1, "b": 2}), Enum("Ours", {"a": 1, "b": 2}), []),
        (Enum("Theirs", {"a": 1}), Enum("Ours", {"a": 3}), ["Theirs.a: has another value"]),
        (Enum("Theirs", {"a": 1, "b": 2}), Enum("Ours", {"a": 1}), ["Theirs.b: is missing"]),
    ],
)
def test_a_difference_of_values_is_found(theirs: Any, ours: Any, expected: list[str]) -> None:
    assert [str(each) for each in compared("x", theirs, ours)] == expected


def test_missing_modules_names_and_options_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_api, "VALIDATORS", {"maxPoolSize": None, "no_such_option": None})
    content: dict[str, Any] = {
        "modules": {"pymongo.errors": "motorlite.results", "pymongo.results": "motorlite.none"},
        "not_compared": {},
        "different": {"a reason": ["pymongo.errors.*"]},
        "not_yet": {"being built": ["option no_such_option", "AsyncCollection.[x]", "option maxpoolsize"]},
    }
    table = Table(content)
    found = differences(table)
    assert Difference("pymongo.errors.PyMongoError", "is missing") in found
    assert found[-2:] == [
        Difference("pymongo.results", "there is no module motorlite.none"),
        Difference("option no_such_option", "is missing"),
    ]
    assert table.unexplained(found) == ["pymongo.results: there is no module motorlite.none"]
    # What is "not yet" and exists already, or does not exist at all, is superfluous.
    assert table.superfluous(found) == ["AsyncCollection.[[]x]", "option maxpoolsize"]


def test_the_comparison_reads_constructors_of_every_kind() -> None:
    class Slots:
        __slots__ = ("declared",)

        def __init__(self) -> None:
            self.declared = 1

    class Attributes:
        annotated: int

        def __init__(self) -> None:
            self.attribute = 1

    assert public_api.attributes_set(Slots) >= {"declared"}
    assert public_api.attributes_set(Attributes) >= {"annotated", "attribute"}
    read: Callable[..., Any] = public_api.parameters
    assert list(read(inspect.unwrap(Theirs.method))) == ["first", "second", "third"]
