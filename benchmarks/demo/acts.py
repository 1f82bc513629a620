"""Shell: the two parts of the demo: survive an overload, and compare with other policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pymongo

from benchmarks.demo import scenario, tables
from benchmarks.demo.load import APP_NAME, PyMongoWatch, Watch, limited, prepare, reject, run_load
from benchmarks.demo.scenario import COMPARISON_LOAD, PYMONGO, SURVIVAL_LOAD
from benchmarks.demo.tables import Display, Tally
from motorlite import AsyncMongoClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.demo.scenario import Policy

    Client = AsyncMongoClient[dict[str, Any]]

FRAMES_PER_SECOND = 4


async def play(uri: str, console: Console, backend: str) -> list[str]:
    """Run both parts; return the unexpected errors."""
    client: Client = AsyncMongoClient(uri)
    async with client as control:
        await prepare(_items(control))
        tallies = [await survive(uri, control, console)]
        tallies += await compare(uri, control, console, scenario.policies(backend))
    return [surprise for tally in tallies for surprise in tally.surprises]


async def survive(uri: str, control: Client, console: Console) -> Tally:
    """Run the default policy while the server rejects a fixed share of all commands."""
    load = SURVIVAL_LOAD
    console.rule(f"[bold]The server rejects {scenario.REJECTED:.0%} of all commands", align="left")
    console.print(
        f"{load.tasks} tasks send {load.rate:.0f} requests a second. In the table:\n"
        "  goodput   requests that were served in that second\n"
        f"  tokens    the client's budget for retries, {scenario.TOKENS} at first: a retry takes one,\n"
        "            a success returns some; without tokens, the client does not retry\n"
        "  p50, p99  time from a request to its result, or to its error if it failed\n"
    )
    tally = Tally()
    with Display(console, tables.SECONDS) as display:
        async with _client(uri, tally) as client, anyio.create_task_group() as group:
            group.start_soon(run_load, _items(client), tally, load)
            try:
                await _show_seconds(client, control, tally, display)
            finally:
                with anyio.CancelScope(shield=True):
                    await reject(control, 0.0)
        tally.end_second()
        for name, counts in (("overload", tally.overloaded), ("in all", tally.total)):
            display.finished(tables.second_row("", name, counts, ""))
    console.print()
    return tally


async def _show_seconds(client: Client, control: Client, tally: Tally, display: Display) -> None:
    start = anyio.current_time()
    rejected = 0.0
    for number, phase in enumerate(scenario.timeline(), 1):
        if phase.rejected != rejected:
            rejected = phase.rejected
            await reject(control, rejected)
        for frame in range(1, FRAMES_PER_SECOND + 1):
            await anyio.sleep_until(start + number - 1 + frame / FRAMES_PER_SECOND)
            tokens = f"{client.stats().tokens:.0f}"
            display.running(tables.second_row(str(number), phase.name, tally.now, tokens))
        ended = tally.end_second(is_overloaded=phase.rejected > 0)
        display.finished(tables.second_row(str(number), phase.name, ended, f"{client.stats().tokens:.0f}"))


async def compare(uri: str, control: Client, console: Console, compared: Sequence[Policy]) -> list[Tally]:
    """Run all policies, one after the other, with the same load on the same server."""
    load = COMPARISON_LOAD
    times = " and ".join(f"between seconds {begin:g} and {end:g}" for begin, end in scenario.OVERLOADS)
    other = (
        f"The last line is PyMongo Async {pymongo.version}" if PYMONGO in compared else "PyMongo Async needs asyncio"
    )
    console.rule("[bold]The same load with other policies", align="left")
    console.print(
        f"{load.tasks} tasks send {load.rate:.0f} requests a second for {load.seconds} seconds. The server admits "
        f"{scenario.CAPACITY:.0f} attempts a second, but only {scenario.OVERLOADED_CAPACITY:.0f} {times}. It rejects "
        f"the others. {other}.\n"
    )
    tallies: list[Tally] = []
    with Display(console, tables.POLICIES) as display:
        for policy in compared:
            tallies.append(await _measure(uri, control, policy, display))
            display.finished(tables.policy_row(policy, tallies[-1], load.seconds))
    console.print(
        "\nPer request: attempts that the server saw for each request; peak/s: attempts in its worst second; p50 and "
        "p99 include failed requests. Rejecting costs this server nothing; a real server pays for every attempt, "
        "which is how a retry storm keeps it down. No policy serves more than the server admits: when an overload "
        "outlasts the backoff, the tokens run out, and the driver stops retrying.\n"
    )
    return tallies


async def _measure(uri: str, control: Client, policy: Policy, display: Display) -> Tally:
    """Run the load under one policy until its last request is done."""
    tally, start = Tally(), anyio.current_time()

    async def tick() -> None:
        second = 0
        while True:
            second += 1
            await anyio.sleep_until(start + second)
            tally.end_second()
            display.running(tables.policy_row(policy, tally, min(second, COMPARISON_LOAD.seconds)))

    async with _client(uri, tally, policy) as client, anyio.create_task_group() as group:
        group.start_soon(tick)
        async with limited(control, scenario.capacity):
            await run_load(_items(client), tally, COMPARISON_LOAD, policy.application_retries)
        group.cancel_scope.cancel()
    tally.end_second()
    return tally


def _client(uri: str, tally: Tally, policy: Policy = scenario.POLICIES[0]) -> Any:
    """The client of a policy; PyMongo's has the methods that the load uses, and its own defaults."""
    if policy.is_pymongo:
        return pymongo.AsyncMongoClient(uri, appName=APP_NAME, event_listeners=[PyMongoWatch(tally)])
    return AsyncMongoClient(uri, appname=APP_NAME, event_listeners=[Watch(tally)], **policy.options)


def _items(client: Client) -> Any:
    return client[scenario.DATABASE][scenario.COLLECTION]
