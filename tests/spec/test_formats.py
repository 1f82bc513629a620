"""The public suites in the other formats (spec-tests/suites.toml), and those that wait as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.spec import finding, suites
from tests.spec.finding import NotRun
from tests.spec.formats.cases import FormatCase, judge
from tests.support import specifications
from tests.support.virtual_time import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spec.suites import Suite


def _items() -> Iterator[Any]:
    for case in finding.find():
        if isinstance(case, FormatCase):
            for backend in case.backends(BACKENDS):
                name = f"{case.id} [{backend}]" if case.format.needs_loop else case.id
                yield pytest.param(case, backend, id=name)
    if reason := specifications.not_run():
        yield pytest.param(None, "-", id="public suites", marks=pytest.mark.skip(reason))


@pytest.mark.parametrize(("case", "backend"), list(_items()))
def test_format(case: FormatCase, backend: str) -> None:
    record = judge(case, backend)
    if record.outcome == "skipped":
        pytest.skip(f"{record.kind}: {record.reason}")
    if record.outcome == "failed":
        pytest.fail(record.reason, pytrace=False)


@pytest.mark.parametrize(
    "suite", [pytest.param(suite, id=suite.name) for suite in suites.load().suites if suite.folder]
)
def test_suite(suite: Suite) -> None:
    """Its files are there, and it is run, or its tests wait for one and the same thing."""
    not_run = [case for case in finding.cases_of_suite(suite) if isinstance(case, NotRun)]
    if not not_run:
        return
    if any(case.outcome == "failed" for case in not_run):
        pytest.fail(not_run[0].reason, pytrace=False)
    pytest.skip(f"{not_run[0].kind}: {not_run[0].reason} ({len(not_run)} tests)")
