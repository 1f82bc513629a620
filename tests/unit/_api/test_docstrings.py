"""Every public method says what it raises and takes; one that sends a command says how it is retried."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncCollection
from motorlite._operations.commands import RunCommand
from motorlite._operations.find import Find
from motorlite._operations.reads import Count, Explain
from motorlite._operations.single_writes import Insert
from motorlite.gridfs import AsyncGridFS, AsyncGridFSBucket, AsyncGridIn, AsyncGridOut, AsyncGridOutCursor
from tests.support.handles import HANDLES, methods, sends
from tests.support.public_calls import SECTIONS, Call, sent_by

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

GRIDFS = (AsyncGridFS, AsyncGridFSBucket, AsyncGridIn, AsyncGridOut, AsyncGridOutCursor)
DESCRIBED = (*HANDLES, *GRIDFS)
# More to say than the sentences below.
LONGER = {
    f"{kind}.{name}"
    for kind, names in {
        "AsyncChangeStream": ("close", "next", "to_list", "try_next"),
        "AsyncClientSession": ("abort_transaction", "commit_transaction", "end_session", "with_transaction"),
        "AsyncCollection": ("aggregate", "aggregate_raw_batches", "bulk_write", "insert_many", "watch"),
        "AsyncCommandCursor": ("close",),
        "AsyncCursor": ("close", "rewind"),
        "AsyncDatabase": ("aggregate", "command", "create_collection", "cursor_command", "watch"),
        "AsyncMongoClient": ("bulk_write", "watch"),
    }.items()
    for name in names
}
# Where it says what overload errors and retryable reads and writes are, and how often they are repeated.
LINK = "(docs/retries.md)"


def by_method() -> dict[str, list[Call]]:
    """The calls of docs/retries.md that have a reply."""
    found: dict[str, list[Call]] = {}
    for calls in SECTIONS.values():
        for call in calls:
            if "w=0" not in call.text:
                found.setdefault(call.method, []).append(call)
    return found


CALLS = by_method()


def ordinary_rule(operation: Operation[Any]) -> str | None:
    """``retryable read`` or ``retryable write``, where that specification permits a retry."""
    return f"retryable {operation.kind.value}" if operation.is_retryable else None


def sentence(operation: Operation[Any]) -> str:
    """What a method says that sends this operation only."""
    rule = ordinary_rule(operation)
    if operation.name == "getMore":
        return f"getMore for overload errors only {LINK}."
    if rule is not None and operation.creates_cursor:
        return f"{operation.name} as a {rule}; getMore for overload errors only {LINK}."
    if rule is not None:
        return f"as a {rule} {LINK}."
    if operation.name in ("update", "delete"):
        return f"overload errors only, since it may affect several documents {LINK}."
    return f"overload errors only {LINK}."


def retries_of(method: Any) -> str | None:
    """The line of a docstring about retries."""
    found = re.search(r"^Retries: (.*)(?:\n\n|\Z)", inspect.getdoc(method) or "", re.MULTILINE)
    return found[1] if found else None


@pytest.mark.parametrize("kind", DESCRIBED)
def test_methods_that_send_say_how_they_are_retried_and_others_do_not(kind: type[Any]) -> None:
    assert methods(kind)
    wrong = [
        name for name, method in methods(kind).items() if sends(kind, name, method) is not bool(retries_of(method))
    ]
    assert wrong == []
    described = methods(kind).items()
    wrong = [name for name, method in described if sends(kind, name, method) is not bool(retries_of(method))]


async def operations(method: str) -> list[Operation[Any]]:
    """All that its calls in docs/retries.md send."""
    return [sent.operation for call in CALLS[method] for sent in await sent_by(call)]


def said(method: str) -> str:
    kind, _, name = method.partition(".")
    (described,) = [each for each in HANDLES if each.__name__ == kind]
    return retries_of(getattr(described, name)) or ""


@pytest.mark.anyio
@pytest.mark.parametrize("method", sorted(CALLS.keys() - LONGER))
async def test_what_they_say(method: str) -> None:
    assert {sentence(operation) for operation in await operations(method)} == {said(method)}


@pytest.mark.anyio
@pytest.mark.parametrize("method", sorted(LONGER))
async def test_the_longer_ones_are_true(method: str) -> None:
    rules = {ordinary_rule(operation) for operation in await operations(method)}
    assert LINK in said(method)
    assert set(re.findall("retryable (?:read|write)", said(method))) == rules - {None}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Explain(Find("db", "coll")), f"overload errors only {LINK}."),
        (Count("db", "coll"), f"as a retryable read {LINK}."),
        (Insert("db", "coll", {}), f"as a retryable write {LINK}."),
        (RunCommand("db", {"ping": 1}), f"overload errors only {LINK}."),
    ],
)
def test_the_sentence(operation: Operation[Any], expected: str) -> None:
    assert sentence(operation) == expected


@pytest.mark.parametrize("kind", DESCRIBED)
def test_everything_public_has_a_docstring(kind: type[Any]) -> None:
    names = [name for name in dir(kind) if not name.startswith("_") and (kind, name) != (AsyncGridOut, "closed")]
    bare = [name for name in names if not inspect.getdoc(inspect.getattr_static(kind, name))]
    assert bare == []
    assert inspect.getdoc(kind)


@pytest.mark.parametrize("kind", DESCRIBED)
def test_arguments_are_described(kind: type[Any]) -> None:
    missing = []
    for name, method in methods(kind).items():
        text = inspect.getdoc(method) or ""
        parameters = list(inspect.signature(method).parameters)[1:]
        is_own = method.__module__.startswith("motorlite._gridfs")
        if "\nArgs:" in text or is_own:
            missing += [
                f"{name}: {each}" for each in parameters if not re.search(rf"^    {each}: ", text, re.MULTILINE)
            ]
        elif sends(kind, name, method) and parameters:
            missing.append(name)
    assert missing == []


WRITES = (
    *("insert_one", "insert_many", "replace_one", "update_one", "update_many", "bulk_write"),
    *("find_one_and_replace", "find_one_and_update"),
)


@pytest.mark.parametrize("name", WRITES)
def test_writes_name_the_error_of_bson(name: str) -> None:
    """It is no PyMongoError."""
    raises = inspect.getdoc(getattr(AsyncCollection, name)) or ""
    assert "bson.errors.InvalidDocument" in raises.partition("Raises:")[2].partition("\n\n")[0]
