"""Pure: judges the isolation of transactions that append to lists and read them.

Theory of operation, after Elle (Kingsbury and Alvaro, 2020). Each value is appended to a list once, so a list that was
read tells which transactions wrote it, in which order: the longest list that was read of a key is the order of its
versions, and all others must begin it. From that order follow the dependencies of transactions: one wrote the version
before the other's (ww), one read what the other wrote (wr), or one read the version before the other's (rw). If the
transactions happened one after the other, as their level of isolation promises, the dependencies have no cycle. A cycle
is therefore an anomaly, and its edges say which one:

- ``G0``: ww only.
- ``G1c``: ww and wr.
- ``G-single``: one rw besides; ``lost update`` if two transactions read the same version of a list and both appended.
- ``G-nonadjacent``: several rw, but no two in succession.
- ``G2-item``: two rw in succession, as in write skew.

Some anomalies need no cycle: ``G1a`` (a value of a transaction that failed was read), ``G1b`` (a version was read that
is not the last of its transaction), ``incompatible order`` (two lists of a key were read, and neither begins the
other), ``duplicate`` (a list has a value twice), ``garbage`` (a list has a value that no transaction appended),
``internal`` (a transaction contradicts its own reads and appends), and ``lost append`` (the final list lacks a value
that it should have).

``snapshot`` isolation is what MongoDB's transactions promise with the read concern "snapshot" and the write concern
"majority". It permits write skew, and it is violated if, and only if, there is a cycle without two rw in succession
(Cerone and Gotsman, 2016). ``serializable`` permits no cycle.

The level alone permits a transaction to read old versions. With the order ``process``, what a process did earlier also
comes first in the graph; with ``realtime``, whatever ended before something else began does (strong snapshot isolation,
strict serializability). The primary of a replica set promises the latter. A cycle that needs such an edge carries the
name of the order, as in ``G-single-realtime``.

A transaction whose outcome is unknown counts as committed if, and only if, one of its values was read. What it read
itself is not judged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from motorlite.testing.cycles import cyclic_components, lightest_cycle
from motorlite.testing.findings import Finding
from motorlite.testing.journal import operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from motorlite.testing.journal import Entry, Key, Operation

__all__ = ["Level", "Order", "judge_lists"]

Level: TypeAlias = Literal["snapshot", "serializable"]
"""What the transactions promise about each other."""

Order: TypeAlias = Literal["none", "process", "realtime"]
"""What else is in the order in which the transactions seem to happen."""

Type: TypeAlias = Literal["ww", "wr", "rw", "process", "realtime"]

# The weight of edges when a cycle is chosen to be shown: few rw first, then few transactions.
RW_WEIGHT: Final = 1000


def judge_lists(
    entries: Iterable[Entry],
    final: Mapping[Key, Sequence[int]] | None = None,
    *,
    level: Level = "snapshot",
    order: Order = "realtime",
) -> list[Finding]:
    """Judge the operations ``append`` of a journal.

    Args:
        entries: The journal; other kinds of operations are ignored.
        final: The lists after all operations; None: they are not known. A key that is missing has an empty list.
        level: What the transactions promise.
        order: Whether the order of processes, or of time, must hold too.

    Returns:
        The anomalies; of cycles that overlap, the one with the worst name.

    Raises:
        ValueError: The journal contradicts itself, or a value is appended to a key twice.
    """
    history = _History(operations(entries), final)
    contradictions = list(_internal(history))
    versions = _Versions(history)
    return [*contradictions, *versions.findings(), *_Dependencies(history, versions, order).findings(level)]


# --- transactions ---


@dataclass(slots=True, eq=False)
class _Transaction:
    """One operation, or what was there before all of them, or what was read after them."""

    number: int
    operation: Operation | None
    process: int | None
    begin: float
    end: float
    is_acknowledged: bool
    ops: Sequence[Sequence[Any]]
    # The last value that it appends to a key.
    last: dict[Key, int] = field(default_factory=dict)
    # What it read of a key before it appended to it.
    reads: dict[Key, list[int]] = field(default_factory=dict)
    # It is known to have happened.
    is_committed: bool = False

    @property
    def name(self) -> str:
        if self.operation is None:
            return "the start" if self.begin < 0 else "the final state"
        return f"#{self.operation.begun.id}"

    @property
    def entries(self) -> tuple[Entry, ...]:
        return () if self.operation is None else self.operation.entries


class _History:
    """The transactions of a journal, and who appended which value."""

    def __init__(self, performed: Sequence[Operation], final: Mapping[Key, Sequence[int]] | None) -> None:
        self.transactions: list[_Transaction] = []
        self.failed: set[_Transaction] = set()
        self.writers: dict[tuple[Key, int], _Transaction] = {}
        self.has_final = final is not None
        before = [pair for each in performed if each.kind == "start" for pair in each.details.get("lists", ())]
        self._add(None, -inf, -inf, True, [("append", key, value) for key, values in before for value in values])
        for each in performed:
            if each.kind == "append":
                is_ok = each.outcome == "ok"
                self._add(each, each.begin, each.end, is_ok, each.result["ops"] if is_ok else each.details["ops"])
        if final is not None:
            keys = dict.fromkeys([key for key, _ in self.writers] + list(final))
            self._add(None, inf, inf, True, [("read", key, final.get(key, [])) for key in keys])

    def _add(
        self, operation: Operation | None, begin: float, end: float, is_ok: bool, ops: Sequence[Sequence[Any]]
    ) -> None:
        process = None if operation is None else operation.begun.process
        transaction = _Transaction(len(self.transactions), operation, process, begin, end, is_ok, ops)
        transaction.is_committed = is_ok
        self.transactions.append(transaction)
        if operation is not None and operation.outcome == "failed":
            self.failed.add(transaction)
        for op, key, value in ops:
            if op == "append":
                if (key, value) in self.writers:
                    raise ValueError(f"the journal appends {value!r} to {key!r} twice")
                self.writers[key, value] = transaction
                transaction.last[key] = value
            elif op != "read":
                raise ValueError(f"{op!r} is neither append nor read")


def _internal(history: _History) -> Iterator[Finding]:
    """Transactions that contradict themselves; also finds what each of them read of others."""
    for transaction in history.transactions:
        if not transaction.is_acknowledged:
            continue
        known: dict[Key, list[int]] = {}
        own: dict[Key, list[int]] = defaultdict(list)
        for op, key, value in transaction.ops:
            if op == "append":
                own[key].append(value)
                if key in known:
                    known[key] = [*known[key], value]
                continue
            read = list(value or ())
            expected = known.get(key, read[: len(read) - len(own[key])] + own[key])
            if read != expected:
                message = f"{transaction.name} read {_shown(read)} of {key!r} where it must read {_shown(expected)}"
                yield Finding("internal", message, transaction.entries)
            elif key not in known:
                transaction.reads[key] = read[: len(read) - len(own[key])]
            known.setdefault(key, read)


def _shown(values: Sequence[int]) -> str:
    return str(list(values)) if len(values) <= 10 else f"[... {', '.join(map(str, values[-10:]))}]"


# --- versions ---


class _Versions:
    """The order of each list's values, by the longest that was read."""

    def __init__(self, history: _History) -> None:
        self._history = history
        self._readers: dict[Key, list[_Transaction]] = defaultdict(list)
        for transaction in history.transactions:
            for key in transaction.reads:
                self._readers[key].append(transaction)
        self._longest: dict[Key, _Transaction] = {
            key: max(readers, key=lambda reader: len(reader.reads[key])) for key, readers in self._readers.items()
        }
        # Keys whose lists tell no order, and reads that contradict the order of the key.
        self._has_duplicates: set[Key] = set()
        self._findings: list[Finding] = []
        self._agreeing: dict[Key, list[_Transaction]] = {key: [] for key in self._readers}
        for key, readers in self._readers.items():
            self._compare(key, readers)
        if history.has_final:
            self._look_for_lost_values()

    def findings(self) -> list[Finding]:
        """What is wrong with the lists alone."""
        return self._findings

    def orders(self) -> Iterator[tuple[Key, list[int], list[_Transaction]]]:
        """Each key with its order of values, and the transactions that read a beginning of it."""
        for key, longest in self._longest.items():
            if key not in self._has_duplicates:
                yield key, longest.reads[key], self._agreeing[key]

    def _find(self, kind: str, message: str, *transactions: _Transaction) -> None:
        entries = tuple(entry for each in dict.fromkeys(transactions) for entry in each.entries)
        self._findings.append(Finding(kind, message, entries))

    def _compare(self, key: Key, readers: list[_Transaction]) -> None:
        longest = self._longest[key]
        values = longest.reads[key]
        self._look_at_values(key, longest)
        for reader in readers:
            read = reader.reads[key]
            if read == values[: len(read)]:
                self._agreeing[key].append(reader)
            else:
                self._look_at_values(key, reader)
                message = f"{reader.name} read {_shown(read)} of {key!r}, but {longest.name} read {_shown(values)}"
                self._find("incompatible order", message, reader, longest)
            writer = self._history.writers.get((key, read[-1])) if read else None
            if writer is not None and writer.last[key] != read[-1] and writer not in self._history.failed:
                rest = f"but {writer.name} appended {writer.last[key]} after that"
                self._find("G1b", f"{reader.name} read {key!r} up to {read[-1]}, {rest}", reader, writer)

    def _look_at_values(self, key: Key, reader: _Transaction) -> None:
        seen = set()
        for value in reader.reads[key]:
            writer = self._history.writers.get((key, value))
            if value in seen:
                self._has_duplicates.add(key)
                self._find("duplicate", f"{reader.name} read {value} twice in {key!r}", reader, writer or reader)
            elif writer is None:
                self._find("garbage", f"{reader.name} read {value} in {key!r}, which was not appended", reader)
            elif writer in self._history.failed:
                self._find("G1a", f"{reader.name} read {value} in {key!r}, but {writer.name} failed", reader, writer)
            else:
                writer.is_committed = True
            seen.add(value)

    def _look_for_lost_values(self) -> None:
        final = self._history.transactions[-1].reads
        there = {key: set(values) for key, values in final.items()}
        for (key, value), writer in self._history.writers.items():
            if writer.is_committed and value not in there[key]:
                reader = next((each for each in self._readers[key] if value in each.reads[key]), writer)
                reason = "acknowledged" if writer.is_acknowledged else f"read by {reader.name}"
                message = f"the final {key!r} lacks {value} of {writer.name}, which was {reason}"
                self._find("lost append", message, writer, reader)


