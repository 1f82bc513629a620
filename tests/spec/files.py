"""Test files of every format."""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bson import json_util

from tests.spec import formats, suites
from tests.spec.unified import schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.spec.suites import Suite


class TestFile:
    """One test file. It is read and checked when it is used, and once."""

    __test__ = False

    def __init__(self, path: Path, suite: Suite) -> None:
        self.path = path
        self.suite = suite

    @cached_property
    def name(self) -> str:
        """The path below the specifications or below spec-tests, or the whole one, without the ending."""
        path = suites.relative(self.path) or self.path
        return path.with_suffix("").as_posix()

    @cached_property
    def format(self) -> str | None:
        """The format of the suite, or for a file of no suite, what it looks like; None when that is nothing known."""
        if self.suite.format is not None:
            return self.suite.format
        if isinstance(self.plain, dict) and "schemaVersion" in self.plain:
            return suites.UNIFIED
        return formats.recognized(self.plain)

    @cached_property
    def text(self) -> str:
        """What is in it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def plain(self) -> Any:
        """The content as plain JSON.

        Raises:
            ValueError: it is none.
        """
        try:
            return json.loads(self.text)
        except ValueError as error:
            raise ValueError(f"{self.path} is not JSON: {error}") from error

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The content as BSON."""
        content: Mapping[str, Any] = json_util.loads(self.text)
        return content

    @cached_property
    def tests(self) -> Sequence[Any]:
        """The entries of its list of tests, as plain JSON; nothing for a file without one."""
        found = self.plain.get("tests") if isinstance(self.plain, dict) else None
        return found if isinstance(found, list) else ()

    @property
    def description(self) -> str:
        """What it says it is about, if anything."""
        return str(self.plain.get("description", "")) if isinstance(self.plain, dict) else ""

    @property
    def descriptions(self) -> list[str]:
        """The name of each of its tests; where several have the same, the second one's ends with `` (2)``."""
        seen: Counter[str] = Counter()
        found: list[str] = []
        for index, test in enumerate(self.tests):
            name = str(test.get("description", index) if isinstance(test, dict) else index)
            seen[name] += 1
            found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
        return found

    @cached_property
    def problem(self) -> schema.InvalidFile | None:
        """What keeps it from being a file in the unified format, or None."""
        try:
            schema.check_version(self.plain)
            schema.check(self.plain)
        except schema.InvalidFile as error:
            return error
        return None
