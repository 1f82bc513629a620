"""The tests of a file that is not in the unified format, and how they end."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio
from bson import json_util

from tests.spec import formats, suites
from tests.spec.unified.errors import describe
from tests.spec.unified.judge import Record
from tests.spec.unified.outcomes import BadTest, Failed, SkipKind
from tests.support import virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.spec.files import TestFile
    from tests.spec.formats.base import Format
    from tests.spec.suites import Deviation, Suite
    from tests.spec.unified.judge import Outcome

# The backend of tests that need no event loop, and the deployment of those that do.
NO_LOOP: Final = "-"
SCRIPTED: Final = "scripted"


@dataclass(frozen=True, slots=True, eq=False)
class FormatCase:
    """One test: the place of it in its file."""

    file: TestFile
    format: Format
    index: int
    description: str

    @property
    def suite(self) -> Suite:
        return self.file.suite

    @property
    def id(self) -> str:
        """A readable name."""
        return f"{self.file.name}: {self.description}"

    @property
    def deviation(self) -> Deviation | None:
        """What is asserted instead of what the file says."""
        return suites.load().deviation_of(self.file.name, self.description)

    @property
    def test(self) -> Mapping[str, Any]:
        """What is asserted."""
        content = json_util.loads(self.file.text) if self.format.is_extended else self.file.plain
        test = content["tests"][self.index] if self.format.has_list else content
        deviation = self.deviation
        return test if deviation is None else {**test, **deviation.replace}

    def backends(self, chosen: Sequence[str]) -> Sequence[str]:
        """Those of the chosen event loops that it is run on."""
        return chosen if self.format.needs_loop else (NO_LOOP,)


def cases_of(file: TestFile, name: str) -> Iterator[FormatCase]:
    """The tests of a file in the format of this name; the file itself where a list of them is missing.

    Raises:
        ValueError: there is no such format.
    """
    if name not in formats.FORMATS:
        raise ValueError(f"there is no format {name!r}; there are {', '.join([suites.UNIFIED, *formats.FORMATS])}")
    one = formats.FORMATS[name]
    if one.has_list and file.tests:
        for index, description in enumerate(file.descriptions):
            yield FormatCase(file, one, index, description)
    else:
        yield FormatCase(file, one, 0, file.description or "the file")


def judge(case: FormatCase, backend: str) -> Record:
    """Run a test and record how it ended."""
    start = time.monotonic()
    deviation = case.deviation
    skip = suites.load().skip_of(case.file.name, case.description)

    def made(outcome: Outcome, reason: str = "", kind: str = "") -> Record:
        deployment = SCRIPTED if case.format.needs_loop and outcome != "skipped" else ""
        seconds = time.monotonic() - start
        suite, file = case.suite.name, case.file.name
        return Record(suite, file, case.description, backend, deployment, outcome, reason, kind, seconds)

    if skip is not None:
        return made("skipped", skip.reason, SkipKind.LISTED)
    try:
        _run(case, backend)
    except (Failed, BadTest) as failure:
        return made("failed", f"{type(failure).__name__}: {failure}")
    except Exception as error:
        return made("failed", f"{describe(error)}\n{''.join(traceback.format_exception(error))}")
    return made("passed") if deviation is None else made("passed", deviation.reason, "deviation")


def _run(case: FormatCase, backend: str) -> None:
    if not case.format.needs_loop:
        case.format.check(case.test)
        return
    name, options = (backend, {}) if case.format.is_real_time else virtual_time.backend(backend)
    check: Any = case.format.check
    try:
        anyio.run(check, case.test, backend=name, backend_options=options)
    finally:
        # trio's own word for it is that the test was cancelled.
        if virtual_time.is_deadlocked(options.get("clock")):
            raise virtual_time.DeadlockError
