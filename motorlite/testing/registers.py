"""Pure: judges whether registers are linearizable.

Theory of operation. A history is linearizable if all of its operations can be put into an order in which each read
returns what was last written, and each operation takes effect between its beginning and its end. Registers are
independent, so each is judged alone (Herlihy and Wing, 1990). The search is that of Wing and Gong (1993) with Lowe's
memory (2017): of the operations that no other one has to precede, it puts one first, and goes on with the rest; if it
gets stuck, it goes back, and remembers the configuration that led nowhere.

An operation with an unknown outcome may take effect at any time after its beginning, or never. One that failed never
does. What is left of the search is small, because of what is known about registers:

- A read that returns the present value comes next: it changes nothing.
- A value that is still needed and that no remaining write brings back is not overwritten.
- A write with an unknown outcome comes next only if an operation that may come next needs its value, or cannot happen
  with the present one.
- A write whose value no other operation needs comes next if what it overwrites is not needed any more. This holds only
  after the last failed comparison (a ``cas`` that ended as ``ok`` with `swapped` false), which tells what a register
  did not hold.

To judge histories that write equal values is NP-complete, so the search has a limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from json import dumps
from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite.testing.findings import Finding
from motorlite.testing.journal import operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from motorlite.testing.journal import Entry, Key, Operation

__all__ = ["judge_registers"]

LIMIT: Final = 1_000_000
"""Choices after which the search of one register gives up."""


def judge_registers(
    entries: Iterable[Entry], final: Mapping[Key, Any] | None = None, *, limit: int = LIMIT
) -> list[Finding]:
    """Judge the operations ``register`` of a journal.

    Args:
        entries: The journal; other kinds of operations are ignored.
        final: The values after all operations; None: they are not known. A key that is missing has the value None, as
            each register has at the start if no observation ``start`` says otherwise.
        limit: Choices after which the search of one register gives up.

    Returns:
        ``not linearizable`` for each register whose operations have no order, and ``undecided`` for each whose search
        gave up.

    Raises:
        ValueError: The journal contradicts itself.
    """
    performed = operations(entries)
    starts = [pair for each in performed if each.kind == "start" for pair in each.details.get("registers", ())]
    start = {key: _text(value) for key, value in starts}
    keys: dict[Key, list[_Step]] = defaultdict(list)
    for operation in performed:
        if operation.kind == "register" and (step := _step(operation)) is not None:
            keys[operation.details["key"]].append(step)
    if final is not None:
        for key in dict.fromkeys([*keys, *start, *final]):
            keys[key].append(_Step(None, inf, inf, True, _text(final.get(key)), None))
    found = (_Search(key, steps, start.get(key, _text(None))).finding(limit) for key, steps in keys.items())
    return [finding for finding in found if finding is not None]


def _text(value: Any) -> str:
    """A value by which values are compared."""
    return dumps(value, sort_keys=True)


@dataclass(slots=True, eq=False)
class _Step:
    """What one operation needs and does; values as JSON."""

    operation: Operation | None  # None: the final read
    begin: float
    end: float
    # Its end was seen, so it must have happened.
    is_certain: bool
    # What the register must hold; None: anything.
    needs: str | None
    # What it holds afterwards; None: what it held.
    writes: str | None
    # What the register must not hold; None: anything.
    rejects: str | None = None
    # Its place among the certain or the uncertain steps, by `begin`.
    place: int = 0

    @property
    def text(self) -> str:
        name = "the final read" if self.operation is None else f"#{self.operation.begun.id}"
        if self.rejects is not None:
            return f"{name} did not swap {self.rejects}"
        if self.writes is None:
            return f"{name} read {self.needs}"
        return f"{name} wrote {self.writes}" if self.needs is None else f"{name} swapped {self.needs} for {self.writes}"


def _step(operation: Operation) -> _Step | None:
    """What the operation may have done; None: certainly nothing."""
    details, is_certain = operation.details, operation.outcome == "ok"
    if operation.outcome == "failed" or (details["op"] == "read" and not is_certain):
        return None
    needs = writes = rejects = None
    match details["op"]:
        case "read":
            needs = _text(operation.result["value"])
        case "write":
            writes = _text(details["value"])
        case "cas":
            needs, writes = _text(details["expected"]), _text(details["value"])
            if not operation.result.get("swapped", True):
                needs, writes, rejects = None, None, needs
            elif needs == writes:
                writes = None
        case other:
            raise ValueError(f"{other!r} is none of read, write and cas")
    if not is_certain and writes is None:
        return None
    return _Step(operation, operation.begin, operation.end, is_certain, needs, writes, rejects)


class _Search:
    """The search for an order of the operations on one register."""

    def __init__(self, key: Key, steps: list[_Step], value: str) -> None:
        self._key = key
        self._value = value
        steps.sort(key=lambda step: step.begin)
        self._certain = [step for step in steps if step.is_certain]
        uncertain = [step for step in steps if not step.is_certain]
        for places in (self._certain, uncertain):
            for place, step in enumerate(places):
                step.place = place
        # Certain steps that are left, as a list linked by places; the place -1 is its head.
        self._next = [*range(1, len(self._certain) + 1), 0]
        self._previous = [*range(-1, len(self._certain))]
        self._left = len(self._certain)
        # Uncertain steps by what they write and need. Of equal ones, the earliest is always the next.
        self._uncertain: dict[str, dict[str | None, list[_Step]]] = defaultdict(dict)
        for step in uncertain:
            assert step.writes is not None
            self._uncertain[step.writes].setdefault(step.needs, []).append(step)
        self._used: Counter[tuple[str, str | None]] = Counter()
        # How many steps that are left need a value (certain ones, and all) or write it.
        self._needed = Counter(step.needs for step in self._certain)
        self._wanted = Counter(step.needs for step in steps)
        self._written = Counter(step.writes for step in steps)
        self._rejections = sum(step.rejects is not None for step in self._certain)
        # Which steps were taken, as bits; all of them in order, with the value before each.
        self._taken = [0, 0]
        self._trail: list[tuple[_Step, str]] = []
        # Configurations that lead nowhere, by the first certain step that is left.
        self._dead: dict[int, set[tuple[int, int, str]]] = defaultdict(set)
        # The most certain steps that were taken, and what was possible then.
        self._least_left = self._left + 1
        self._stuck: list[_Step] = []
        self._stuck_value = value
        self._stuck_writer: _Step | None = None

    def finding(self, limit: int) -> Finding | None:
        """What is wrong with the register, if anything is."""
        frames: list[tuple[int, tuple[int, int, int, str], Iterator[_Step]]] = []
        choices = 0
        for each in self._certain:
            if each.needs not in (None, self._value) and not self._written[each.needs]:
                return self._finding(f"{each.text}, which was not written", [each])
        while True:
            first = self._take_what_is_safe()
            if not self._left:
                return None
            place = first[0].place
            configuration = (place, self._taken[True] >> place, self._taken[False], self._value)
            is_dead = place in self._dead and configuration[1:] in self._dead[place]
            frames.append((len(self._trail), configuration, iter(() if is_dead else self._choices(first))))
            while frames:
                length, configuration, candidates = frames[-1]
                while len(self._trail) > length:
                    self._give_back()
                if (step := next(candidates, None)) is not None:
                    self._take(step)
                    break
                self._dead[configuration[0]].add(configuration[1:])
                frames.pop()
            else:
                return self._explanation()
            choices += 1
            if choices > limit:
                message = f"the operations on {self._key!r} have too many orders; {limit} choices did not decide"
                return Finding("undecided", message)

    # --- what may come next ---

    def _first(self) -> list[_Step]:
        """The certain steps that no other certain step has to precede."""
        first: list[_Step] = []
        end = inf
        place = self._next[-1]
        while place < len(self._certain) and (step := self._certain[place]).begin <= end:
            first.append(step)
            end = min(end, step.end)
            place = self._next[place]
        return first

    def _take_what_is_safe(self) -> list[_Step]:
        """Take the steps that may come next without loss; returns the certain steps that may follow."""
        while True:
            first = self._first()
            safe = [step for step in first if step.writes is None and self._is_possible(step)]
            if not (safe or self._rejections or self._wanted[self._value]):
                blind = (step for step in first if step.needs is None and not self._wanted[step.writes])
                safe = [step for step in blind if step.writes is not None][:1]
            if not safe:
                break
            for step in safe:
                self._take(step)
        if self._left < self._least_left:
            self._least_left, self._stuck, self._stuck_value = self._left, first, self._value
            writers = (step for step, _ in reversed(self._trail) if step.writes is not None)
            self._stuck_writer = next(writers, None)
        return first

    def _is_possible(self, step: _Step) -> bool:
        return step.needs in (None, self._value) and step.rejects != self._value

    def _choices(self, first: list[_Step]) -> list[_Step]:
        """The steps that may change the value next."""
        wanted = {step.needs for step in first if step.needs is not None}
        certain = [step for step in first if step.writes is not None and self._is_possible(step)]
        certain.sort(key=lambda step: (step.writes not in wanted, step.end))
        end = min(step.end for step in first)
        if any(step.rejects == self._value for step in first):
            wanted |= self._uncertain.keys()
        choices = certain[:1] + self._uncertain_choices(wanted, end) + certain[1:]
        return [step for step in choices if not self._destroys(step)]

    def _uncertain_choices(self, wanted: set[str], end: float) -> list[_Step]:
        """The steps with an unknown outcome that may help one of the `wanted` values."""
        choices = []
        open_values = list(wanted)
        while open_values:
            value = open_values.pop()
            for needs, steps in self._uncertain.get(value, {}).items():
                used = self._used[value, needs]
                if used == len(steps) or steps[used].begin > end:
                    continue
                if needs in (None, self._value):
                    choices.append(steps[used])
                elif needs not in wanted:
                    wanted.add(needs)
                    open_values.append(needs)
        return [step for step in choices if step.writes != self._value]

    def _destroys(self, step: _Step) -> bool:
        """Whether what it overwrites is needed later, and cannot come back."""
        needed = self._needed[self._value] - (step.is_certain and step.needs == self._value)
        return needed > 0 and not self._written[self._value] and step.writes != self._value

    # --- steps ---

    def _take(self, step: _Step) -> None:
        self._trail.append((step, self._value))
        self._count(step, -1)
        if step.writes is not None:
            self._value = step.writes
        if step.is_certain:
            after, before = self._next[step.place], self._previous[step.place]
            self._next[before] = after
            self._previous[after] = before

    def _give_back(self) -> None:
        step, self._value = self._trail.pop()
        self._count(step, 1)
        if step.is_certain:
            self._next[self._previous[step.place]] = step.place
            self._previous[self._next[step.place]] = step.place

    def _count(self, step: _Step, change: int) -> None:
        self._taken[step.is_certain] ^= 1 << step.place
        self._wanted[step.needs] += change
        self._written[step.writes] += change
        if step.is_certain:
            self._needed[step.needs] += change
            self._rejections += change * (step.rejects is not None)
            self._left += change
        else:
            assert step.writes is not None
            self._used[step.writes, step.needs] -= change

    def _explanation(self) -> Finding:
        writer = self._stuck_writer
        since = "from the start" if writer is None else f"after {writer.text}"
        later = (step for step in self._certain if step.needs == self._stuck_value and step.begin > self._stuck[0].end)
        shown = [*self._stuck[:5], *islice(later, 1)]
        what = ", and ".join(step.text for step in shown)
        before = [] if writer is None else [writer]
        return self._finding(f"it held {self._stuck_value} {since}, but {what}", before + shown)

    def _finding(self, why: str, steps: list[_Step]) -> Finding:
        performed = [step.operation for step in steps if step.operation is not None]
        message = f"no order explains the operations on {self._key!r}: {why}"
        return Finding("not linearizable", message, tuple(entry for each in performed for entry in each.entries))
