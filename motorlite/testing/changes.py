"""Pure: judges change streams: each change once, in order, and none missing, also across resumes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from motorlite.testing.documents import writes_of
from motorlite.testing.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from motorlite.testing.journal import Begun, Entry, Key, Operation

__all__ = ["judge_changes"]

# The events that writes become. Lists may be created by the first append, so that both are the same.
EVENTS: Final = {
    "insert": "insert",
    "update": "update",
    "increment": "update",
    "replace": "replace",
    "delete": "delete",
}
APPENDED: Final = {"insert": "append", "update": "append"}
# The events of these collections are known from the operations.
KNOWN: Final = frozenset({"accounts", "transfers", "counters", "registers", "lists", "fs.files"})

Change: TypeAlias = tuple[str, "Key", str]
"""Collection, key and operation."""


@dataclass(frozen=True, slots=True, eq=False)
class _Cause:
    """One write that becomes an event.

    Attributes:
        operation: Its operation.
        end: When it was known to have happened; infinite: not known.
        must_appear: Whether it certainly happened, and changed something.
    """

    operation: Operation
    end: float
    must_appear: bool


@dataclass(slots=True, eq=False)
class _Stream:
    """What a change stream showed."""

    name: str
    collections: frozenset[str]
    watching: Begun
    changes: list[Begun] = field(default_factory=list)
    is_stopped: bool = False


def judge_changes(
    performed: Iterable[Operation], documents: Mapping[str, Iterable[Key]], lists: Mapping[Key, Sequence[int]]
) -> Iterator[Finding]:
    """Judge the observations of change streams.

    Args:
        performed: All operations of a journal.
        documents: The ids of the documents of each collection, afterwards.
        lists: The lists, afterwards.
    """
    performed = list(performed)
    streams: dict[str, _Stream] = {}
    for each in performed:
        name = str(each.details.get("stream"))
        match each.kind:
            case "watching" if name not in streams:
                streams[name] = _Stream(name, frozenset(each.details["collections"]), each.begun)
            case "change":
                if name not in streams:
                    raise ValueError(f"the journal has a change of {name!r}, which is not watching")
                streams[name].changes.append(each.begun)
            case "stopped":
                if name in streams:
                    streams[name].is_stopped = True
    if not streams:
        return
    causes = _causes(performed, {name: set(ids) for name, ids in documents.items()}, lists)
    for stream in streams.values():
        yield from _judge_tokens(stream)
        yield from _judge_order(stream, causes)
        yield from _judge_counts(stream, causes)


def _causes(
    performed: Sequence[Operation], documents: Mapping[str, set[Key]], lists: Mapping[Key, Sequence[int]]
) -> dict[Change, list[_Cause]]:
    """The writes that may have become each change."""
    causes: dict[Change, list[_Cause]] = defaultdict(list)
    writes = [write for operation in performed for write in writes_of(operation)]
    touched: dict[tuple[str, Key], int] = defaultdict(int)
    values: dict[tuple[str, Key, str | None], int] = defaultdict(int)
    for write in writes:
        touched[write.collection, write.id] += 1
        values[write.collection, write.id, write.value] += 1
    for write in writes:
        must_appear = write.is_certain
        if touched[write.collection, write.id] == 1 and write.op == "insert" and not must_appear:
            if write.id not in documents.get(write.collection, ()):
                continue
            must_appear = True
        elif write.op in ("update", "replace"):
            # To write what is there is no change.
            must_appear = must_appear and values[write.collection, write.id, write.value] == 1
        cause = _Cause(write.operation, write.end, must_appear)
        causes[write.collection, write.id, EVENTS[write.op]].append(cause)
        if write.operation.kind == "transfer":
            for key in (write.operation.details["source"], write.operation.details["target"]):
                causes["accounts", key, "update"].append(cause)
    there = {(key, value) for key, found in lists.items() for value in found}
    for operation in performed:
        if operation.outcome != "failed":
            for change, was_seen in _others(operation, there):
                causes[change].append(_Cause(operation, operation.end, operation.outcome == "ok" or was_seen))
    return causes


def _others(operation: Operation, there: set[tuple[Key, int]]) -> Iterator[tuple[Change, bool]]:
    """Changes of operations on counters, registers, lists and files, and whether their effect was seen."""
    details = operation.details
    match operation.kind:
        case "count":
            yield ("counters", details["counter"], "update"), False
        case "register" if details["op"] != "read" and operation.result.get("swapped", True):
            yield ("registers", details["key"], "update"), False
        case "append":
            for op, key, value in details["ops"]:
                if op == "append" and (operation.outcome == "ok" or (key, value) in there):
                    yield ("lists", key, "append"), (key, value) in there
        case "upload":
            yield ("fs.files", details["file"], "insert"), False
        case "delete_file":
            yield ("fs.files", details["file"], "delete"), False


def _change(entry: Begun) -> Change:
    collection, operation = entry.details["collection"], entry.details["operation"]
    if collection == "lists":
        operation = APPENDED.get(operation, operation)
    return collection, entry.details["key"], operation


def _shown(change: Change) -> str:
    return f"the {change[2]} of {change[1]!r} in {change[0]}"


def _judge_tokens(stream: _Stream) -> Iterator[Finding]:
    seen: dict[str, Begun] = {}
    highest: Begun | None = None
    for entry in stream.changes:
        token = entry.details["token"]
        if token in seen:
            message = f"{stream.name} delivered {_shown(_change(entry))} again"
            yield Finding("delivered twice", message, (seen[token], entry))
        elif highest is not None and token < highest.details["token"]:
            message = f"{stream.name} delivered {_shown(_change(entry))} after a later change"
            yield Finding("out of order", message, (highest, entry))
        else:
            highest = entry
        seen.setdefault(token, entry)


def _judge_order(stream: _Stream, causes: Mapping[Change, list[_Cause]]) -> Iterator[Finding]:
    """What ended before something else began must come before it."""
    latest: tuple[_Cause, Begun] | None = None
    for entry in stream.changes:
        possible = causes.get(_change(entry), ())
        if len(possible) != 1:
            continue
        cause = possible[0]
        if latest is not None and cause.end < latest[0].operation.begin:
            first, second = cause.operation, latest[0].operation
            message = f"{stream.name} delivered the change of #{second.begun.id} before that of #{first.begun.id}"
            yield Finding("out of order", message, (*first.entries, *second.entries, latest[1], entry))
        if latest is None or cause.operation.begin > latest[0].operation.begin:
            latest = cause, entry


def _judge_counts(stream: _Stream, causes: Mapping[Change, list[_Cause]]) -> Iterator[Finding]:
    seen: dict[Change, list[Begun]] = defaultdict(list)
    for entry in stream.changes:
        seen[_change(entry)].append(entry)
    collections = {change[0] for change in causes} | KNOWN
    until = inf
    if stream.is_stopped:
        begins = (cause.operation.begin for change in seen for cause in causes.get(change, ())[:1])
        until = max(begins, default=-inf)
    for change, entries in seen.items():
        possible = causes.get(change, [])
        if len(entries) > len(possible) and change[0] in collections:
            kind = "delivered twice" if possible else "stranger"
            message = f"{stream.name} delivered {_shown(change)} {len(entries)} times, not {len(possible)}"
            yield Finding(kind, message, (*entries, *_entries(possible)))
    for change, possible in causes.items():
        if change[0] not in stream.collections:
            continue
        due = [cause for cause in possible if cause.must_appear and cause.operation.begin > stream.watching.time]
        due = [cause for cause in due if until == inf or cause.end < until]
        if len(seen.get(change, ())) < len(due):
            message = f"{stream.name} delivered {_shown(change)} {len(seen.get(change, ()))} times, not {len(due)}"
            yield Finding("missing change", message, (stream.watching, *_entries(due)))


def _entries(causes: Iterable[_Cause]) -> tuple[Entry, ...]:
    operations = dict.fromkeys(cause.operation for cause in causes)
    return tuple(entry for operation in operations for entry in operation.entries)
