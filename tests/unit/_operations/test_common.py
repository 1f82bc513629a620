from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import motorlite._operations
from motorlite._base.wire_versions import release
from motorlite._execution.operation import Kind, Operation
from motorlite._operations.common import AdministrativeWrite, check_needs
from motorlite._operations.writes.single_write import SingleWrite
from motorlite.errors import ConfigurationError
from tests.unit._operations.servers import V4_4, V5_0, server


@pytest.mark.parametrize(
    ("wire_version", "expected"),
    [(-1, "older than 2.4"), (7, "4.0"), (8, "4.2"), (9, "4.4"), (12, "4.4"), (13, "5.0"), (17, "6.0"), (99, "8.0")],
)
def test_release(wire_version: int, expected: str) -> None:
    assert release(wire_version) == expected


def test_needs() -> None:
    check_needs((("a", 9), ("b", 13)), V5_0)
    with pytest.raises(ConfigurationError) as caught:
        check_needs((("a", 9), ("b", 13)), V4_4)
    assert str(caught.value) == (
        "b needs MongoDB 5.0 (wire version 13), but db1.test:27017 is MongoDB 4.4 (wire version 9)"
    )
    check_needs((), server(0))


def operation_classes() -> list[type[Operation[Any]]]:
    classes = set()
    for module in pkgutil.walk_packages(motorlite._operations.__path__, "motorlite._operations."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(member, Operation) and member is not Operation:
                classes.add(member)
    return sorted(classes, key=lambda member: member.__name__)


@pytest.mark.parametrize("operation", operation_classes(), ids=lambda operation: operation.__name__)
def test_every_class_says_how_it_is_retried(operation: type[Operation[Any]]) -> None:
    _, found, text = (operation.__doc__ or "").partition("Retry: ")
    assert found, "the docstring has no line that begins with 'Retry: '"
    text = " ".join(text.split())
    # What is retryable per instance has a slot in its own class.
    can_retry = operation.is_retryable is not False
    if not can_retry:
        assert text.startswith("never by the retryable")
        role = {Kind.READ: "as a read", Kind.WRITE: "as a write", Kind.COMMAND: "needs retryReads"}[operation.kind]
        assert role in text
    else:
        assert text.startswith(f"retryable {operation.kind.value}")


@pytest.mark.parametrize("operation", operation_classes(), ids=lambda operation: operation.__name__)
def test_no_instance_has_a_dictionary(operation: type[Operation[Any]]) -> None:
    assert "__slots__" in vars(operation)


def test_every_command_is_there() -> None:
    # That of a user's command is known per instance only.
    names = {operation.name for operation in operation_classes() if isinstance(getattr(operation, "name", None), str)}
    assert names == {
        "aggregate",
        "count",
        "create",
        "createIndexes",
        "createSearchIndexes",
        "delete",
        "distinct",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "dropSearchIndex",
        "endSessions",
        "explain",
        "find",
        "findAndModify",
        "getMore",
        "insert",
        "killCursors",
        "listCollections",
        "listDatabases",
        "listIndexes",
        "renameCollection",
        "update",
        "updateSearchIndex",
    }
    assert {AdministrativeWrite, SingleWrite} <= set(operation_classes())
