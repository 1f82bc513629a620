"""Journals for tests of the account: written by hand, and of a workload on a correct database in memory."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final

from motorlite.testing.account import FinalState, StoredChunk, StoredFile
from motorlite.testing.journal import Begun, Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from motorlite.testing.journal import Entry, Outcome

CHUNK: Final = 4


class History:
    """A journal that a test writes by hand; operations overlap unless they have times.

    Attributes:
        entries: The journal.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._next = 0

    def add(
        self,
        kind: str,
        details: dict[str, Any],
        outcome: Outcome | None = "ok",
        result: dict[str, Any] | None = None,
        *,
        at: tuple[float, float] = (1, 100),
        process: int | None = None,
    ) -> History:
        """Add an operation; None as its outcome: it has no end."""
        number = self._next
        self._next += 1
        self.entries.append(Begun(number, number if process is None else process, kind, details, at[0]))
        if outcome is not None:
            self.entries.append(Ended(number, outcome, result or {}, at[1]))
        return self

    def see(self, kind: str, at: float = 0, **details: Any) -> History:
        """Add an observation."""
        return self.add(kind, details, None, at=(at, at))

    def transaction(
        self, text: str, outcome: Outcome | None = "ok", at: tuple[float, float] = (1, 100), process: int | None = None
    ) -> History:
        """Add a transaction on lists: ``ax1`` appends 1 to x, ``rx12`` reads 1 and 2 in x."""
        done = [
            ["append", op[1], int(op[2])] if op[0] == "a" else ["read", op[1], [int(digit) for digit in op[2:]]]
            for op in text.split()
        ]
        asked = [[op, key, None if op == "read" else value] for op, key, value in done]
        result = {"ops": done} if outcome == "ok" else None
        return self.add("append", {"ops": asked}, outcome, result, at=at, process=process)


@dataclass(slots=True, eq=False)
class _Running:
    id: int
    steps: Generator[None, None, tuple[Outcome, dict[str, Any]]]


