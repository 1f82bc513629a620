"""What a test uses, by name, to find what is not there yet (suites.toml)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Arguments that hold operations.
_NESTED = ("operations", "callback")


def used(content: Mapping[str, Any], test: Mapping[str, Any]) -> Iterator[str]:
    """The features that a test uses: ``"collection.find"``, ``"sessionOptions.snapshot"``..."""
    kinds: dict[str, str] = {"testRunner": "testRunner"}
    yield from _entities(content.get("createEntities", ()), kinds)
    yield from _operations(test["operations"], kinds)


def _entities(definitions: Iterable[Mapping[str, Any]], kinds: dict[str, str]) -> Iterator[str]:
    for definition in definitions:
        ((kind, fields),) = definition.items()
        kinds[fields["id"]] = kind
        for name, value in fields.get("sessionOptions", {}).items():
            if value:
                yield f"sessionOptions.{name}"


def _operations(operations: Iterable[Mapping[str, Any]], kinds: dict[str, str]) -> Iterator[str]:
    for operation in operations:
        yield f"{kinds.get(operation['object'], 'cursor')}.{operation['name']}"
        arguments = operation.get("arguments", {})
        yield from (f"arguments.{name}" for name in arguments)
        for request in (*arguments.get("requests", ()), *arguments.get("models", ())):
            yield from (
                f"arguments.{name}" for fields in request.values() if isinstance(fields, dict) for name in fields
            )
        if operation["name"] == "createEntities":
            yield from _entities(arguments["entities"], kinds)
        for name in _NESTED:
            if isinstance(arguments.get(name), list):
                yield from _operations(arguments[name], kinds)
        if operation["name"] == "runOnThread":
            yield from _operations([arguments["operation"]], kinds)
