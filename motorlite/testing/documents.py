"""Pure: judges documents by the writes that were asked for.

Theory of operation. Of each document, all states are kept that it may be in; at first it is absent. A write that has
begun may change each of them at any time. Once it is acknowledged, only what it has changed remains; if its outcome is
unknown, it may happen at any later time. In the end, the document must be in one of these states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from json import dumps
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite.testing.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from motorlite.testing.journal import Entry, Key, Operation

__all__ = ["Write", "judge_documents", "writes_of"]

COUNTS: Final = {
    "insert": "inserted",
    "update": "updated",
    "replace": "replaced",
    "delete": "deleted",
    "increment": "incremented",
}

State: TypeAlias = tuple[str | None, int] | None
"""The field `value` as JSON, None if it was not set by a write, and the field `n`; None: absent."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """One write of an operation that did not certainly fail.

    Attributes:
        operation: Its operation.
        op: What it does; see `motorlite.testing.journal`.
        collection: Where.
        id: To which document.
        value: The value that it sets, as JSON; None: none.
        end: When it was known to have happened, in seconds; infinite: it may have happened.
    """

    operation: Operation
    op: str
    collection: str
    id: Key
    value: str | None
    end: float

    @property
    def begin(self) -> float:
        """When it began, in seconds."""
        return self.operation.begin

    @property
    def is_certain(self) -> bool:
        """Whether it certainly happened."""
        return self.end < inf


def writes_of(operation: Operation) -> Iterator[Write]:
    """The writes of an ``insert``, ``bulk`` or ``transfer`` (to ``transfers``) that may have happened."""
    details = operation.details
    match operation.kind:
        case "insert":
            asked = [{"op": "insert", "collection": details["collection"], "id": id_} for id_ in details["ids"]]
        case "bulk":
            asked = details["writes"]
        case "transfer":
            asked = [{"op": "insert", "collection": "transfers", "id": details["id"]}]
        case _:
            return
    applied = set(operation.result.get("applied", ()))
    for position, write in enumerate(asked):
        is_certain = operation.outcome == "ok" or (write["id"] if operation.kind == "insert" else position) in applied
        if is_certain or operation.outcome == "unknown":
            end = operation.ended.time if is_certain and operation.ended is not None else inf
            value = dumps(write["value"], sort_keys=True) if "value" in write else None
            yield Write(operation, write["op"], write["collection"], write["id"], value, end)


def judge_documents(
    performed: Iterable[Operation], documents: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[Finding]:
    """Judge the operations ``insert``, ``bulk`` and ``transfer``, as far as they write documents of their own.

    Args:
        performed: All operations of a journal.
        documents: The documents of each collection, afterwards.
    """
    writes: dict[tuple[str, Key], list[Write]] = defaultdict(list)
    tried: dict[tuple[str, Key], Operation] = {}
    for operation in performed:
        yield from _wrong_counts(operation)
        for write in writes_of(operation):
            writes[write.collection, write.id].append(write)
        if operation.kind in ("insert", "bulk", "transfer") and operation.outcome == "failed":
            tried.update((place, operation) for place in _places(operation))
    there: dict[tuple[str, Key], Mapping[str, Any]] = {}
    for collection, found in documents.items():
        for document in found:
            place = collection, document["_id"]
            if place in there:
                yield Finding("duplicate", f"{_shown(place)} is there twice", _entries(writes[place]))
            there[place] = document
    for place in there:
        if not writes.get(place):
            if place in tried:
                yield Finding("applied though failed", f"{_shown(place)} is there", tried[place].entries)
            else:
                yield Finding("stranger", f"{_shown(place)} is there, but was not asked for")
    for place, made in writes.items():
        if made and (finding := _judge(place, made, there.get(place))) is not None:
            yield finding


def _places(operation: Operation) -> Iterator[tuple[str, Key]]:
    """What an operation wanted to insert."""
    details = operation.details
    match operation.kind:
        case "insert":
            yield from ((details["collection"], id_) for id_ in details["ids"])
        case "bulk":
            yield from ((each["collection"], each["id"]) for each in details["writes"] if each["op"] == "insert")
        case _:
            yield "transfers", details["id"]


def _wrong_counts(operation: Operation) -> Iterator[Finding]:
    if operation.kind != "bulk" or operation.outcome != "ok":
        return
    asked = Counter(COUNTS[write["op"]] for write in operation.details["writes"])
    for name in COUNTS.values():
        counted = operation.result.get(name)
        if counted is not None and counted != asked[name]:
            message = f"the result of #{operation.begun.id} counts {counted} {name}, but there were {asked[name]}"
            yield Finding("wrong count", message, operation.entries)


def _judge(place: tuple[str, Key], writes: list[Write], document: Mapping[str, Any] | None) -> Finding | None:
    possible = _possible(writes)
    entries = _entries(writes)
    if document is None:
        return None if None in possible else Finding("lost", f"{_shown(place)} is not there", entries)
    states = [state for state in possible if state is not None]
    if not states:
        return Finding("not deleted", f"{_shown(place)} is still there", entries)
    value, number = dumps(document.get("value"), sort_keys=True, default=repr), document.get("n", 0)
    if any(state[0] in (None, value) for state in states):
        states = [state for state in states if state[0] in (None, value)]
    else:
        expected = " or ".join(sorted({str(state[0]) for state in states}))
        return Finding("wrong value", f"{_shown(place)} holds {value}, not {expected}", entries)
    if not any(write.op == "increment" for write in writes) or any(state[1] == number for state in states):
        return None
    kind = "applied twice" if number > max(state[1] for state in states) else "lost"
    expected = " or ".join(map(str, sorted({state[1] for state in states})))
    return Finding(kind, f"{_shown(place)} was incremented {number} times, not {expected}", entries)


def _shown(place: tuple[str, Key]) -> str:
    return f"{place[1]!r} in {place[0]}"


def _entries(writes: Iterable[Write]) -> tuple[Entry, ...]:
    operations = dict.fromkeys(write.operation for write in writes)
    return tuple(entry for operation in operations for entry in operation.entries)


# --- states ---

_Step: TypeAlias = tuple[str, str | None]
"""What a write does, and its value."""
_Pending: TypeAlias = tuple[tuple[_Step, int], ...]
"""Which steps may still happen, and how often."""


def _possible(writes: list[Write]) -> set[State]:
    """The states that the document may have, after all of its writes."""
    moments: list[tuple[float, bool, _Step]] = []
    for write in writes:
        moments.append((write.begin, False, (write.op, write.value)))
        if write.is_certain:
            moments.append((write.end, True, (write.op, write.value)))
    moments.sort(key=lambda moment: moment[:2])
    possible: set[tuple[State, _Pending]] = {(None, ())}
    begun: Counter[_Step] = Counter()
    for _, is_end, step in moments:
        if is_end:
            begun[step] -= 1
            possible = {each for each in _closure(possible) if dict(each[1]).get(step, 0) <= begun[step]}
        else:
            begun[step] += 1
            possible = {(state, _changed(pending, step, 1)) for state, pending in possible}
    return {state for state, _ in _closure(possible)}


def _closure(possible: set[tuple[State, _Pending]]) -> set[tuple[State, _Pending]]:
    """What is possible when any of the pending steps happen."""
    reached = set(possible)
    left = list(possible)
    while left:
        state, pending = left.pop()
        for step, _ in pending:
            after = _applied(state, step), _changed(pending, step, -1)
            if after not in reached:
                reached.add(after)
                left.append(after)
    return reached


def _changed(pending: _Pending, step: _Step, change: int) -> _Pending:
    counts = dict(pending)
    counts[step] = counts.get(step, 0) + change
    return tuple(sorted(((each, count) for each, count in counts.items() if count), key=repr))


def _applied(state: State, step: _Step) -> State:
    op, value = step
    if op == "delete":
        return None
    if state is None:
        return (value, 0) if op == "insert" else None
    match op:
        case "update":
            return (state[0] if value is None else value), state[1]
        case "replace":
            return value, 0
        case "increment":
            return state[0], state[1] + 1
    return state
