"""Pure: what is on the screen: sections of text, made from two snapshots of one client.

Rates are the differences between the two, by the time between them. What is zero is shown as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from motorlite.exporters._snapshots import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Snapshot: TypeAlias = "Mapping[str, Any]"
Tone: TypeAlias = Literal["", "good", "bad", "warning"]

# Rows of a section before the rest is left out.
MOST_ROWS: Final = 12
# Seconds from which on an operation that runs is among the slow ones.
SLOW: Final = 0.1
# Of 100 operations, as many are not slower than the column says.
PERCENTILE: Final = 95


class Row(NamedTuple):
    """The cells of a row, and how it is to be coloured."""

    cells: tuple[str, ...]
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A table. The first column and those in `left` are text; the others are numbers, aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left: tuple[str, ...] = ()
    # The rows beyond `MOST_ROWS`.
    left_out: int = 0


class VersionError(Exception):
    """The program's snapshots have a version that this command does not know."""


def check_version(snapshot: Snapshot) -> None:
    """Raise VersionError unless the snapshot is one of `VERSION`."""
    if snapshot.get("version") != VERSION:
        raise VersionError(
            f"the program's snapshots have version {snapshot.get('version')!r}, and this command reads {VERSION}: "
            f"use that of the program's motorlite, {snapshot.get('motorlite', 'of unknown version')}"
        )


def clients(older: Snapshot | None, newer: Snapshot) -> Iterator[tuple[str, list[Section]]]:
    """Yield title and sections of each client of a program."""
    before = {} if older is None else {client["id"]: client for client in older["clients"]}
    for client in newer["clients"]:
        previous = before.get(client["id"])
        seconds = 0.0 if older is None or previous is None else newer["time"] - older["time"]
        yield f"client {client['id']}: {client['name']}", list(sections(previous, client, seconds))


def sections(older: Snapshot | None, newer: Snapshot, seconds: float) -> Iterator[Section]:
    """Yield the sections of one client; `seconds` is the time between the snapshots, 0 without an older one."""
    rates = _Rates(older, newer, seconds)
    yield _operations(rates)
    yield _in_flight(rates)
    yield _servers(rates)
    yield _retries(rates)
    yield _limits(newer)
    yield _slow(newer)


class _Rates:
    """Differences between two snapshots of a client."""

    def __init__(self, older: Snapshot | None, newer: Snapshot, seconds: float) -> None:
        self.newer = newer
        self._older: Snapshot = {} if older is None else older
        self._seconds = seconds

    def difference(self, *path: str | int) -> float:
        """How much the counter at `path` has grown. One that went back began anew with another reader."""
        now, before = _at(self.newer, path), _at(self._older, path)
        return now - before if now >= before else now

    def rate(self, *path: str | int) -> float:
        """How much the counter at `path` grows in a second."""
        return self.difference(*path) / self._seconds if self._seconds else 0.0


def _at(snapshot: Any, path: Sequence[str | int]) -> float:
    found: Any = snapshot
    for key in path:
        try:
            found = found[key]
        except (KeyError, IndexError):
            return 0.0
    return float(found)


# --- sections ---


def _operations(rates: _Rates) -> Section:
    found = rates.newer["watched"]["operations"]
    rows = []
    for name, counts in found.items():
        here = ("watched", "operations", name)
        buckets = [rates.difference(*here, "buckets", number) for number in range(len(counts["buckets"]))]
        ended = sum(buckets)
        mean = rates.difference(*here, "seconds") / ended if ended else 0.0
        speeds = [rates.rate(*here, outcome) for outcome in ("succeeded", "failed", "cancelled")]
        slowest = percentile(rates.newer["watched"]["bounds"], buckets, PERCENTILE / 100)
        row = (name, *(number(each) for each in speeds), duration(mean), slowest)
        rows.append((sum(speeds), Row(row, _tone(speeds[1], "bad"))))
    rows.sort(key=lambda each: -each[0])
    columns = ("operation", "ok", "failed", "cancelled", "mean", f"p{PERCENTILE}")
    return _section("operations per second", columns, [row for _, row in rows])


def _in_flight(rates: _Rates) -> Section:
    watched = rates.newer["watched"]
    phases = {**dict.fromkeys(watched["in_flight"]), **dict.fromkeys(watched["lost"])}
    # The reply is what an operation is there to wait for: only that of one whose time ran out is lost.
    rows, total = [], 0.0
    for phase in sorted(phases, key=lambda phase: (phase != "reply", phase)):
        lost = rates.rate("watched", "lost", phase)
        total += lost
        rows.append(
            Row((phase, number(watched["in_flight"].get(phase, 0)), duration(lost)), _tone(lost >= 1, "warning"))
        )
    rows.append(Row(("all", number(sum(watched["in_flight"].values())), duration(total))))
    return _section("phases", ("phase", "in flight", "lost/s"), rows)


