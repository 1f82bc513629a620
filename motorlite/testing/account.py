"""Pure: judges what a deployment holds after a workload, by the journal of what the workload was promised.

The account knows nothing of the driver. It reads the journal (`motorlite.testing.journal`) and a `FinalState`, and
says what cannot be: a promise that was broken, or an effect without a cause. Where an outcome is unknown, both are
possible, but only together: a transfer is there with both of its updates, or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from motorlite.testing.changes import judge_changes
from motorlite.testing.documents import judge_documents
from motorlite.testing.findings import Finding, report
from motorlite.testing.isolation import Level, Order, judge_lists
from motorlite.testing.journal import KINDS, OBSERVATIONS, Key, operations
from motorlite.testing.registers import judge_registers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from motorlite.testing.journal import Entry, Operation


__all__ = ["FinalState", "Finding", "Key", "Level", "Order", "StoredChunk", "StoredFile", "judge", "report"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A document of ``fs.files``.

    Attributes:
        id: Its `_id`.
        length: Bytes, as the document says.
        chunk_size: Bytes in each chunk but the last, as the document says.
        digest: The SHA-256 of its chunks' data in the order of their numbers, hexadecimal.
    """

    id: Key
    length: int
    chunk_size: int
    digest: str


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A document of ``fs.chunks``.

    Attributes:
        file: The `_id` of its file.
        number: Its `n`.
        length: Bytes of its data.
    """

    file: Key
    number: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """What the deployment holds when the workload has ended and everything works again.

    Read it from the primary with majority read concern. The field `documents` has the collections of the operations
    ``transfer`` (``transfers``), ``insert`` and ``bulk``.

    Attributes:
        documents: The documents of each collection, `_id` included.
        files: All documents of ``fs.files``.
        chunks: All documents of ``fs.chunks``.
        balances: The balance of each account.
        counters: The value of each counter.
        registers: The value of each register that exists.
        lists: The values in each list that exists. The keys of these four are of the type `Key`.
    """

    documents: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    files: Sequence[StoredFile] = ()
    chunks: Sequence[StoredChunk] = ()
    balances: Mapping[Any, int] = field(default_factory=dict)
    counters: Mapping[Any, int] = field(default_factory=dict)
    registers: Mapping[Any, Any] = field(default_factory=dict)
    lists: Mapping[Any, Sequence[int]] = field(default_factory=dict)


def judge(
    entries: Iterable[Entry], final: FinalState, *, level: Level = "snapshot", order: Order = "realtime"
) -> list[Finding]:
    """Judge a workload.

    Args:
        entries: Its journal; of several programs: all of their journals together.
        final: What the deployment holds afterwards.
        level: What transactions on lists promise; see `motorlite.testing.isolation`.
        order: Whether the order of processes, or of time, must hold for them too.

    Returns:
        What is wrong; empty if nothing is. `report` shows it.

    Raises:
        ValueError: The journal contradicts itself: two operations have one id, an operation ended before it began ...
            Or it has an operation of a kind that is not judged, such as a misspelt one.
    """
    entries = list(entries)
    performed = operations(entries)
    if unknown := {each.kind for each in performed} - KINDS - OBSERVATIONS:
        # Otherwise the report would say that nothing is wrong with it.
        raise ValueError(
            f"nothing judges operations of the kind {min(unknown)!r}; known are {', '.join(sorted(KINDS))}"
        )
    ids = {name: [document["_id"] for document in found] for name, found in final.documents.items()}
    return [
        *judge_documents(performed, final.documents),
        *_judge_transfers(performed, final),
        *_judge_counters(performed, final),
        *_judge_files(performed, final),
        *judge_changes(performed, ids, final.lists),
        *judge_lists(entries, final.lists, level=level, order=order),
        *judge_registers(entries, final.registers),
    ]


def _start(performed: Iterable[Operation], name: str) -> dict[Key, int]:
    pairs = [pair for each in performed if each.kind == "start" for pair in each.details.get(name, ())]
    return dict(pairs)


def _entries(performed: Iterable[Operation]) -> tuple[Entry, ...]:
    return tuple(entry for operation in performed for entry in operation.entries)


# --- transfers ---


def _judge_transfers(performed: Sequence[Operation], final: FinalState) -> Iterator[Finding]:
    """Balances must be those at the start, changed by the transfers that are there."""
    expected = _start(performed, "accounts")
    there = {document["_id"]: document for document in final.documents.get("transfers", ())}
    absent: dict[Key, list[Operation]] = defaultdict(list)
    for operation in performed:
        if operation.kind != "transfer":
            continue
        asked = operation.details
        source, target, amount = asked["source"], asked["target"], asked["amount"]
        document = there.get(asked["id"])
        if document is None:
            absent[source].append(operation)
            absent[target].append(operation)
            continue
        expected[source] = expected.get(source, 0) - amount
        expected[target] = expected.get(target, 0) + amount
        if any(document.get(name) != asked[name] for name in ("source", "target", "amount")):
            yield Finding("wrong value", f"{asked['id']!r} in transfers is not what was asked for", operation.entries)
    for key in dict.fromkeys((*expected, *final.balances)):
        balance = final.balances.get(key)
        if balance != expected.get(key, 0):
            message = f"the account {key!r} has {balance}, not {expected.get(key, 0)}, which its transfers add up to"
            yield Finding("wrong balance", f"{message}; these are not among them", _entries(absent[key]))


# --- counters ---


def _judge_counters(performed: Sequence[Operation], final: FinalState) -> Iterator[Finding]:
    start = _start(performed, "counters")
    counts: dict[Key, list[Operation]] = defaultdict(list)
    for operation in performed:
        if operation.kind == "count" and operation.outcome != "failed":
            counts[operation.details["counter"]].append(operation)
    for key in dict.fromkeys((*start, *counts, *final.counters)):
        yield from _judge_counter(key, start.get(key, 0), counts[key], final.counters.get(key, 0))


def _judge_counter(key: Key, start: int, counts: list[Operation], value: int) -> Iterator[Finding]:
    certain = [each for each in counts if each.outcome == "ok"]
    most = start + len(counts)
    if value < start + len(certain):
        message = f"the counter {key!r} is at {value}, less than the {start + len(certain)} that were acknowledged"
        yield Finding("lost", message, _entries(each for each in certain if each.result["value"] > value))
    if value > most:
        uncertain = _entries(each for each in counts if each.outcome != "ok")
        yield Finding("applied twice", f"the counter {key!r} is at {value}, more than {most}", uncertain)
    returned: dict[int, Operation] = {}
    for each in certain:
        number = each.result["value"]
        if number in returned:
            message = f"the counter {key!r} returned {number} twice"
            yield Finding("lost", message, (*returned[number].entries, *each.entries))
        elif not start < number <= max(value, most):
            yield Finding("wrong value", f"the counter {key!r} returned {number}", each.entries)
        returned.setdefault(number, each)
    yield from _judge_order(key, certain)


def _judge_order(key: Key, certain: list[Operation]) -> Iterator[Finding]:
    """A counter returns more to what began later than another one ended."""
    ended = sorted(certain, key=lambda each: each.end)
    position = 0
    highest: Operation | None = None
    for each in certain:  # in the order of their beginnings
        while ended[position].end < each.begin:
            if highest is None or ended[position].result["value"] > highest.result["value"]:
                highest = ended[position]
            position += 1
        if highest is not None and each.result["value"] < highest.result["value"]:
            message = f"the counter {key!r} returned {each.result['value']} after {highest.result['value']}"
            yield Finding("out of order", message, (*highest.entries, *each.entries))


# --- files ---


def _judge_files(performed: Sequence[Operation], final: FinalState) -> Iterator[Finding]:
    uploads = {each.details["file"]: each for each in performed if each.kind == "upload"}
    deletions: dict[Key, list[Operation]] = defaultdict(list)
    for each in performed:
        if each.kind == "delete_file" and each.outcome != "failed":
            deletions[each.details["file"]].append(each)
    chunks: dict[Key, list[StoredChunk]] = defaultdict(list)
    for chunk in final.chunks:
        chunks[chunk.file].append(chunk)
    files: dict[Key, StoredFile] = {}
    for file in final.files:
        if file.id in files:
            yield Finding("duplicate", f"the file {file.id!r} is there twice")
        files[file.id] = file
    for key in dict.fromkeys((*uploads, *files, *chunks)):
        upload = uploads.get(key)
        wrong = _wrong_with_file(upload, deletions[key], files.get(key), chunks[key])
        if wrong is not None:
            entries = _entries([*([] if upload is None else [upload]), *deletions[key]])
            yield Finding(wrong[0], f"the file {key!r} {wrong[1]}", entries)


def _wrong_with_file(
    upload: Operation | None, deletions: list[Operation], file: StoredFile | None, chunks: list[StoredChunk]
) -> tuple[str, str] | None:
    """What is wrong with a file: a kind, and a sentence without its subject."""
    if upload is None:
        return "stranger", "was not asked for"
    is_deleted = any(each.outcome == "ok" for each in deletions)
    if file is None:
        if upload.outcome == "ok" and not deletions:
            return "lost", "is not there"
        is_in_doubt = not is_deleted and any(not each.result.get("is_whole") for each in deletions)
        may_have_chunks = upload.outcome == "unknown" or is_in_doubt
        return (
            ("orphaned chunks", f"is not there, but {len(chunks)} chunks") if chunks and not may_have_chunks else None
        )
    if upload.outcome == "failed":
        return "applied though failed", "is there"
    if is_deleted:
        return "not deleted", "is still there"
    expected = [file.chunk_size] * (file.length // file.chunk_size)
    expected += [file.length % file.chunk_size] * (file.length % file.chunk_size > 0)
    ordered = sorted(chunks, key=lambda chunk: chunk.number)
    if [chunk.number for chunk in ordered] != list(range(len(expected))):
        return "incomplete file", f"has the chunks {[chunk.number for chunk in ordered]}, not {len(expected)}"
    if [chunk.length for chunk in ordered] != expected:
        return "incomplete file", f"has chunks of {[chunk.length for chunk in ordered]} bytes, not {expected}"
    if (file.length, file.digest) != (upload.details["length"], upload.details["digest"]):
        return "wrong value", f"has {file.length} bytes that are not those that were uploaded"
    return None
