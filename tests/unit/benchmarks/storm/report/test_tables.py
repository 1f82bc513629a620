"""The figures of a session as text."""

from __future__ import annotations

import re
from dataclasses import replace

from benchmarks.storm.report.tables import as_markdown, compare, conditions, text
from benchmarks.storm.scenario import Load, Server
from tests.unit.benchmarks.storm_runs import SUSTAINED, Shape, make_run, make_session

PAIR = {"default": Shape(0.98, 1.05), "no-retry": Shape(0.9, 1.0)}
SHAPES = {"default": Shape(), "immediate": Shape(0.4, 5.0, recovery=None)}


def test_the_tables_as_markdown() -> None:
    session = make_session(SHAPES)
    run = make_run("motor")
    run.invalid = ["too slow"]
    session.add(run)
    other = make_run()
    other.backend = "sockets"
    session.add(other)
    sockets, simulated = as_markdown(session).split("### sustained, simulated")
    assert sockets.startswith("### sustained, real sockets")
    lines = f"### sustained, simulated{simulated}".splitlines()
    assert lines[0] == "### sustained, simulated"
    assert lines[2] == SUSTAINED.question
    table = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in table} == {12}
    assert table[0].startswith("| arm | goodput |")
    assert table[2].startswith("| default | 98.2 % (97.9\N{EN DASH}98.6 %) | 100 % | 1.03 |")
    assert "| failed | failed |" in table[3]
    assert table[3].endswith("| never |")
    assert table[4].startswith("| motor | not valid: too slow |")
    assert "Means over 5 seeds with 95 % intervals. date: 2026-11-22; cpu: 2 x a processor." in lines[-1]


def test_figures_that_differ_from_the_defaults_are_marked() -> None:
    found = text(make_session(SHAPES))
    assert found.startswith(f"sustained, simulated: {SUSTAINED.question}\n")
    default, immediate = (next(row for row in found.splitlines() if row.startswith(arm)) for arm in SHAPES)
    assert re.search(r"98\.2 % +100 % +1\.03 +1\.05", default)
    assert re.search(r" 40\.\d % - .* never -$", immediate)


def test_conditions_are_what_is_not_as_usual() -> None:
    scenario = replace(SUSTAINED, servers=(Server(), Server(), Server(mode="queue")))
    assert conditions(scenario) == [
        ("load", "rate 80.0"),
        ("2 x server", "as usual"),
        ("1 x server", "mode 'queue'"),
        ("read preference", "primary"),
        ("5 to 10 s", "load 3.75"),
        ("duration", "20 s"),
    ]


# --- what changed between two sessions ---


def line(text: str, *, arm: str, figure: str) -> list[str]:
    """The cells of one row."""
    block = text.split(f"\n{arm}\n", 1)[1]
    row = next(row for row in block.splitlines() if row.strip().startswith(figure))
    return [cell.strip() for cell in row.split("  ") if cell.strip()]


def test_what_is_beyond_the_noise_is_marked() -> None:
    text = compare(make_session(PAIR), make_session({**PAIR, "default": Shape(0.7, 2.0, recovery=None)}))
    assert line(text, arm="default", figure="goodput")[-1] == "WORSE"
    assert line(text, arm="default", figure="attempts per request")[1:4] == ["1.03", "2.00", "+0.97"]
    assert line(text, arm="default", figure="recovery")[1:] == ["0.0 s", "never", "\N{EN DASH}", "WORSE"]
    assert "WORSE" not in text.split("\nno-retry\n")[1]
    text = compare(make_session({"default": Shape(0.7, 2.0)}), make_session({"default": Shape(0.98, 1.05)}))
    assert line(text, arm="default", figure="attempts per success")[-1] == "better"


def test_two_equal_sessions_and_two_with_one_seed() -> None:
    text = compare(make_session(PAIR), make_session(PAIR))
    assert "WORSE" not in text
    assert line(text, arm="default", figure="goodput")[1:4] == ["98.2 %", "98.2 %", "0 %"]
    place = (("factor", 3.0), ("depth", 2.5))
    point = make_session(PAIR, replace(SUSTAINED, family="f", point=place), seeds=1)
    text = compare(point, point)
    assert "f, load, as a multiple of the capacity: 3, depth: 2.5, simulated" in text
    assert line(text, arm="default", figure="goodput")[-1] == "?"


def test_another_machine_and_another_experiment_are_named() -> None:
    other = replace(SUSTAINED, load=Load(rate=450.0))
    new = make_session(PAIR, other)
    new.facts["cpu"] = "64 x a large processor"
    text = compare(make_session(PAIR), new)
    assert "cpu: 2 x a processor before, 64 x a large processor now" in text
    assert "NOT THE SAME EXPERIMENT: load changed" in text


def test_arms_of_one_session_only_are_named() -> None:
    text = compare(make_session(PAIR), make_session({"default": PAIR["default"], "pymongo": Shape()}))
    assert "Only before: no-retry in sustained (twin)" in text
    assert "Only now: pymongo in sustained (twin)" in text