# --- dependencies ---


@dataclass(frozen=True, slots=True)
class _Edge:
    target: int
    type: Type
    key: Key | None = None
    value: int | None = None


class _Dependencies:
    """The graph of committed transactions.

    In the graph that is searched, each transaction is two nodes, by how the path came to it: 2 n + 1 by an rw edge, 2 n
    by another. So rw edges in succession can be left out. Time is a chain of nodes behind them, one for each end of a
    transaction in the order of time: transactions that ended lead to it, and it leads to those that began later.
    """

    def __init__(self, history: _History, versions: _Versions, order: Order) -> None:
        self._transactions = history.transactions
        self._out: list[list[_Edge]] = [[] for _ in history.transactions]
        self._order: Order = order
        self._chain = len(history.transactions) * 2
        for key, values, readers in versions.orders():
            writers = [history.writers.get((key, value)) for value in values]
            for value, first, second in zip(values[1:], writers, writers[1:], strict=False):
                self._connect(first, second, "ww", key, value)
            for reader in readers:
                length = len(reader.reads[key])
                if length:
                    self._connect(writers[length - 1], reader, "wr", key, values[length - 1])
                if length < len(values):
                    self._connect(reader, writers[length], "rw", key, values[length])
        if not history.has_final:
            self._connect_unread(history, versions)

    def _connect(
        self, first: _Transaction | None, second: _Transaction | None, type_: Type, key: Key, value: int
    ) -> None:
        if first is not None and second is not None and first is not second:
            self._out[first.number].append(_Edge(second.number, type_, key, value))

    def _connect_unread(self, history: _History, versions: _Versions) -> None:
        """What was committed but is in no list comes after every list that was read."""
        unread: dict[Key, list[tuple[int, _Transaction]]] = defaultdict(list)
        orders = {key: (values, readers) for key, values, readers in versions.orders()}
        read = {(key, value) for key, (values, _) in orders.items() for value in values}
        for (key, value), writer in history.writers.items():
            if writer.is_committed and (key, value) not in read and key in orders:
                unread[key].append((value, writer))
        for key, later in unread.items():
            values, readers = orders[key]
            for value, writer in later:
                if values:
                    self._connect(history.writers.get((key, values[-1])), writer, "ww", key, value)
                for reader in readers:
                    if len(reader.reads[key]) == len(values):
                        self._connect(reader, writer, "rw", key, value)

    def findings(self, level: Level) -> list[Finding]:
        """The cycles that the level does not permit."""
        permits_skew = level == "snapshot"
        everything: tuple[Type, ...] = ("ww", "wr", "rw")
        orders: tuple[Order, ...] = ("none",) if self._order == "none" else ("none", self._order)
        if not cyclic_components(self._graph(everything, self._order, permits_skew)):
            return []
        found: list[Finding] = []
        shown: set[int] = set()
        for types, skips_skew in ((("ww",), True), (("ww", "wr"), True), (everything, True), (everything, False)):
            if not skips_skew and permits_skew:
                continue
            for order in orders:
                graph = self._graph(types, order, skips_skew)
                for component in cyclic_components(graph):
                    members = {node // 2 for node in component if node < self._chain}
                    if not members & shown:
                        found.append(self._finding(lightest_cycle(graph, component, self._weight), order))
                        shown |= members
        return found

    def _graph(self, types: Sequence[Type], order: Order, skips_skew: bool) -> list[list[int]]:
        graph: list[list[int]] = [[] for _ in range(self._chain)]
        for number, edges in enumerate(self._out):
            others = [2 * edge.target for edge in edges if edge.type != "rw" and edge.type in types]
            skews = [2 * edge.target + 1 for edge in edges if edge.type == "rw" and edge.type in types]
            graph[2 * number] = others + skews
            graph[2 * number + 1] = list(others) if skips_skew else others + skews
        if order == "realtime":
            self._add_time(graph)
        elif order == "process":
            latest: dict[int | None, _Transaction] = {}
            for each in self._transactions:
                if each.is_committed and each.operation is not None:
                    before = latest.get(each.process)
                    if before is not None and before.end < each.begin:
                        graph[2 * before.number].append(2 * each.number)
                        graph[2 * before.number + 1].append(2 * each.number)
                    if each.is_acknowledged:
                        latest[each.process] = each
        return graph

    def _add_time(self, graph: list[list[int]]) -> None:
        ends = sorted({each.end for each in self._transactions if each.is_acknowledged and each.end < inf})
        graph.extend([self._chain + position + 1] for position in range(len(ends)))
        if ends:
            graph[-1].clear()
        for each in self._transactions:
            if each.is_acknowledged and each.end < inf:
                node = self._chain + bisect_left(ends, each.end)
                graph[2 * each.number].append(node)
                graph[2 * each.number + 1].append(node)
            position = bisect_left(ends, each.begin)
            if each.is_committed and position:
                graph[self._chain + position - 1].append(2 * each.number)

    def _weight(self, origin: int, target: int) -> int:
        if origin >= self._chain:
            return 0
        return RW_WEIGHT if target < self._chain and target % 2 else 1

    # --- how a cycle is shown ---

    def _finding(self, cycle: list[int], order: Order) -> Finding:
        first = next(position for position, node in enumerate(cycle) if node < self._chain)
        nodes = [node for node in cycle[first:] + cycle[:first] if node < self._chain]
        steps = [self._step(node // 2, after, order) for node, after in zip(nodes, nodes[1:] + nodes[:1], strict=True)]
        types = [edge.type for _, edge in steps]
        kind = self._kind(steps)
        for name in ("process", "realtime"):
            if name in types:
                kind += f"-{name}"
        members = [self._transactions[number] for number, _ in steps]
        entries = tuple(entry for each in dict.fromkeys(members) for entry in each.entries)
        return Finding(kind, "; ".join(self._sentence(number, edge) for number, edge in steps), entries)

    def _step(self, origin: int, arrival: int, order: Order) -> tuple[int, _Edge]:
        """The edge from a transaction to the next node of a transaction."""
        is_skew = bool(arrival % 2)
        for edge in sorted(self._out[origin], key=lambda edge: edge.type, reverse=True):  # ww, wr, rw
            if edge.target == arrival // 2 and (edge.type == "rw") == is_skew:
                return origin, edge
        assert order != "none"
        return origin, _Edge(arrival // 2, order)

    def _kind(self, steps: list[tuple[int, _Edge]]) -> str:
        types = [edge.type for _, edge in steps]
        if "rw" not in types:
            return "G1c" if "wr" in types else "G0"
        if types.count("rw") == 1:
            if len(steps) == 2 and "ww" in types and steps[0][1].key == steps[1][1].key:
                return "lost update"
            return "G-single"
        adjacent = any(pair == ("rw", "rw") for pair in zip(types, types[1:] + types[:1], strict=True))
        return "G2-item" if adjacent else "G-nonadjacent"

    def _sentence(self, number: int, edge: _Edge) -> str:
        first, second = self._transactions[number].name, self._transactions[edge.target].name
        match edge.type:
            case "ww":
                return f"{second} appended {edge.value} to {edge.key!r} after what {first} had appended"
            case "wr":
                return f"{second} read {edge.value} in {edge.key!r}, which {first} appended"
            case "rw":
                return f"{first} read {edge.key!r} without {edge.value}, which {second} appended"
            case "process":
                return f"{first} came before {second} in one process"
        return f"{first} ended before {second} began"
