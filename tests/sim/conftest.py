"""Prints how many await points were cancelled, so that one sees when there are fewer than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.cancellation import counted

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if counted:
        terminalreporter.section("await points that were cancelled, one run each")
        for scenario, points in sorted(counted.items()):
            terminalreporter.line(f"{scenario}: {points}")
        terminalreporter.line(f"in all: {sum(counted.values())}")
