"""Nothing is left lying about: every option is read somewhere, and every event is made somewhere.

A rule is a function from names and sources to the names that are left over; each has a self-test below.
"""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from motorlite import monitoring
from motorlite.client_options import ClientOptions
from tests.support.syntax import nodes
from tests.unit._api.event_samples import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parents[1] / "motorlite"
# Options that only `_options` reads, and why.
UNREAD: Final = {
    "max_adaptive_retries": "part of overload_policy",
    "enable_overload_retargeting": "part of overload_policy",
    "explicit": "part of pool_options",
    "connect": "without effect, for programs written for PyMongo",
}


def sources(*, outside: str) -> list[str]:
    """The driver's modules, without those of one layer and of the doctor, which judges options that have no effect."""
    left_out = {outside, "doctor"}
    paths = (path for path in ROOT.rglob("*.py") if left_out.isdisjoint(path.relative_to(ROOT).parts))
    return [path.read_text(encoding="utf-8") for path in paths]


def unread(fields: Iterable[str], modules: Iterable[str]) -> set[str]:
    """The fields that no module reads from what it calls options: ``options.field``, ``self.options.field``..."""
    left = set(fields)
    for module in modules:
        for node in nodes(module):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and _last_name(node.value).endswith("options")
            ):
                left.discard(node.attr)
    return left


def unmade(classes: Iterable[str], modules: Iterable[str]) -> set[str]:
    """The classes that no module calls."""
    left = set(classes)
    for module in modules:
        left -= {_last_name(node.func) for node in nodes(module) if isinstance(node, ast.Call)}
    return left


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_every_option_is_read() -> None:
    fields = [field.name for field in dataclasses.fields(ClientOptions)]
    assert len(fields) > 40
    assert unread(fields, sources(outside="_options")) == UNREAD.keys()


def test_every_event_is_published() -> None:
    classes = {kind.__name__ for kind in kinds()}
    assert classes <= vars(monitoring).keys()
    assert unmade(classes, sources(outside="_events")) == set()


@pytest.mark.parametrize(
    ("source", "is_caught"),
    [
        ("def f(options): return options.max_pool_size", False),
        ("pool = Pool(self._core.options.max_pool_size)", False),
        ("limit = pool_options.max_pool_size + 1", False),
        ("options.min_pool_size", True),
        ("pool.max_pool_size", True),
        ("options.max_pool_size = 5", True),
        ("max_pool_size = 5", True),
        ("'options.max_pool_size'", True),
    ],
)
def test_an_unread_option_is_found(source: str, is_caught: bool) -> None:
    assert bool(unread(["max_pool_size"], ["x = 1", source])) is is_caught


@pytest.mark.parametrize(
    ("source", "is_caught"),
    [
        ("publish(PoolReadyEvent(address))", False),
        ("publish(events.PoolReadyEvent(address))", False),
        ("HANDLERS = {events.PoolReadyEvent: 'pool_ready'}", True),
        ("isinstance(event, PoolReadyEvent)", True),
        ("PoolReadyEvent.__name__", True),
        ("publish(PoolClosedEvent(address))", True),
    ],
)
def test_an_event_that_is_not_made_is_found(source: str, is_caught: bool) -> None:
    assert bool(unmade(["PoolReadyEvent"], ["x = 1", source])) is is_caught
