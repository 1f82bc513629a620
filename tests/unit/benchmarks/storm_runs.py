"""Runs of a storm that nobody ran: hand-made series and requests with known figures."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.storm.arms import ARMS
from benchmarks.storm.results import STEP, Request, Run
from benchmarks.storm.scenario import Change, Load, Scenario
from benchmarks.storm.session import Session

CAPACITY = 100.0
RATE = 80.0
SUSTAINED = Scenario(
    "sustained",
    "What is left of goodput at three times the capacity?",
    Load(rate=RATE),
    seconds=20.0,
    changes=(Change(5.0, 10.0, load=3.75),),
    arms=("default", "no-retry", "pymongo"),
)


@dataclass(frozen=True)
class Shape:
    """How an arm fares.

    Attributes:
        share: Goodput as a share of the capacity during the overload.
        attempts: Attempts per request during the overload, and until the recovery.
        recovery: Seconds after the overload until goodput is back; None: never.
        latency: Of each success, in seconds.
        tokens: Whether the series of tokens has values.
    """

    share: float = 0.98
    attempts: float = 1.05
    recovery: float | None = 0.0
    latency: float = 0.002
    tokens: bool = False


def make_run(arm: str = "default", shape: Shape | None = None, seed: int = 1, scenario: Scenario = SUSTAINED) -> Run:
    """A run in which all numbers per step are exact but for a small noise that depends on the seed."""
    shape = shape or Shape()
    noise = random.Random(f"{scenario.name} {arm} {seed}")
    start, end = scenario.overload
    steps = round(scenario.seconds / STEP)
    names = ("offered", "attempts", "goodput", "rejected", "timed_out", "failed", "connections", "server_queue")
    series: dict[str, list[float]] = {name: [] for name in (*names, "capacity", "tokens")}
    requests: list[Request] = []
    owed = sent = 0.0
    for step in range(steps):
        at = step * STEP
        is_over = start - STEP / 2 <= at < end - STEP / 2
        is_ill = is_over or (at >= end and (shape.recovery is None or at < end + shape.recovery - STEP / 2))
        offered = round((RATE * 3.75 if is_over else RATE) * STEP)
        best = min(offered, CAPACITY * STEP)
        owed += best * (shape.share + noise.uniform(-0.04, 0.04)) if is_ill else best
        goodput = min(int(owed + 0.5), offered)
        owed -= goodput
        sent += offered * shape.attempts if is_ill else offered
        attempts = int(sent + 0.5)
        sent -= attempts
        values = (offered, attempts, goodput, attempts - goodput, 0, offered - goodput, int(step == 0), 0)
        for name, value in zip(names, values, strict=True):
            series[name].append(float(value))
        series["capacity"].append(CAPACITY * STEP)
        if shape.tokens:
            series["tokens"].append(max(0.0, 1000.0 - 10 * step))
        for number in range(offered):
            due = at + number * STEP / offered
            is_ok = number < goodput
            requests.append(Request(due, due + shape.latency * noise.uniform(0.9, 1.1), "ok" if is_ok else "rejected"))
    return Run(
        scenario.name,
        arm,
        seed,
        "twin",
        scenario.seconds,
        scenario.overload,
        CAPACITY,
        series,
        requests,
        cpu={"client": 1.0 + noise.uniform(0, 0.1), "ingress": 2.0},
        versions={arm: "1.0"},
    )


def make_runs(shapes: dict[str, Shape], scenario: Scenario = SUSTAINED, seeds: int = 5) -> list[Run]:
    return [make_run(arm, shape, seed, scenario) for arm, shape in shapes.items() for seed in range(1, seeds + 1)]


def make_session(shapes: dict[str, Shape], scenario: Scenario = SUSTAINED, seeds: int = 5) -> Session:
    session = Session([scenario], list(ARMS.values()), {"date": "2026-11-22", "cpu": "2 x a processor"})
    for run in make_runs(shapes, scenario, seeds):
        session.add(run)
    return session
