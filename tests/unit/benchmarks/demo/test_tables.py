from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from benchmarks.demo.__main__ import PIPED_WIDTH, ROOT, listing
from benchmarks.demo.quick_start import quick_start
from benchmarks.demo.scenario import PHASES, POLICIES
from benchmarks.demo.tables import POLICIES as POLICY_LAYOUT
from benchmarks.demo.tables import (
    SECONDS,
    Counts,
    Display,
    Row,
    Tally,
    conclusion,
    milliseconds,
    policy_row,
    second_row,
    share_range,
    survival,
)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00123, "1.2"), (0.0123, "12"), (1.5, "1,500"), (math.nan, "-"), (0.0, "0.0")]
)
def test_times_are_in_milliseconds(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text


def test_a_second_is_coloured_by_the_worst_that_happened() -> None:
    counts = Counts(served=90, failed=4, attempts=200, retries=100, latencies=[0.001, 0.5])
    row = second_row(3, "rejects 60 %", counts, 812.4)
    assert row.cells == ("3", "rejects 60 %", "90", "200", "100", "4", "812", "1.0", "500")
    styles = [second_row(1, "", c, 0).style for c in (counts, Counts(retries=1), Counts(served=1))]
    assert styles == ["red", "yellow", "green"]


def test_a_policy_is_judged_by_its_whole_load() -> None:
    tally = Tally()
    tally.now.served, tally.now.failed, tally.now.attempts = 1_200, 300, 3_000
    tally.now.latencies = [0.02] * 1_200
    tally.end_second()
    cells = policy_row(POLICIES[1], tally, 6).cells
    assert cells == ("no retries", "200", "20.0%", "3,000", "2.00", "3,000", "20", "20")


def test_lines_fit_a_terminal_of_80_columns() -> None:
    widest = Counts(served=9_999, failed=9_999, attempts=99_999, retries=99_999, latencies=[99.999])
    for phase in PHASES:
        row = second_row(99, phase.name, widest, 1000)
        assert len(SECONDS.line(row.cells)) == len(SECONDS.line(SECONDS.head)) <= 80
    for policy in POLICIES:
        assert len(policy.name) <= POLICY_LAYOUT.widths[0]
    assert len(POLICY_LAYOUT.line(POLICY_LAYOUT.head)) <= 80


def test_the_conclusion_is_one_line_with_ranges() -> None:
    default, without = Counts(served=2_393, failed=7), Counts(served=1_944, failed=456)
    text = conclusion(default, without)
    assert text == "Failed: 19.0% (17.5-20.6%) without retries, 0.3% (0.1-0.6%) with motorlite's."
    assert len(text) <= 80


def test_what_was_measured_in_the_overload_is_said_with_its_range() -> None:
    """Not what the probabilities predict."""
    total = Counts(served=1_558, failed=42, attempts=3_037)
    overloaded = Counts(served=929, failed=42, attempts=2_405)
    assert survival(total, overloaded) == (
        "1,558 of 1,600 requests were served, with 3,037 attempts. Measured during the overload: the server rejected "
        "61.4% of 2,405 attempts (95% interval 59.4-63.3%), and 4.3% of 971 requests failed (3.2-5.8%)."
    )


def test_nothing_measured_has_no_range() -> None:
    assert survival(Counts(), Counts()).endswith(
        "rejected - of 0 attempts (95% interval -), and - of 0 requests failed (-)."
    )


def test_no_line_of_the_quick_start_is_cut_off() -> None:
    program = quick_start((ROOT / "README.md").read_text(encoding="utf-8"))
    file = io.StringIO()
    Console(file=file, width=PIPED_WIDTH, color_system=None).print(listing(program))
    assert max(map(len, file.getvalue().splitlines())) <= 80
    assert "".join(file.getvalue().split()) == "".join(program.split())


def shown(*, terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None)
    cells = ("9", "running", *["1"] * 7)
    with Display(console, SECONDS) as display:
        display.running(Row(cells))
        display.finished(Row(("1", "done", *["1"] * 7)))
    return file.getvalue()


def test_a_file_gets_one_line_for_each_finished_row() -> None:
    lines = shown(terminal=False).splitlines()
    assert [line.split()[:2] for line in lines] == [["second", "server"], ["1", "done"]]


def test_a_terminal_sees_the_running_row_too() -> None:
    assert "running" in shown(terminal=True)


def test_seconds_add_up_to_the_total() -> None:
    tally = Tally()
    for served, failed, attempts in ((3, 1, 9), (5, 0, 5)):
        tally.now.served += served
        tally.now.failed += failed
        tally.now.attempts += attempts
        tally.now.retries += 1
        tally.now.latencies += [0.1] * served
        assert tally.end_second().served == served
    total = tally.total
    assert (total.requests, total.served, total.attempts, total.retries) == (9, 8, 14, 2)
    assert total.error_share == pytest.approx(1 / 9)
    assert total.amplification == pytest.approx(14 / 9)
    assert tally.peak_attempts == 9
    assert tally.now == Counts()


def test_latencies_need_no_order() -> None:
    counts = Counts(latencies=[3.0, 1.0, 2.0])
    assert (counts.latency(0.5), counts.latency(0.99)) == (2.0, 3.0)


def test_nothing_served_is_no_latency_and_no_share() -> None:
    counts = Counts()
    assert math.isnan(counts.latency(0.5))
    assert (counts.error_share, counts.amplification) == (0.0, 0.0)


def test_seconds_of_an_overload_are_counted_apart() -> None:
    tally = Tally()
    for served, is_overloaded in ((3, False), (5, True), (7, True)):
        tally.now.served += served
        tally.end_second(is_overloaded=is_overloaded)
    assert (tally.total.served, tally.overloaded.served) == (15, 12)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Wilson's interval, as Newcombe (1998) has it for 81 of 263 and 0 of 20.
    [(81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0)],
)
def test_the_range_of_a_share(successes: int, trials: int, low: float, high: float) -> None:
    assert list(share_range(successes, trials)) == pytest.approx([low, high], abs=1e-4)
