"""This project's extensions of the format (spec-tests/EXTENSIONS.md): who uses them, and what the schema becomes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE: Final = specifications.REPOSITORY / "spec-tests" / "extensions.json"
RETRY_EVENT: Final = "operationRetryEvent"
# Fields of client entities, and the extensions that they belong to. The definitions have the fields' names.
_CLIENT_FIELDS: Final = {
    "overloadRetry": "overloadRetry",
    "retryStrategy": "retryStrategies",
    "retryBudget": "retryBudgets",
    "waitQueue": "waitQueue",
    "limits": "limits",
}
# Where nothing but the extensions can be checked.
_REST: Final = {"operation": {"type": "object", "required": ["name", "object"]}}


@cache
def _file() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def names() -> frozenset[str]:
    """The extensions that there are."""
    return frozenset(_file()["extensions"])


def declared(data: Any) -> frozenset[str] | None:
    """The extensions that a file says it uses; None when it says nothing of them."""
    if not isinstance(data, Mapping) or "extensions" not in data:
        return None
    found = data["extensions"]
    return frozenset(one for one in found if isinstance(one, str)) if isinstance(found, list) else frozenset()


def used(data: Any) -> frozenset[str]:
    """The extensions that the content of a file uses, declared or not."""
    return frozenset(name for name, _, _ in _uses(data))


def extended(schema: Mapping[str, Any], extensions: Iterable[str]) -> dict[str, Any]:
    """The public schema with what the extensions add to it.

    Raises:
        LookupError: the schema has no such place.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(schema))
    changed["definitions"].update(_file()["definitions"])
    for patch in (_file()["common"], *(_file()["extensions"][name] for name in sorted(extensions))):
        for step in patch:
            _add(changed, step["path"], step["value"])
    return changed


def parts(data: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The parts of a file that belong to extensions, each with a schema of its own."""
    definitions = {**_REST, **_file()["definitions"]}
    for _, part, definition in _uses(data):
        if definition is not None:
            yield part, {"definitions": definitions, "$ref": f"#/definitions/{definition}"}


def _add(document: Any, path: str, value: Any) -> None:
    """Add a value (RFC 6902, "add"); the place is a new member of an object or the end of a list."""
    *parents, last = path.removeprefix("/").split("/")
    for name in parents:
        document = document[int(name) if isinstance(document, list) else name]
    if isinstance(document, list):
        if last != "-":
            raise LookupError(f"{path}: only the end of a list can be added to")
        document.append(value)
    elif last in document:
        raise LookupError(f"{path}: the schema has this already")
    else:
        document[last] = value


def _list(value: Any) -> list[Any]:
    """The value where it is a list: a file is looked at before anything checked it."""
    return value if isinstance(value, list) else []


def _uses(data: Any) -> Iterator[tuple[str, Any, str | None]]:
    """Each use of an extension: its name, the part of the file, and the definition that the part follows."""
    if isinstance(data, list):
        for element in data:
            yield from _uses(element)
    if not isinstance(data, Mapping):
        return
    if data.get("name") == "withDeadline" and data.get("object") == "testRunner":
        yield "deadlines", data.get("arguments"), "withDeadlineArguments"
    if data.get("name") == "failPointOnEvent" and data.get("object") == "testRunner":
        yield "eventFailPoints", data.get("arguments"), "failPointOnEventArguments"
    if data.get("eventType") == "retry":
        for event in _list(data.get("events")):
            yield "retryEvents", event, "expectedRetryEvent"
    client = data.get("client")
    if isinstance(client, Mapping):
        for field, extension in _CLIENT_FIELDS.items():
            if field in client:
                yield extension, client[field], field
        if RETRY_EVENT in _list(client.get("observeEvents")):
            yield "retryEvents", RETRY_EVENT, None
    event = data.get("event")
    if isinstance(event, Mapping) and RETRY_EVENT in event:
        yield "retryEvents", event, "expectedRetryEvent"
    for value in data.values():
        yield from _uses(value)