class Workload:
    """Processes that work on a database in memory, and keep a journal.

    Operations overlap. Some end as unknown and happen later or never. Transactions on lists are those of snapshot
    isolation, or serial ones.

    Attributes:
        entries: The journal.
        writers: The processes.
    """

    def __init__(self, seed: int, *, is_serial: bool = False, unknown: float = 0.08, processes: int = 4) -> None:
        self.random = Random(seed)
        self.entries: list[Entry] = []
        self._is_serial = is_serial
        self._unknown = unknown
        self._time = 0
        self._next = 0
        self._value = 0
        self._processes: dict[int, _Running | None] = dict.fromkeys(range(processes))
        self._left: list[_Running] = []
        self._documents: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._files: dict[str, StoredFile] = {}
        self._chunks: list[StoredChunk] = []
        self._accounts = dict.fromkeys(range(4), 100)
        self._counters = dict.fromkeys("cd", 0)
        self._registers: dict[str, int | None] = {"r": None, "s": 0}
        self._lists: dict[str, list[int]] = {"x": [], "y": [], "z": []}
        self._owned: list[str] = []
        self._stored: list[str] = []
        self._log: list[tuple[str, Any, str]] = []
        self._streams: dict[str, int] = {}
        self._see("start", accounts=list(map(list, self._accounts.items())), registers=[["s", 0]])

    def run(self, steps: int = 200) -> FinalState:
        """Let the processes do something, this many times."""
        for _ in range(steps):
            self._time += 1
            if self._left and self.random.random() < 0.1:
                self._finish(self._left.pop(self.random.randrange(len(self._left))))
            if self.random.random() < 0.2:
                self._watch()
            self._advance(self.random.choice(list(self._processes)), may_begin=True)
        while any(self._processes.values()):
            self._time += 1
            self._advance(self.random.choice(list(self._processes)), may_begin=False)
        for running in self._left:
            self._finish(running)
        for stream in self._streams:
            while self._read(stream):
                pass
        return FinalState(
            documents={name: list(found.values()) for name, found in self._documents.items()},
            files=list(self._files.values()),
            chunks=self._chunks,
            balances=self._accounts,
            counters=self._counters,
            registers=self._registers,
            lists=self._lists,
        )

    # --- processes ---

    def _advance(self, process: int, *, may_begin: bool) -> None:
        running = self._processes[process]
        if running is None:
            if may_begin:
                kinds = (
                    self._transfer,
                    self._insert,
                    self._count,
                    self._bulk,
                    self._file,
                    self._register,
                    self._append,
                )
                kind, details, steps = self.random.choice(kinds)()
                self.entries.append(Begun(self._next, process, kind, details, self._time))
                self._processes[process] = _Running(self._next, steps)
                self._next += 1
        elif self.random.random() < self._unknown:
            del self._processes[process]
            self._processes[max([process, *self._processes]) + 100] = None
            if self.random.random() < 0.6:
                self._left.append(running)
            if self.random.random() < 0.5:
                self.entries.append(Ended(running.id, "unknown", {}, self._time))
        else:
            try:
                next(running.steps)
            except StopIteration as stop:
                outcome, result = stop.value
                self.entries.append(Ended(running.id, outcome, result, self._time))
                self._processes[process] = None

    def _finish(self, running: _Running) -> None:
        for _ in running.steps:
            self._time += 1

    def _see(self, kind: str, **details: Any) -> None:
        self.entries.append(Begun(self._next, -1, kind, details, self._time))
        self._next += 1

    def _new(self) -> int:
        self._value += 1
        return self._value

    # --- change streams ---

    def _watch(self) -> None:
        if len(self._streams) < 2 and self.random.random() < 0.3:
            name = f"stream {len(self._streams)}"
            self._streams[name] = len(self._log)
            self._see("watching", stream=name, collections=["inserts", "transfers", "bulk", "counters", "lists"])
        elif self._streams:
            name = self.random.choice(list(self._streams))
            if self.random.random() < 0.1:
                self._see("resumed", stream=name, token=None, why="a test")
            self._read(name)

    def _read(self, stream: str) -> bool:
        position = self._streams[stream]
        if position == len(self._log):
            return False
        collection, key, operation = self._log[position]
        self._streams[stream] += 1
        if collection not in ("accounts", "registers", "fs.files"):
            token = f"{position:08}"
            self._see("change", stream=stream, token=token, collection=collection, key=key, operation=operation)
        return True

    # --- operations: their kind, their details, and their steps ---

    def _transfer(self) -> Any:
        source, target = self.random.sample(range(4), 2)
        amount, name = self.random.randint(1, 9), f"t{self._new()}"
        details = {"source": source, "target": target, "amount": amount, "id": name}

        def steps() -> Any:
            yield
            if self.random.random() < 0.1:
                return "failed", {}
            self._accounts[source] -= amount
            self._accounts[target] += amount
            document = {"_id": name, "source": source, "target": target, "amount": amount}
            self._documents["transfers"][name] = document
            changed = (("accounts", source, "update"), ("accounts", target, "update"), ("transfers", name, "insert"))
            self._log.extend(changed)
            yield
            return "ok", {}

        return "transfer", details, steps()

    def _insert(self) -> Any:
        ids = [f"i{self._new()}" for _ in range(self.random.randint(1, 3))]

        def steps() -> Any:
            for position, name in enumerate(ids):
                yield
                if self.random.random() < 0.05:
                    return "failed", {"applied": ids[:position]}
                self._documents["inserts"][name] = {"_id": name}
                self._log.append(("inserts", name, "insert"))
            return "ok", {}

        return "insert", {"collection": "inserts", "ids": ids}, steps()

    def _count(self) -> Any:
        counter = self.random.choice("cd")

        def steps() -> Any:
            yield
            self._counters[counter] += 1
            self._log.append(("counters", counter, "update"))
            value = self._counters[counter]
            yield
            return "ok", {"value": value}

        return "count", {"counter": counter}, steps()

    def _bulk(self) -> Any:
        self.random.shuffle(self._owned)
        known, self._owned = self._owned[:2], self._owned[2:]
        writes: list[dict[str, Any]] = [{"op": "insert", "collection": "bulk", "id": f"b{self._new()}", "value": 1}]
        for name in known:
            op = self.random.choice(("update", "replace", "delete", "increment"))
            write: dict[str, Any] = {"op": op, "collection": "bulk", "id": name}
            writes.append(write if op in ("delete", "increment") else {**write, "value": self._new()})
        documents = self._documents["bulk"]

        def steps() -> Any:
            counts: dict[str, int] = defaultdict(int)
            for write in writes:
                yield
                name = write["id"]
                op = str(write["op"])
                counts[f"{op}d" if op.endswith("e") else f"{op}ed"] += 1
                event = "update" if op == "increment" else op
                if op == "delete":
                    del documents[name]
                elif op in ("insert", "replace"):
                    documents[name] = {"_id": name, "value": write["value"]}
                elif op == "update":
                    documents[name]["value"] = write["value"]
                else:
                    documents[name]["n"] = documents[name].get("n", 0) + 1
                self._log.append(("bulk", name, event))
            yield
            self._owned += [str(write["id"]) for write in writes if write["op"] != "delete"]
            return "ok", dict(counts)

        return "bulk", {"writes": writes}, steps()

    def _file(self) -> Any:
        if self._stored and self.random.random() < 0.4:
            name = self._stored.pop()
            return "delete_file", {"file": name}, self._delete_steps(name)
        name, data = f"f{self._new()}", self.random.randbytes(self.random.randrange(12))
        digest = hashlib.sha256(data).hexdigest()

        def steps() -> Any:
            for number, start in enumerate(range(0, len(data), CHUNK)):
                yield
                self._chunks.append(StoredChunk(name, number, len(data[start : start + CHUNK])))
            yield
            self._files[name] = StoredFile(name, len(data), CHUNK, digest)
            yield
            self._stored.append(name)
            return "ok", {}

        return "upload", {"file": name, "length": len(data), "digest": digest}, steps()

    def _delete_steps(self, name: str) -> Any:
        yield
        del self._files[name]
        yield
        self._chunks[:] = [chunk for chunk in self._chunks if chunk.file != name]
        return "ok", {}

    def _register(self) -> Any:
        key, value = self.random.choice("rs"), self._new()
        op = self.random.choice(("read", "write", "cas"))
        expected = self._registers[key] if self.random.random() < 0.7 else self.random.randrange(value)
        details: dict[str, Any] = {"op": op, "key": key}
        if op != "read":
            details["value"] = value
        if op == "cas":
            details["expected"] = expected

        def steps() -> Any:
            yield
            held = self._registers[key]
            if op == "write" or (op == "cas" and held == expected):
                self._registers[key] = value
            yield
            return "ok", {"value": held} if op == "read" else {"swapped": held == expected} if op == "cas" else {}

        return "register", details, steps()

    def _append(self) -> Any:
        asked: list[list[Any]] = []
        for _ in range(self.random.randint(1, 4)):
            key = self.random.choice("xyz")
            asked.append(["read", key, None] if self.random.random() < 0.5 else ["append", key, self._new()])

        def steps() -> Any:
            yield
            snapshot = {key: list(values) for key, values in self._lists.items()}
            if not self._is_serial:
                yield
            view = {key: list(values) for key, values in snapshot.items()}
            done = []
            for op, key, value in asked:
                if op == "append":
                    view[key].append(value)
                done.append([op, key, list(view[key]) if op == "read" else value])
            written = {key for op, key, _ in asked if op == "append"}
            if any(self._lists[key] != snapshot[key] for key in written):
                return "failed", {}
            for key in written:
                self._log.extend(("lists", key, "update") for _ in view[key][len(snapshot[key]) :])
                self._lists[key] = view[key]
            yield
            return "ok", {"ops": done}

        return "append", {"ops": asked}, steps()


