from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.demo.__main__ import PIPED_WIDTH, listing
from benchmarks.demo.quick_start import quick_start
from benchmarks.demo.scenario import PHASES, POLICIES
from benchmarks.demo.tables import POLICIES as POLICY_LAYOUT
from benchmarks.demo.tables import SECONDS, Counts, Display, Row, Tally, policy_row, second_row
from benchmarks.processes import ROOT


@pytest.mark.parametrize(
    ("latencies", "text"),
    [([0.00123], "1.2"), ([0.0123], "12"), ([3.0, 1.0, 1.5], "1,500"), ([], "-"), ([0.0], "0.0")],
)
def test_times_are_in_milliseconds(latencies: list[float], text: str) -> None:
    assert Counts(latencies=latencies).latency(0.5) == text


def test_a_second_is_coloured_by_the_worst_that_happened() -> None:
    counts = Counts(served=90, failed=4, attempts=200, retries=100, latencies=[0.001, 0.5])
    row = second_row("3", "rejects 60 %", counts, "812")
    assert row.cells == ("3", "rejects 60 %", "90", "200", "100", "4", "812", "1.0", "500")
    styles = [second_row("1", "", c, "").style for c in (counts, Counts(retries=1), Counts(served=1))]
    assert styles == ["red", "yellow", "green"]


def test_a_policy_is_judged_by_its_whole_load() -> None:
    tally = Tally()
    tally.now.served, tally.now.failed, tally.now.attempts = 1_200, 300, 3_000
    tally.now.latencies = [0.02] * 1_200
    tally.end_second()
    cells = policy_row(POLICIES[1], tally, 6).cells
    assert cells == ("no retries", "200", "20.0%", "3,000", "2.00", "3,000", "20", "20")
    assert policy_row(POLICIES[1], Tally(), 6).cells[1:] == ("0", "0.0%", "0", "0.00", "0", "-", "-")


def test_lines_fit_a_terminal_of_80_columns() -> None:
    widest = Counts(served=9_999, failed=9_999, attempts=99_999, retries=99_999, latencies=[99.999])
    for phase in PHASES:
        row = second_row("99", phase.name, widest, "1000")
        assert len(SECONDS.line(row.cells)) == len(SECONDS.line(SECONDS.head)) <= 80
    for policy in POLICIES:
        assert len(policy.name) <= POLICY_LAYOUT.widths[0]
    assert len(POLICY_LAYOUT.line(POLICY_LAYOUT.head)) <= 80


def test_no_line_of_the_quick_start_is_cut_off() -> None:
    program = quick_start((ROOT / "README.md").read_text(encoding="utf-8"))
    file = io.StringIO()
    Console(file=file, width=PIPED_WIDTH, color_system=None).print(listing(program))
    assert max(map(len, file.getvalue().splitlines())) <= 80
    assert "".join(file.getvalue().split()) == "".join(program.split())


@pytest.mark.parametrize("terminal", [False, True])
def test_a_file_gets_one_line_for_each_finished_row_and_a_terminal_the_running_one_too(terminal: bool) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None)
    with Display(console, SECONDS) as display:
        display.running(Row(("9", "running", *["1"] * 7)))
        display.finished(Row(("1", "done", *["1"] * 7)))
    if terminal:
        assert "running" in file.getvalue()
    else:
        assert [line.split()[:2] for line in file.getvalue().splitlines()] == [["second", "server"], ["1", "done"]]


def test_seconds_add_up_to_the_total_and_those_of_an_overload_apart() -> None:
    tally = Tally()
    for served, failed, attempts, is_overloaded in ((3, 1, 9, False), (5, 0, 5, True), (7, 0, 8, True)):
        tally.now = Counts(served, failed, attempts, 1, [0.1] * served)
        assert tally.end_second(is_overloaded=is_overloaded).served == served
    assert tally.total == Counts(15, 1, 22, 3, [0.1] * 15)
    assert tally.overloaded == Counts(12, 0, 13, 2, [0.1] * 12)
    assert (tally.peak_attempts, tally.now) == (9, Counts())
