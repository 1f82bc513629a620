"""Shell: `python -m benchmarks storm`: runs scenarios with all arms and seeds, and writes the report."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.figures import markdown
from benchmarks.processes import ROOT
from benchmarks.storm import agreement
from benchmarks.storm.arms import WrongPolicyError, parse_arm
from benchmarks.storm.plan import QUICK_SEEDS, SEEDS, Step, plan
from benchmarks.storm.report import tables
from benchmarks.storm.scenario import reshaped, shortened
from benchmarks.storm.scenarios import ALL, STANDARD, NoScenarioError, everything, find
from benchmarks.storm.session import Session, SessionError, load, machine, save

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.report.live import View
    from benchmarks.storm.results import Run
    from benchmarks.storm.scenario import Scenario

OUT: Final = Path("reports/storm")
DOCS: Final = ROOT / "docs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"names, {STANDARD!r} (default), {ALL!r}, or paths to Python files with a SCENARIO",
    )
    add("--list", action="store_true", help="list the scenarios, and run nothing")
    add("--backend", choices=("sockets", "twin"), help="default: sockets for the standard scenarios, else the twin")
    add("--arms", help="comma-separated names of arms instead of the scenario's own")
    add("--policy", action="append", metavar="ARM[:FIELD=VALUE,...]", help="an arm of your own, e.g. default:tokens=50")
    add("--seeds", type=int, help=f"runs of each arm (default: {SEEDS}; {QUICK_SEEDS} with --quick)")
    add("--quick", action="store_true", help="shorter runs with fewer seeds")
    add("--capacity", type=float, help="requests per second of each server; the load changes in proportion")
    add("--clients", type=int, help="clients, each with its own pools and its own budget")
    add("--rate", type=float, help="requests per second of all clients, outside of the overload")
    add("--out", type=Path, default=OUT, metavar="DIR", help=f"where the report goes (default: {OUT})")
    add("--processes", type=int, default=os.cpu_count(), help="processes of the simulation (default: one per CPU)")
    add("--compare", type=Path, metavar="OLD.json", help="also print how the figures differ from an earlier session")
    add("--ceiling", action="store_true", help="measure what the ingress can pass at most on this machine, and end")
    add("--agreement", action="store_true", help="run one scenario on both backends; exits 1 if they differ too much")
    add = parser.add_argument_group("reading a session's file instead of running anything").add_argument
    add("--markdown", type=Path, metavar="SESSION.json", help="print its tables as markdown")
    add("--page", type=Path, metavar="SESSION.json", help="write its HTML page anew, beside it")
    add("--plots", type=Path, metavar="SESSION.json", help="write the plots of README and pages to docs/")
    add("--read", type=Path, metavar="SESSION.json", help="print its tables, and with --compare what changed")


def run(arguments: argparse.Namespace) -> int:
    path = arguments.markdown or arguments.page or arguments.plots or arguments.read
    try:
        old = None if arguments.compare is None else load(arguments.compare)
        if path is not None:
            new = load(path)
            _read(arguments, new, path)
        elif arguments.list:
            return _list()
        elif arguments.ceiling:
            return _ceiling()
        elif arguments.agreement:
            return _agreement(arguments)
        else:
            new = execute(list(_plan(arguments)), arguments.processes)
            _report(new, arguments.out)
    except (OSError, SessionError, NoScenarioError, WrongPolicyError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if old is not None:
        print(f"\n{tables.compare(old, new)}")
    return 0


def _read(arguments: argparse.Namespace, session: Session, path: Path) -> None:
    if arguments.markdown:
        print(tables.as_markdown(session))
    if arguments.page:
        from benchmarks.storm.report import page

        target = path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ".html")
        page.write(session, target)
        print(target)
    if arguments.plots:
        from benchmarks.storm.report import plots

        print("\n".join(map(str, plots.for_docs(session, DOCS))) or "The session has no such scenario.")
    if arguments.read:
        print(tables.text(session))


def _agreement(arguments: argparse.Namespace) -> int:
    """Run one scenario on both backends, print the table; 1 if a figure is outside of its band, or there are none."""
    scenarios, seeds = find([agreement.SCENARIO]), arguments.seeds or SEEDS
    arms = [parse_arm(name) for name in (arguments.arms.split(",") if arguments.arms else agreement.ARMS)]
    steps = [*plan(scenarios, arms, seeds, "sockets"), *plan(scenarios, arms, seeds, "twin")]
    session = execute(steps, arguments.processes)
    save(session, arguments.out / "agreement.json.gz")
    found = list(agreement.rows(*(session.groups(agreement.SCENARIO, backend) for backend in ("sockets", "twin"))))
    print(f"\n{markdown([agreement.HEAD, *found])}")
    for group in session.all_groups():
        for reason in group.invalid:
            print(f"left out: {group.arm} on {group.backend}: {reason}")
    missing = {arm.name for arm in arms} - {row[0] for row in found}
    if missing:
        print(f"not compared: {', '.join(sorted(missing))}")
    return 0 if found and not missing and all(row[-1] == "agrees" for row in found) else 1


def _ceiling() -> int:
    from benchmarks.storm.sockets.bench import Bench

    with Bench() as bench:
        print(bench.ceiling())
    return 0


def _list() -> int:
    for name, scenarios in everything().items():
        print(f"{name}: {scenarios[0].question}")
        for scenario in scenarios if len(scenarios) > 1 else ():
            print(f"    {scenario.name}")
    return 0


def _plan(arguments: argparse.Namespace) -> list[Step]:
    scenarios = []
    for scenario in find(arguments.scenarios or [STANDARD]):
        shaped = reshaped(scenario, capacity=arguments.capacity, clients=arguments.clients, rate=arguments.rate)
        scenarios.append(shortened(shaped, shaped.quick_seconds) if arguments.quick else shaped)
    arms = [parse_arm(name) for name in arguments.arms.split(",")] if arguments.arms else []
    arms += [parse_arm(text) for text in arguments.policy or ()]
    seeds = arguments.seeds or (QUICK_SEEDS if arguments.quick else SEEDS)
    return list(plan(scenarios, arms or None, seeds, arguments.backend, is_quick=arguments.quick))


# --- running ---


def execute(steps: Sequence[Step], processes: int | None) -> Session:
    from rich.console import Console

    from benchmarks.storm.report.live import View

    scenarios = {step.scenario.name: step.scenario for step in steps}
    arms = {step.arm.name: step.arm for step in steps}
    session = Session(list(scenarios.values()), list(arms.values()), machine(shlex.join(sys.argv[1:])))
    with View(Console(), steps) as view:
        on_sockets = [step for step in steps if step.backend == "sockets"]
        if on_sockets:
            session.facts.update(_run_on_sockets(on_sockets, session, view))
        _simulate([step for step in steps if step.backend == "twin"], session, view, processes)
    return session


def _run_on_sockets(steps: Sequence[Step], session: Session, view: View) -> dict[str, str]:
    from benchmarks.storm.sockets.bench import Bench

    with Bench() as bench:
        for step in steps:
            view.begin(step)
            done = bench.run(step.scenario, step.arm, step.seed, view.step)
            view.finish(done, session.add(done))
        return bench.facts()


def _simulate(steps: Sequence[Step], session: Session, view: View, processes: int | None) -> None:
    if not steps:
        return
    tasks = ([step.scenario for step in steps], [step.arm for step in steps], [step.seed for step in steps])
    with ExitStack() as stack:
        if processes == 1:
            runs: Iterable[Run] = map(_simulated, *tasks)
        else:
            # Spawned: a fork would share what the runs on sockets have left behind.
            context = multiprocessing.get_context("spawn")
            runs = stack.enter_context(ProcessPoolExecutor(processes, context)).map(_simulated, *tasks)
        for step, done in zip(steps, runs, strict=True):
            view.begin(step)
            view.finish(done, session.add(done))


def _simulated(scenario: Scenario, arm: Arm, seed: int) -> Run:
    from benchmarks.storm.twin import simulate

    return simulate(scenario, arm, seed)


def _report(session: Session, out: Path) -> None:
    save(session, out / "storm.json.gz")
    try:
        from benchmarks.storm.report import page

        page.write(session, out / "storm.html")
    except ModuleNotFoundError as error:
        print(f"\nno page without {error.name}: pip install 'motorlite[bench]', then --page {out / 'storm.json.gz'}")
    print(f"\n{tables.text(session)}")
    print(f"\nThe report: {out / 'storm.html'}; all series: {out / 'storm.json.gz'}")
