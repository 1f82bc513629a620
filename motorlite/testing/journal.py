"""Pure: the journal of a workload: what it asked for and what it was promised, in memory and in an optional file.

A workload writes an entry before each operation and one after it. What the journal says is judged later, against the
data that the deployment then holds: `motorlite.testing.account`. The journal therefore uses nothing of the driver, and
a caller passes the clock. All entries of one journal need comparable times: seconds of ``time.monotonic`` on one
machine, or virtual seconds.

With a file, each entry is one line of JSON, appended with a single ``os.write`` before the method returns. The lines
outlive a killed process, though not a machine that loses power. A process that ends in the middle of a line leaves the
operation as it was before that entry, and the next `Journal` of that file cuts the torn line off.

Operations, with the details that they begin with and, after an arrow, those that they end with:

- ``transfer``: `source`, `target`, `amount`, `id`. A transaction that takes `amount` from the document `source` of
  ``accounts``, adds it to `target`, and inserts a document with these four (`id` as its `_id`) into ``transfers``.
- ``insert``: `collection`, `ids` → `applied`: ids that were certainly inserted.
- ``count``: `counter` → `value`. Adds 1 to it in ``counters`` and returns the value after that.
- ``bulk``: `writes`: objects with `op`, `collection`, `id`, and `value` where one is set → `applied`: positions of
  writes that certainly happened; `inserted`, `updated`, `replaced`, `deleted`, `incremented`: how many did. The `op`
  is `insert`, `replace` or `update` (which set the field `value`, if there is one), `delete`, or `increment` (which
  adds 1 to the field `n`). Only `insert` may meet a document that does not exist.
- ``upload``: `file`, `length` (bytes), `digest` (SHA-256, hexadecimal). One that failed has left no chunk.
- ``delete_file``: `file` → `is_whole`: the file may be there or not, but if it is not, its chunks are not either.
- ``register``: `op` (`read`, `write` or `cas`), `key`, `value` (not for `read`), `expected` (for `cas`) → `value` (of
  `read`), `swapped` (of `cas`; true if missing).
- ``append``: `ops`: a transaction of ``["append", key, value]`` and ``["read", key, None]`` → `ops`, with the lists
  that were read. Every value is appended to a key once.

All of an operation that ends as ``ok`` happened. One that ends as ``failed`` or ``unknown`` may name in `applied` what
happened; if it failed, the rest certainly did not.

Observations, which have no end:

- ``start``: what was there before: `accounts`, `counters`, `registers`, `lists`: each a list of ``[key, value]``.
- ``watching``: `stream`, `collections`. A change stream has been opened: the server has answered.
- ``change``: `stream`, `token`, `collection`, `key`, `operation`. `token` is a text that ascends in the order of the
  changes, as the field ``_data`` of resume tokens does; `operation` is the event's `operationType`.
- ``resumed``: `stream`, `token` (or None), `why`.
- ``stopped``: `stream`. It is not read any more, although changes may be left.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "Begun",
    "Ended",
    "Entry",
    "Journal",
    "Key",
    "Operation",
    "Outcome",
    "as_line",
    "from_line",
    "operations",
    "read",
]

Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
"""``ok``: acknowledged. ``failed``: certainly not applied. ``unknown``: may have been applied, now or later."""

Key: TypeAlias = str | int
"""An `_id` that the workload chose."""

KINDS: Final = frozenset({"transfer", "insert", "count", "bulk", "upload", "delete_file", "register", "append"})
"""The kinds of operations that the account judges."""

OBSERVATIONS: Final = frozenset({"start", "watching", "change", "resumed", "stopped"})
"""The kinds of entries that have no end."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An operation starts, or something was observed.

    Attributes:
        id: Unique in the run; 0 or more.
        process: The logical task that does it, one operation at a time. A task whose operation ended as unknown should
            go on as a new process: the old one may still be busy.
        kind: What it is about; see the module.
        details: Values that JSON can hold; see the module.
        time: When, in seconds; comparable with the other entries.
    """

    id: int
    process: int
    kind: str
    details: Mapping[str, Any]
    time: float


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation returned.

    Attributes:
        id: That of its `Begun`.
        outcome: What its caller knows.
        details: Values that JSON can hold; see the module.
        time: When, in seconds; comparable with the other entries.
    """

    id: int
    outcome: Outcome
    details: Mapping[str, Any]
    time: float


