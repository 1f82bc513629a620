"""Shell: `python -m benchmarks scale`: how the drivers scale, with a report and a plot."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymongo

from benchmarks.arms import ARMS, DEFAULT_ARMS, POOL_SIZE, arm_uri, names
from benchmarks.figures import write_report
from benchmarks.processes import say
from benchmarks.scale import growth
from benchmarks.scale.report import Results, as_json, as_markdown, plot
from benchmarks.scale.sections import COMPRESSORS, GROWTH, NAMES, PLAIN, SECTIONS, SERVERS, VARIANTS
from benchmarks.speed.rounds import GRACE, Run, documents, facts, present
from benchmarks.speed.targets import FLOOR
from benchmarks.speed.workloads import MIXTURE
from benchmarks.storm.report.plots import write as write_plot

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.figures import Round
    from benchmarks.scale.sections import Section
    from benchmarks.speed.rounds import Loaded

# Two minutes, which show that everything works; what is left out takes longest.
QUICK: Final[dict[str, Any]] = {"rounds": 1, "seconds": 0.2, "warm_up": 200}
NOT_QUICK: Final[dict[str, Sequence[int]]] = {"tasks": (8, 10_000), "processes": (4, 8)}
PLOTTED: Final = "a"


def run(arguments: argparse.Namespace) -> int:
    """Measure the sections, and write the report; return the exit status."""
    if arguments.quick:
        vars(arguments).update(QUICK)
    arms, lacking = present(arguments.arms)
    if not arms:
        say("there is no arm left to measure")
        return 1
    started, busy = time.monotonic(), os.getloadavg()[0]
    results: Results = {}
    version = ""
    for letter, section in SECTIONS.items():
        if letter in arguments.sections:
            chosen = section.without(**NOT_QUICK) if arguments.quick else section
            say(f"{letter}: {section.title}")
            rounds, failures, version = measure(chosen, arms, arguments)
            results[letter] = rounds, {**lacking, **failures}
            say(f"after {time.monotonic() - started:.0f} s")
    grown = growth.measure(quick=arguments.quick) if GROWTH in arguments.sections else []
    found = {
        **facts(arms, version, busy),
        "rounds": arguments.rounds,
        "seconds_per_round": arguments.seconds,
        "seconds": round(time.monotonic() - started),
        "plot": _plot(results, arguments.reports),
    }
    text = as_markdown(_headline(found, arguments.warm_up), found, results, grown)
    print(text)
    write_report(arguments.reports, "scale", text, as_json(found, results, grown))
    return 0 if all(rounds for rounds, _ in results.values()) else 1


def measure(
    section: Section, arms: Sequence[str], arguments: argparse.Namespace
) -> tuple[list[Round], dict[str, str], str]:
    """The rounds of a section, why arms are left out, and the version of the server.

    All variants take part in each round, so that they can be compared as arms can.
    """
    from motorlite.testing import LocalServer

    servers: dict[str, tuple[str, Loaded]] = {}
    runs: dict[str, Run] = {}
    version = ""
    with ExitStack() as stack:
        for name in section.variants:
            kind, options = VARIANTS[name]
            if kind not in servers:
                started = stack.enter_context(LocalServer.start(own=True, **SERVERS[kind]))
                uri = arm_uri(started.uri)
                # On all members, where it is read at once.
                acknowledged = f"{uri}&w={SERVERS[kind].get('nodes', 1)}"
                servers[kind] = uri, stack.enter_context(documents(acknowledged, all_sizes=True))
            uri, loaded = servers[kind]
            version = loaded.version
            able = [arm for arm in arms if arm != FLOOR or name == PLAIN]
            copies = section.processes(name)
            uri = f"{uri}&{options}" if options else uri
            runs[name] = stack.enter_context(Run(able, uri, loaded, copies=copies))
            say(f"warming up {', '.join(able)}{f' with {name}' if name else ''}")
            warm_up(runs[name], name, uri, arguments.warm_up, copies, max(case.tasks for case in section.cases))
        for number in range(arguments.rounds):
            for case in section.cases:
                runs[case.variant].once(
                    case.operation,
                    case.tasks,
                    number,
                    {"seconds": arguments.seconds},
                    title=case.title,
                    copies=case.processes,
                )
            say(f"round {number + 1} of {arguments.rounds} done")
    rounds = [one for run in runs.values() for one in run.results]
    order = [(case.title, case.tasks) for case in section.cases]
    rounds.sort(key=lambda one: order.index((one.operation, one.tasks)))
    failures = {
        f"{arm}{f' with {name}' if name else ''}": why
        for name, run in runs.items()
        for arm, why in run.failures.items()
    }
    return rounds, failures, version


def warm_up(run: Run, variant: str, uri: str, operations: int, copies: int, tasks: int) -> None:
    """Run discarded operations on each arm; one that does not compress, though it should, is left out."""
    for arm in run.turns(0):
        before = compressed(uri, variant)
        tasks = min(tasks, 500)
        run.ask(arm, GRACE, copies, operation="find_one", tasks=tasks, operations=max(operations, tasks))
        if before is not None and arm not in run.failures and compressed(uri, variant) == before:
            run.leave_out(arm, f"it does not compress with {variant}")


def compressed(uri: str, variant: str) -> int | None:
    """The bytes that a server has received compressed so; None if that is no compressor."""
    if variant not in COMPRESSORS:
        return None
    with pymongo.MongoClient[dict[str, Any]](uri.partition("&compressors")[0]) as client:
        network = client.admin.command("serverStatus")["network"]
    return int(network["compression"][variant]["decompressor"]["bytesIn"])


def _plot(results: Results, folder: Path) -> str | None:
    """Write the plot; return the name of its file, or None if there is nothing to plot, or nothing to plot with."""
    rounds, _ = results.get(PLOTTED, ([], {}))
    if not rounds:
        return None
    try:
        return write_plot(plot(rounds), folder / "scale.svg").name
    except ImportError as error:
        say(f"no plot: {error}")
        return None


def _headline(found: dict[str, Any], warm_up: int) -> str:
    mixture = ", ".join(f"{share * 100 // sum(MIXTURE.values())} % {name}" for name, share in MIXTURE.items())
    return "\n".join(
        (
            f"Pools of {POOL_SIZE}, medians of {found['rounds']} interleaved rounds of {found['seconds_per_round']:g} s"
            f" after {warm_up:,} discarded operations of each process. Mixed operations are {mixture}.",
            f"MongoDB {found['server'] or 'not used'}, Python {found['python']}, {found['cores']} cores,"
            f" measured in {found['seconds']} s.",
            f"Load average before the run: {found['load_before']:.2f}"
            + (" (the machine was busy, so the figures are noisy)." if found["load_before"] > 0.5 else "."),
        )
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    sections = ", ".join(f"{letter} ({title})" for letter, title in NAMES.items())
    add("--sections", type=names(NAMES, "sections"), default=[*NAMES], help=f"default: all of {sections}")
    add("--rounds", type=int, default=5, help="default: 5")
    add("--seconds-per-round", dest="seconds", type=float, default=1.0, help="default: 1")
    add("--warm-up", type=int, default=5000, help="discarded operations of each process (default: 5000)")
    add("--quick", action="store_true", help="one short round of fewer cases, which proves nothing")
    default = [arm for arm in DEFAULT_ARMS if arm != "motor"]
    add("--arms", type=names(ARMS), default=default, help=f"of {', '.join(ARMS)} (default: all but motor and anyio's)")
    add("--reports", type=Path, default=Path("reports"), metavar="DIR", help="default: reports")
