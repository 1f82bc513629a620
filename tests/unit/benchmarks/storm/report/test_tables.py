"""The figures of a session as text."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.storm.report.tables import conclusions, markdown
from tests.support.storm_runs import SUSTAINED, Shape, make_run, make_session

SHAPES = {"default": Shape(), "immediate": Shape(0.4, 5.0, recovery=None)}


def test_the_tables_as_markdown() -> None:
    session = make_session(SHAPES)
    run = make_run("motor")
    run.invalid = ["too slow"]
    session.add(run)
    lines = markdown(session).splitlines()
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


def test_both_backends_have_a_table() -> None:
    session = make_session(SHAPES, seeds=1)
    run = make_run()
    run.backend = "sockets"
    session.add(run)
    text = markdown(session)
    assert text.index("### sustained, real sockets") < text.index("### sustained, simulated")


def test_the_conclusions_as_text() -> None:
    text = conclusions(make_session(SHAPES))
    assert text.startswith(
        f"sustained, simulated: {SUSTAINED.question}\nWhile the servers are overloaded, `default` keeps"
    )
    assert "`default` does worse than no other arm" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100


def test_a_sweep_has_one_conclusion() -> None:
    session = make_session(SHAPES, replace(SUSTAINED, family="f", point=(("factor", 3.0),)), seeds=1)
    text = conclusions(session)
    assert text.count(SUSTAINED.question) == 1
    assert "at 3 times the capacity: `default` " in text
