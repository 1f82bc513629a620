"""Checks test files against the JSON schema of the Unified Test Format."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

from tests.spec.unified.outcomes import BadTest
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FOLDER: Final = "unified-test-format"
# What the runner was written for; also where the schemas are not at hand.
NEWEST_KNOWN: Final = (1, 28)
_NAME: Final = re.compile(r"schema-(\d+)\.(\d+)\.json")


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
    schema = json.loads(file.read_text(encoding="utf-8"))
    return number, validator_for(schema)(schema)


def newest_version() -> tuple[int, int]:
    """The newest version of the format that is supported: that of the newest schema."""
    return _newest()[0]


def check(data: Any) -> None:
    """Check the content of a test file, as plain JSON; not where the public suites and their schemas are missing.

    Raises:
        InvalidFile: it does not follow the newest schema; the message says where.
    """
    (major, minor), validator = _newest()
    error = None if validator is None else best_match(validator.iter_errors(data))
    if error is not None:
        raise InvalidFile(f"schema {major}.{minor}: {error.json_path}: {error.message}")


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