def _servers(rates: _Rates) -> Section:
    rows: list[Row] = []
    for name, server in rates.newer["servers"].items():
        breaker = server["breaker"]
        state = "" if breaker is None else breaker["state"]
        tone: Tone = "bad" if server["server_type"] == "Unknown" or state == "open" else ""
        row = (
            name,
            server["server_type"],
            duration(server["round_trip_time"] or 0.0),
            *(number(server[state]) for state in ("in_use", "idle", "connecting", "pending", "waiting")),
            number(rates.rate("servers", name, "attempts")),
            state,
            number(server["concurrency_limit"] or 0),
        )
        rows.append(Row(row, tone or _tone(server["waiting"], "warning")))
    columns = (
        "server",
        "type",
        "rtt",
        "in use",
        "idle",
        "connecting",
        "late",
        "queue",
        "attempts/s",
        "breaker",
        "limit",
    )
    return _section("servers and their pools", columns, rows, left=("type", "breaker"))


def _retries(rates: _Rates) -> Section:
    newer = rates.newer
    rows: list[Row] = []
    for what, title in (("retries", "retried"), ("refusals", "refused")):
        for reason, count in newer[what].items():
            speed = rates.rate(what, reason)
            rows.append(Row((f"{title}: {reason}", number(speed), number(count)), _tone(speed, "warning")))
    for name, count in newer["watched"]["errors"].items():
        speed = rates.rate("watched", "errors", name)
        rows.append(Row((f"raised: {name}", number(speed), number(count)), _tone(speed, "bad")))
    return _section("retries and errors", ("reason", "per second", "all"), rows)


def _limits(newer: Snapshot) -> Section:
    rows: list[Row] = []
    capacity = newer["token_capacity"]
    if capacity is not None:
        is_low = newer["tokens"] < capacity / 10
        rows.append(Row(("retry tokens", f"{newer['tokens']:.0f} of {capacity:.0f}", ""), _tone(is_low, "bad")))
    for namespace, limit in newer["rate_limits"].items():
        text = f"{limit['tokens']:.0f} tokens, {limit['waiting']} waiting"
        rows.append(
            Row((f"rate limit {namespace}", text, number(limit["rejected"])), _tone(limit["waiting"], "warning"))
        )
    for name, server in newer["servers"].items():
        queue, breaker = server["queue"], server["breaker"]
        if queue is not None:
            text = f"{queue['depth']} waiting, {queue['strategy']}"
            refused = sum(queue["rejected"].values())
            rows.append(Row((f"queue {name}", text, number(refused)), _tone(queue["is_standing"], "bad")))
        if breaker is not None:
            text = f"{breaker['state']}, {breaker['failures']:,} of {breaker['operations']:,} failed"
            is_closed = breaker["state"] == "closed"
            rows.append(Row((f"breaker {name}", text, number(breaker["refused"])), _tone(not is_closed, "bad")))
        if server["retry_tokens"] is not None:
            rows.append(Row((f"retry tokens {name}", f"{server['retry_tokens']:.0f}", ""), ""))
    if newer["degraded"]:
        rows.append(Row(("answered by a fallback", number(newer["degraded"]), ""), ""))
    return _section("limits", ("limit", "now", "refused"), rows, left=("now",))


def _slow(newer: Snapshot) -> Section:
    watched = newer["watched"]
    rows: list[Row] = []
    found = [("running", each) for each in watched["running"] if each["seconds"] >= SLOW]
    found += [(each["outcome"], each) for each in watched["slow"]]
    found.sort(key=lambda each: -each[1]["seconds"])
    for outcome, each in found:
        row = (
            each["operation"],
            each["namespace"],
            duration(each["seconds"]),
            each["phase"],
            outcome,
            number(each["attempts"]),
            each["server"] or "",
        )
        rows.append(Row(row, "warning" if outcome == "running" else _tone(outcome != "ok", "bad")))
    columns = ("operation", "namespace", "time", "phase", "outcome", "attempts", "server")
    left = ("namespace", "phase", "outcome", "server")
    return _section("slow operations", columns, rows, left=left)


def _section(title: str, columns: tuple[str, ...], rows: Sequence[Row], left: tuple[str, ...] = ()) -> Section:
    return Section(title, columns, tuple(rows[:MOST_ROWS]), left, max(0, len(rows) - MOST_ROWS))


def _tone(is_so: object, tone: Tone) -> Tone:
    return tone if is_so else ""


# --- cells ---


def number(value: float) -> str:
    """Return a count or rate; nothing for zero."""
    if not value:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Return a duration with its unit; nothing for zero."""
    if seconds < 0.000_05:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


def percentile(bounds: Sequence[float], buckets: Sequence[float], share: float) -> str:
    """Return the bound that this share of the durations in a histogram does not exceed; nothing without durations."""
    wanted, count = sum(buckets) * share, 0.0
    if not wanted:
        return ""
    for bound, more in zip(bounds, buckets, strict=False):
        count += more
        if count >= wanted:
            return f"≤ {duration(bound)}"
    return f"> {duration(bounds[-1])}"