# --- what a wrong database would have done ---


def _certain_insert(entries: list[Entry], random: Random) -> tuple[int, str] | None:
    """The id and the document of an acknowledged insert."""
    ok = {entry.id for entry in entries if isinstance(entry, Ended) and entry.outcome == "ok"}
    found = [each for each in entries if isinstance(each, Begun) and each.kind == "insert" and each.id in ok]
    return None if not found else (lambda begun: (begun.id, begun.details["ids"][0]))(random.choice(found))


def lose_document(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """An acknowledged document is not there."""
    if (found := _certain_insert(entries, random)) is None:
        return None
    left = [document for document in final.documents["inserts"] if document["_id"] != found[1]]
    return replace(final, documents={**final.documents, "inserts": left})


def double_document(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """An acknowledged document is there twice."""
    if (found := _certain_insert(entries, random)) is None:
        return None
    documents = [*final.documents["inserts"], {"_id": found[1]}]
    return replace(final, documents={**final.documents, "inserts": documents})


def deny_document(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A document is there whose insertion certainly failed."""
    if (found := _certain_insert(entries, random)) is None:
        return None
    position = next(n for n, entry in enumerate(entries) if isinstance(entry, Ended) and entry.id == found[0])
    end = entries[position]
    assert isinstance(end, Ended)
    entries[position] = replace(end, outcome="failed", details={})
    return final


def count_twice(entries: list[Entry], final: FinalState, random: Random) -> FinalState:
    """A counter is higher than all that was asked for."""
    asked = sum(isinstance(entry, Begun) and entry.kind == "count" for entry in entries)
    return replace(final, counters={**final.counters, "c": asked + 1})


def lose_count(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A counter has forgotten all that was acknowledged."""
    counts = {e.id for e in entries if isinstance(e, Begun) and e.kind == "count" and e.details["counter"] == "c"}
    is_counted = any(e.id in counts and isinstance(e, Ended) and e.outcome == "ok" for e in entries)
    return replace(final, counters={**final.counters, "c": 0}) if is_counted else None


def change_balance(entries: list[Entry], final: FinalState, random: Random) -> FinalState:
    """Half of a transfer was applied again."""
    return replace(final, balances={**final.balances, 1: final.balances[1] + 1})


def drop_chunk(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A file lacks a chunk."""
    there = {file.id for file in final.files}
    chunks = [chunk for chunk in final.chunks if chunk.file in there]
    if not chunks:
        return None
    dropped = random.choice(chunks)
    return replace(final, chunks=[chunk for chunk in final.chunks if chunk is not dropped])


def drop_value(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A list lacks a value that was acknowledged."""
    acknowledged = [
        (op[1], op[2])
        for entry in entries
        if isinstance(entry, Ended)
        for op in entry.details.get("ops", ())
        if op[0] == "append"
    ]
    if not acknowledged:
        return None
    key, value = random.choice(acknowledged)
    return replace(final, lists={**final.lists, key: [each for each in final.lists[key] if each != value]})


def double_value(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A list has a value twice."""
    keys = [key for key, values in final.lists.items() if values]
    if not keys:
        return None
    key = random.choice(keys)
    return replace(final, lists={**final.lists, key: [*final.lists[key], random.choice(final.lists[key])]})


def _changes(entries: list[Entry]) -> list[int]:
    return [n for n, entry in enumerate(entries) if isinstance(entry, Begun) and entry.kind == "change"]


def repeat_change(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A change was delivered again."""
    if not (places := _changes(entries)):
        return None
    again = entries[random.choice(places)]
    entries.append(replace(again, id=1_000_000, time=entries[-1].time + 1))
    return final


def swap_changes(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """Two changes of a stream were delivered in the wrong order."""
    streams: dict[str, list[int]] = defaultdict(list)
    for place in _changes(entries):
        begun = entries[place]
        streams[begun.details["stream"]].append(place)
    pairs = [pair for places in streams.values() for pair in pairwise(places)]
    if not pairs:
        return None
    first, second = random.choice(pairs)
    one, other = entries[first], entries[second]
    entries[first] = replace(one, details=other.details)
    entries[second] = replace(other, details=one.details)
    return final


def drop_change(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A change of an acknowledged insert was not delivered, although the stream was watching before."""
    ok = {entry.id for entry in entries if isinstance(entry, Ended) and entry.outcome == "ok"}
    begins = {
        name: entry.time
        for entry in entries
        if isinstance(entry, Begun) and entry.kind == "insert" and entry.id in ok
        for name in entry.details["ids"]
    }
    watching = {
        entry.details["stream"]: entry.time
        for entry in entries
        if isinstance(entry, Begun) and entry.kind == "watching"
    }
    places = [
        place
        for place in _changes(entries)
        if begins.get(entries[place].details["key"], -1) > watching[entries[place].details["stream"]]
    ]
    if not places:
        return None
    del entries[random.choice(places)]
    return final


def read_the_future(entries: list[Entry], final: FinalState, random: Random) -> FinalState | None:
    """A read of a register ended before the write of its value began."""
    begun = {entry.id: entry for entry in entries if isinstance(entry, Begun) and entry.kind == "register"}
    for place, entry in enumerate(entries):
        if isinstance(entry, Ended) and entry.id in begun and begun[entry.id].details["op"] == "read":
            key = begun[entry.id].details["key"]
            for later in begun.values():
                is_write = later.details["op"] == "write" and later.details["key"] == key
                if is_write and later.time > entry.time and entry.outcome == "ok":
                    entries[place] = replace(entry, details={"value": later.details["value"]})
                    return final
    return None


MUTATIONS: Final[tuple[Callable[[list[Entry], FinalState, Random], FinalState | None], ...]] = (
    lose_document,
    double_document,
    deny_document,
    count_twice,
    lose_count,
    change_balance,
    drop_chunk,
    drop_value,
    double_value,
    repeat_change,
    swap_changes,
    drop_change,
    read_the_future,
)
"""Each changes a journal in place, and returns another final state; None: there was nothing to change."""
