"""Checks test files against the JSON schema of the Unified Test Format."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft201909Validator
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

from tests.spec.unified import extensions
from tests.spec.unified.outcomes import BadTest
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FOLDER: Final = "unified-test-format"
# What the runner was written for; also where the schemas are not at hand.
NEWEST_KNOWN: Final = (1, 28)
_NAME: Final = re.compile(r"schema-(\d+)\.(\d+)\.json")
_PARTS: Final = Draft201909Validator
# To be said where the public suites are missing.
UNCHECKED: Final = "test files are checked for what belongs to extensions only: the schemas are among the public suites"


class InvalidFile(BadTest):
    """A file is not in the Unified Test Format, or in a version of it that is not supported."""


def version(text: str) -> tuple[int, ...]:
    """A version string as numbers; what follows the first three is not compared.

    Raises:
        InvalidFile: it is not a version.
    """
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?![\d])", text)
    if found is None:
        raise InvalidFile(f"{text!r} is not a version")
    return tuple(int(part or 0) for part in found.groups())


def _schema_file(base: Path) -> tuple[tuple[int, int], Path]:
    found = {
        (int(match[1]), int(match[2])): file
        for file in (base / _FOLDER).glob("schema-*.json")
        if (match := _NAME.fullmatch(file.name))
    }
    newest = max(found)
    return newest, found[newest]


@cache
def _newest() -> tuple[tuple[int, int], Any]:
    base = specifications.root()
    if base is None:
        return NEWEST_KNOWN, None
    number, file = _schema_file(base)
    return number, json.loads(file.read_text(encoding="utf-8"))


@cache
def _validator(declared: frozenset[str] | None) -> Any:
    """For files with these extensions: the public schema as it is for those that declare none."""
    schema = _newest()[1]
    if schema is not None and declared is not None:
        schema = extensions.extended(schema, declared & extensions.names())
    return None if schema is None else validator_for(schema)(schema)


def newest_version() -> tuple[int, int]:
    """The newest version of the format that is supported: that of the newest schema."""
    return _newest()[0]


def check(data: Any) -> None:
    """Check the content of a test file, as plain JSON.

    Where the public schemas are missing, only what belongs to extensions is checked.

    Raises:
        InvalidFile: it does not follow the newest schema with the extensions that it declares; the message says where.
    """
    declared, used = extensions.declared(data), extensions.used(data)
    if unknown := (declared or frozenset()) - extensions.names():
        raise InvalidFile(f"there is no extension {', '.join(sorted(unknown))}")
    if used != (declared or frozenset()):
        raise InvalidFile(f"the file declares the extensions {sorted(declared or ())}, and uses {sorted(used)}")
    major, minor = newest_version()
    error = best_match(_errors(data, declared))
    if error is not None:
        raise InvalidFile(f"schema {major}.{minor}: {error.json_path}: {error.message}")


def _errors(data: Any, declared: frozenset[str] | None) -> Iterator[Any]:
    validator = _validator(declared)
    if validator is not None:
        yield from validator.iter_errors(data)
        return
    for part, schema in extensions.parts(data):
        yield from _PARTS(schema).iter_errors(part)


def check_version(data: Mapping[str, Any]) -> None:
    """Check that the version a file asks for is supported.

    Raises:
        InvalidFile: it is another major version, or a newer one.
    """
    text = data.get("schemaVersion")
    if not isinstance(text, str):
        raise InvalidFile(f"schemaVersion must be a version, not {text!r}")
    major, minor, _ = version(text)
    newest = newest_version()
    if major != newest[0] or minor > newest[1]:
        raise InvalidFile(f"schemaVersion {text} is not supported, {newest[0]}.{newest[1]} is")
