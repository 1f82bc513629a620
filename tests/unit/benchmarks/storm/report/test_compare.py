"""What changed between two sessions."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.storm.report.compare import render
from benchmarks.storm.scenario import Load
from tests.support.storm_runs import SUSTAINED, Shape, make_run, make_session

SHAPES = {"default": Shape(0.98, 1.05), "no-retry": Shape(0.9, 1.0)}


def line(text: str, *, arm: str, figure: str) -> list[str]:
    """The cells of one row."""
    block = text.split(f"\n{arm}\n", 1)[1]
    row = next(row for row in block.splitlines() if row.strip().startswith(figure))
    return [cell.strip() for cell in row.split("  ") if cell.strip()]


def test_what_is_beyond_the_noise_is_marked() -> None:
    text = render(make_session(SHAPES), make_session({**SHAPES, "default": Shape(0.7, 2.0, recovery=None)}))
    assert line(text, arm="default", figure="goodput")[-1] == "WORSE"
    assert line(text, arm="default", figure="attempts per request")[1:4] == ["1.03", "2.00", "+0.97"]
    assert line(text, arm="default", figure="recovery")[1:] == ["0.0 s", "never", "\N{EN DASH}", "WORSE"]
    assert "WORSE" not in text.split("\nno-retry\n")[1].split("Figures:")[0]


def test_two_equal_sessions() -> None:
    text = render(make_session(SHAPES), make_session(SHAPES))
    assert "WORSE" not in text
    assert "Figures: 20 same." in text
    assert line(text, arm="default", figure="goodput")[1:4] == ["98.2 %", "98.2 %", "0 %"]


def test_a_better_session() -> None:
    text = render(make_session({"default": Shape(0.7, 2.0)}), make_session({"default": Shape(0.98, 1.05)}))
    assert line(text, arm="default", figure="attempts per success")[-1] == "better"


def test_another_machine_and_another_experiment_are_named() -> None:
    other = replace(SUSTAINED, load=Load(rate=450.0))
    new = make_session(SHAPES, other)
    new.facts["cpu"] = "64 x a large processor"
    text = render(make_session(SHAPES), new)
    assert "cpu: 2 x a processor before, 64 x a large processor now" in text
    assert "NOT THE SAME EXPERIMENT: load changed" in text


def test_arms_of_one_session_only_are_named() -> None:
    text = render(make_session(SHAPES), make_session({"default": SHAPES["default"], "pymongo": Shape()}))
    assert "Only before: no-retry in sustained (twin)" in text
    assert "Only now: pymongo in sustained (twin)" in text


def test_nothing_in_common() -> None:
    new = make_session({}, seeds=1)
    run = make_run()
    run.invalid = ["too slow"]
    new.add(run)
    assert "The sessions have no valid run in common." in render(make_session(SHAPES), new)


def test_one_seed_tells_nothing() -> None:
    text = render(make_session(SHAPES, seeds=1), make_session(SHAPES, seeds=1))
    assert line(text, arm="default", figure="goodput")[-1] == "?"
