"""Each option of a method has a check, or is one of those that are checked elsewhere."""

from __future__ import annotations

from typing import is_typeddict

from motorlite._api.arguments import method_options
from motorlite._api.arguments.checks import _CHECKS, checks_of
from motorlite._api.arguments.find_options import FIND_CHECKS, FIND_ONE_CHECKS, FindOneOptions, FindOptions
from motorlite._base.arguments import anything

# By BSON (the server knows the types of the others), and where they are used.
UNCHECKED = {"comment", "clusteredIndex", "size"} | {"session", "timeoutMode"}
FAMILIES = [kind for kind in vars(method_options).values() if is_typeddict(kind)]


def test_all_options_of_methods_are_checked() -> None:
    names = {name for kind in FAMILIES for name in checks_of(kind)}
    assert names == {name for kind in FAMILIES for name in kind.__annotations__}
    assert names - _CHECKS.keys() == UNCHECKED
    assert _CHECKS.keys() - names == set()


def test_all_options_of_queries_are_checked() -> None:
    assert FIND_CHECKS.keys() == FindOptions.__annotations__.keys() | FindOneOptions.__annotations__.keys()
    assert FIND_ONE_CHECKS.keys() == FindOneOptions.__annotations__.keys()
    assert {name for name, check in FIND_CHECKS.items() if check is anything} == UNCHECKED & FIND_CHECKS.keys()
