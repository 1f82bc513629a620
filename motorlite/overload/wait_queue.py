"""Pure: the configuration of the queue in which operations wait for a connection."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from motorlite._base.arguments import check_boolean, check_whole, check_word, duration, size, wrong

__all__ = ["WaitQueue"]

MAX_DEPTH: Final = 10_000
# Seconds.
MAX_TIMEOUT: Final = 60.0
MAX_MEMORY: Final = 2**30
LOWEST_PRIORITY: Final = 0
HIGHEST_PRIORITY: Final = 100

_WORDS: Final = {
    "strategy": ("reject", "queue", "degrade"),
    "ordering": ("fifo", "priority", "adaptive"),
    "overflow_strategy": ("drop_newest", "drop_oldest", "reject"),
}
# What only one ordering reads.
_NEEDS_ORDERING: Final = {
    "adaptive_target": "adaptive",
    "adaptive_interval": "adaptive",
    "default_priority": "priority",
    "max_priority": "priority",
    "allow_priority_override": "priority",
}


class _Unnamed(str):
    """The strategy of a queue that names none."""

    __slots__ = ()


_UNNAMED: Final[Any] = _Unnamed("reject")


@dataclass(frozen=True, slots=True)
class WaitQueue:
    """What happens to operations that find all connections of a pool in use (the client option `wait_queue`).

    A pool is full when no connection is idle, and those in use, those being opened, and those that wait for a reply
    without a caller add up to `maxPoolSize`. A cold pool rejects nothing: while it may open connections, operations
    wait for them with every strategy, at most `max_depth` more than there may be connections (100 for at most 5 s,
    unless the strategy is ``"queue"``). Each server has its own pool and its own queue.

    Work in progress is never refused, and waits until its own time limit: commit and abort, getMore, the further
    commands of a bulk write, killCursors and endSessions.

    Durations are seconds or a text such as ``"5s"`` or ``"500ms"``; sizes are bytes or a text such as ``"10MB"`` (in
    powers of 1024). Both are numbers once the object is made.

    Attributes:
        strategy: What happens when the pool is full. ``"reject"``: refuse the operation at once with a
            PoolFullError. ``"queue"``: let it wait. ``"degrade"``: refuse it at once, and answer with the
            call's fallback instead of raising (`motorlite.call_options(fallback=...)`); a call without one raises.
            Name it: ``WaitQueue()``, which means ``"reject"``, is deprecated.
        max_depth: How many operations may wait, beyond those that a connection is free for; 1 to 10,000.
        timeout: How long an operation may wait, at most 60 s; the operation's own time limit applies too.
        ordering: Which operation gets the next free connection. ``"fifo"``: the one that has waited longest, as without
            this option. ``"priority"``: the one with the highest `motorlite.call_options(priority=...)`; waiting raises
            the rank. ``"adaptive"``: the oldest while the queue drains, and the newest once it has stood too long.
        memory_limit: How many bytes all waiting operations may need together, at most 1 GB: the size of the command
            and 200 bytes for each. None: they are not counted.
        overflow_strategy: What happens to an operation when `max_depth` others wait: ``"drop_newest"`` and
            ``"reject"`` refuse it; ``"drop_oldest"`` refuses the one that has waited longest, with priorities the one
            that has waited longest at the lowest priority.
        default_priority: The priority of calls that set none.
        max_priority: Higher priorities count as this one.
        allow_priority_override: Whether a `motorlite.call_options` block may raise the priority that an outer block
            sets. By default it may not: the code that authenticates the user decides, not the code that it calls.
        adaptive_target: A queue whose oldest operation waits for less than this is never a standing queue; at most 1 s.
        adaptive_interval: A queue that has not been below the target for this long is one; at most 10 s.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range, or has no effect with this strategy or ordering.
    """

    strategy: Literal["reject", "queue", "degrade"] = _UNNAMED
    max_depth: int = 100
    timeout: float | str = 5.0
    ordering: Literal["fifo", "priority", "adaptive"] = "fifo"
    memory_limit: int | str | None = 100 * 2**20
    overflow_strategy: Literal["drop_newest", "drop_oldest", "reject"] = "drop_newest"
    default_priority: int = 50
    max_priority: int = HIGHEST_PRIORITY
    allow_priority_override: bool = False
    adaptive_target: float | str = 0.005
    adaptive_interval: float | str = 0.1

    def __post_init__(self) -> None:
        if type(self.strategy) is _Unnamed:
            text = "WaitQueue() without a strategy is deprecated: it lets nothing wait; write WaitQueue('reject')"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "strategy", "reject")
        for name, words in _WORDS.items():
            check_word(name, getattr(self, name), words, "one of " + ", ".join(map(repr, words)))
        check_whole("max_depth", self.max_depth, 1, MAX_DEPTH)
        check_whole("max_priority", self.max_priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)
        check_whole("default_priority", self.default_priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)
        check_boolean("allow_priority_override", self.allow_priority_override)
        self._normalize("timeout", duration("timeout", self.timeout, MAX_TIMEOUT))
        self._normalize("adaptive_target", duration("adaptive_target", self.adaptive_target, 1.0))
        self._normalize("adaptive_interval", duration("adaptive_interval", self.adaptive_interval, 10.0))
        if self.memory_limit is not None:
            self._normalize("memory_limit", size("memory_limit", self.memory_limit, MAX_MEMORY))
        self._check_that_all_count()

    def _normalize(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    def _check_that_all_count(self) -> None:
        if self.default_priority > self.max_priority:
            raise ValueError(
                wrong("default_priority", self.default_priority, f"at most max_priority={self.max_priority}")
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "strategy" or value == field.default:
                continue
            if self.strategy != "queue":
                raise ValueError(f"{field.name}={value!r} has no effect without strategy='queue'")
            ordering = _NEEDS_ORDERING.get(field.name, self.ordering)
            if ordering != self.ordering:
                raise ValueError(f"{field.name}={value!r} has no effect without ordering={ordering!r}")
