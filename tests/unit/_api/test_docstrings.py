"""Every public method says what it raises and takes; one that sends a command says how it is retried."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from motorlite import (
    AsyncClientSession,
    AsyncCollection,
    AsyncCommandCursor,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
    IndexModel,
    SearchIndexModel,
)
from motorlite._execution.operation import Kind
from motorlite.errors import PyMongoError
from tests.support.fake_core import fake_client

CLASSES = (AsyncMongoClient, AsyncDatabase, AsyncCollection, AsyncCursor, AsyncCommandCursor)
# Asynchronous, but without a command of their own.
SILENT = {"AsyncCursor.add_option", "AsyncMongoClient.aconnect"}
# Not asynchronous, but the cursor they return sends the command.
CURSORS = {
    "AsyncMongoClient": {"list_databases"},
    "AsyncDatabase": {"aggregate", "cursor_command", "list_collections"},
    "AsyncCollection": {"aggregate", "find", "list_indexes", "list_search_indexes"},
}

OVERLOAD = r"overload errors \(up to 5, with backoff\)"
READ = rf"{OVERLOAD}; network errors and failovers once \(retryable read\)"
WRITE = rf"{OVERLOAD}; network errors and failovers once \(retryable write\)"
SEVERAL = (
    r"overload errors only \(up to 5, with backoff\); not after network errors, since it may affect several"
    r" documents"
)
OVERLOAD_ONLY = r"overload errors only \(up to 5, with backoff\)"
EXPECTED = {
    "find_one": READ,
    "distinct": READ,
    "count_documents": READ,
    "estimated_document_count": READ,
    "options": READ,
    "insert_one": WRITE,
    "update_one": WRITE,
    "replace_one": WRITE,
    "delete_one": WRITE,
    "find_one_and_update": WRITE,
    "find_one_and_replace": WRITE,
    "find_one_and_delete": WRITE,
    "update_many": SEVERAL,
    "delete_many": SEVERAL,
    "create_index": OVERLOAD_ONLY,
    "create_indexes": OVERLOAD_ONLY,
    "create_search_index": OVERLOAD_ONLY,
    "create_search_indexes": OVERLOAD_ONLY,
    "update_search_index": OVERLOAD_ONLY,
    "drop_search_index": OVERLOAD_ONLY,
    "drop_index": OVERLOAD_ONLY,
    "drop_indexes": OVERLOAD_ONLY,
    "drop": OVERLOAD_ONLY,
    "rename": OVERLOAD_ONLY,
}


def methods(kind: type[Any]) -> dict[str, Any]:
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: found for name in names if callable(found := inspect.getattr_static(kind, name))}


def retries_of(method: Any) -> str | None:
    """The Retries paragraph of a docstring, on one line."""
    found = re.search(r"^Retries: (.*?)(?:\n\n|\Z)", inspect.getdoc(method) or "", re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else None


def sends(kind: type[Any], name: str, method: Any) -> bool:
    if f"{kind.__name__}.{name}" in SILENT:
        return False
    return inspect.iscoroutinefunction(method) or name in CURSORS.get(kind.__name__, ())


@pytest.mark.parametrize("kind", CLASSES)
def test_methods_that_send_say_how_they_are_retried(kind: type[Any]) -> None:
    silent = [name for name, method in methods(kind).items() if sends(kind, name, method) and not retries_of(method)]
    assert silent == []


@pytest.mark.parametrize("kind", CLASSES)
def test_other_methods_do_not(kind: type[Any]) -> None:
    loud = [name for name, method in methods(kind).items() if not sends(kind, name, method) and retries_of(method)]
    assert loud == []


@pytest.mark.parametrize("name", EXPECTED)
def test_what_they_say(name: str) -> None:
    assert re.fullmatch(EXPECTED[name] + r"\.", retries_of(getattr(AsyncCollection, name)) or "")


@pytest.mark.parametrize("kind", [*CLASSES, AsyncClientSession])
def test_everything_public_has_a_docstring(kind: type[Any]) -> None:
    names = [name for name in dir(kind) if not name.startswith("_")]
    bare = [name for name in names if not inspect.getdoc(inspect.getattr_static(kind, name))]
    assert bare == []


@pytest.mark.parametrize("kind", CLASSES)
def test_arguments_are_described(kind: type[Any]) -> None:
    missing = []
    for name, method in methods(kind).items():
        text = inspect.getdoc(method) or ""
        parameters = list(inspect.signature(method).parameters)[1:]
        if "\nArgs:" in text:
            missing += [
                f"{name}: {each}" for each in parameters if not re.search(rf"^    {each}: ", text, re.MULTILINE)
            ]
        elif sends(kind, name, method) and parameters:
            missing.append(name)
    assert missing == []


CALLS: dict[str, tuple[Any, ...]] = {
    "find_one": (),
    "distinct": ("a",),
    "count_documents": ({},),
    "estimated_document_count": (),
    "options": (),
    "insert_one": ({},),
    "update_one": ({}, {"$set": {}}),
    "replace_one": ({}, {}),
    "delete_one": ({},),
    "find_one_and_update": ({}, {"$set": {}}),
    "find_one_and_replace": ({}, {}),
    "find_one_and_delete": ({},),
    "update_many": ({}, {"$set": {}}),
    "delete_many": ({},),
    "create_index": ("a",),
    "create_indexes": ([IndexModel("a")],),
    "create_search_index": ({"definition": {}},),
    "create_search_indexes": ([SearchIndexModel({})],),
    "update_search_index": ("a", {}),
    "drop_search_index": ("a",),
    "drop_index": ("a",),
    "drop_indexes": (),
    "drop": (),
    "rename": ("x",),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", EXPECTED)
async def test_it_is_true(name: str) -> None:
    client, core = fake_client()
    core.reply(PyMongoError("enough seen"))
    with pytest.raises(PyMongoError, match="enough seen"):
        await getattr(client.app.things, name)(*CALLS[name])
    operation, expected = core.last.operation, EXPECTED[name]
    assert operation.is_retryable is (expected in (READ, WRITE))
    assert (operation.kind is Kind.READ) is (expected == READ)