Entry: TypeAlias = Begun | Ended


def as_line(entry: Entry) -> str:
    """One line of JSON, without its newline.

    Raises:
        TypeError: A value in `details` is none that JSON can hold.
    """
    if isinstance(entry, Begun):
        fields = [entry.id, entry.process, entry.kind, entry.details, entry.time]
    else:
        fields = [entry.id, entry.outcome, entry.details, entry.time]
    return json.dumps(fields, separators=(",", ":"))


def from_line(line: str) -> Entry:
    """The entry that `as_line` wrote.

    Raises:
        ValueError: The line is none of those that `as_line` writes.
    """
    match json.loads(line):
        case [int(id_), int(process), str(kind), dict(details), int() | float() as time]:
            return Begun(id_, process, kind, details, time)
        case [int(id_), "ok" | "failed" | "unknown" as outcome, dict(details), int() | float() as time]:
            return Ended(id_, outcome, details, time)
    raise ValueError(f"not an entry of a journal: {line[:100]!r}")


def read(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a journal's file, without a torn last line.

    Raises:
        OSError: The file cannot be read.
        ValueError: A line is no entry.
    """
    with open(path, encoding="utf-8") as file:
        return [from_line(line) for line in file if line.endswith("\n")]


class Journal:
    """Writes entries down, in memory and, with a path, in a file.

    Use it as a context manager, or call `close`::

        with Journal(time.monotonic, "journal.jsonl") as journal:
            with journal.operation(journal.new_process(), "insert", collection="orders", ids=[7]):
                await orders.insert_one({"_id": 7})

    `begin` and `end` do the same in two steps, for a caller that knows better what became of the operation.

    A journal whose file exists goes on where the file ends: `entries` has what was in it, and ids and processes have
    new numbers. Programs that write at the same time need files of their own, and a `first` of their own.

    Args:
        clock: Returns the time, in seconds.
        path: The file; None: memory only.
        first: The first id and the first process.

    Raises:
        OSError: The file cannot be opened.
        ValueError: The file has a line that is no entry.

    Attributes:
        entries: What was written so far.
    """

    def __init__(
        self, clock: Callable[[], float], path: str | os.PathLike[str] | None = None, *, first: int = 0
    ) -> None:
        self.entries: list[Entry] = []
        self._clock = clock
        self._next_id = first
        self._next_process = first
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._continue(path)
            except BaseException:
                self.close()
                raise

    def _continue(self, path: str | os.PathLike[str]) -> None:
        assert self._file is not None
        self.entries = read(path)
        with open(path, "rb") as file:
            os.ftruncate(self._file, file.read().rfind(b"\n") + 1)
        for entry in self.entries:
            self._next_id = max(self._next_id, entry.id + 1)
            if isinstance(entry, Begun):
                self._next_process = max(self._next_process, entry.process + 1)

    def new_process(self) -> int:
        """The number of a process that has done nothing yet."""
        self._next_process += 1
        return self._next_process - 1

    def begin(self, process: int, kind: str, /, **details: Any) -> int:
        """Write that an operation starts; call it before anything is sent.

        Returns:
            The operation's id.

        Raises:
            OSError: The file cannot be written; the operation must not start.
            TypeError: A detail is none that JSON can hold.
        """
        self._next_id += 1
        self._write(Begun(self._next_id - 1, process, kind, details, self._clock()))
        return self._next_id - 1

    def end(self, operation: int, outcome: Outcome, /, **details: Any) -> None:
        """Write what became of an operation.

        Raises:
            OSError: The file cannot be written; the operation counts as unknown.
            TypeError: A detail is none that JSON can hold.
        """
        self._write(Ended(operation, outcome, details, self._clock()))

    @contextmanager
    def operation(self, process: int, kind: str, /, **details: Any) -> Iterator[dict[str, Any]]:
        """Write down the operation that the block performs, before and after it.

        It ends as ``ok``, or with the error that leaves the block: as ``failed`` if the error has an attribute
        `may_have_been_executed` that is False, as the driver's errors may have, and as ``unknown`` otherwise, also when
        the block is cancelled. Such an error speaks of one call of the driver, or of one transaction; a block of
        several calls needs `begin` and `end`.

        Yields:
            The details that the operation ends with, for the block to fill in.

        Raises:
            OSError: As `begin` and `end`.
            TypeError: As `begin` and `end`.
        """
        operation = self.begin(process, kind, **details)
        result: dict[str, Any] = {}
        outcome: Outcome = "unknown"
        try:
            yield result
            outcome = "ok"
        except BaseException as error:
            if getattr(error, "may_have_been_executed", True) is False:
                outcome = "failed"
            raise
        finally:
            self.end(operation, outcome, **result)

    def observe(self, process: int, kind: str, /, **details: Any) -> None:
        """Write an observation, which has no end.

        Raises:
            OSError: The file cannot be written.
            TypeError: A detail is none that JSON can hold.
        """
        self.begin(process, kind, **details)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, entry: Entry) -> None:
        # In memory too: `report` shows the details as JSON, and it would raise only when something is wrong.
        rest = line = memoryview(as_line(entry).encode() + b"\n")
        if self._file is not None:
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError:
                # The disk is full: the next entry must not begin in the middle of a torn line.
                os.ftruncate(self._file, os.fstat(self._file).st_size - (len(line) - len(rest)))
                raise
        self.entries.append(entry)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation as a whole, or an observation.

    Attributes:
        begun: How it started.
        ended: How it ended; None: its process ended first.
    """

    begun: Begun
    ended: Ended | None = field(default=None)

    @property
    def kind(self) -> str:
        """What it is about."""
        return self.begun.kind

    @property
    def details(self) -> Mapping[str, Any]:
        """What it began with."""
        return self.begun.details

    @property
    def result(self) -> Mapping[str, Any]:
        """What it ended with."""
        return {} if self.ended is None else self.ended.details

    @property
    def outcome(self) -> Outcome:
        """What its caller knows; unknown if it did not end."""
        return "unknown" if self.ended is None else self.ended.outcome

    @property
    def begin(self) -> float:
        """When it started, in seconds."""
        return self.begun.time

    @property
    def end(self) -> float:
        """After this time it has no further effect, in seconds; infinite if its outcome is unknown."""
        return inf if self.ended is None or self.ended.outcome == "unknown" else self.ended.time

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Its entries."""
        return (self.begun,) if self.ended is None else (self.begun, self.ended)


def operations(entries: Iterable[Entry]) -> Sequence[Operation]:
    """Join what began with what ended, in the order of the beginnings.

    Raises:
        ValueError: An id began or ended twice, ended without a beginning or before it, or an observation ended. Such a
            journal proves nothing.
    """
    begun: dict[int, Begun] = {}
    ended: dict[int, Ended] = {}
    for entry in entries:
        known: dict[int, Any] = begun if isinstance(entry, Begun) else ended
        if entry.id in known:
            raise ValueError(f"the journal has two entries like {entry}")
        known[entry.id] = entry
    for id_, end in ended.items():
        if id_ not in begun or begun[id_].time > end.time or begun[id_].kind in OBSERVATIONS:
            raise ValueError(f"the journal has no beginning for {end}")
    joined = [Operation(begin, ended.get(id_)) for id_, begin in begun.items()]
    return sorted(joined, key=lambda operation: operation.begin)
