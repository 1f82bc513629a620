"""Shell: how `timeoutMS` applies to the steps of a cursor (client-side operations timeout, "Cursors")."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, get_args

from motorlite._api import limits
from motorlite._api.typings import TimeoutMode
from motorlite._base.arguments import wrong
from motorlite._base.deadline import NO_DEADLINE
from motorlite._execution.operation import TimeLimit
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core

_MODES = get_args(TimeoutMode)


class CursorLimits:
    """Deadlines of one cursor: of the command that opens it, of each iteration step, and of its close.

    Args:
        inherited: Seconds, from client, database or collection.
        timeout_ms: The caller's timeoutMS, or None.
        mode: Whether the timeout limits the cursor's lifetime or each step; None for the default.
        is_tailable: The cursor is tailable: it has no end, so only its steps can be limited.
        is_await_data: The server waits for new data.

    Raises:
        ValueError: `mode` or `timeout_ms` has a wrong value.
        ConfigurationError: `mode` is set without a timeout, or to cursorLifetime for a tailable cursor.
    """

    __slots__ = (
        "_first",
        "_inherited",
        "_is_await_data",
        "_is_by_iteration",
        "_timeout_ms",
    )

    def __init__(
        self,
        inherited: float | None,
        timeout_ms: float | None = None,
        mode: TimeoutMode | None = None,
        *,
        is_tailable: bool = False,
        is_await_data: bool = False,
    ) -> None:
        if timeout_ms is not None:
            limits.duration_from_ms(timeout_ms)
        if mode is not None and mode not in _MODES:
            raise ValueError(wrong("timeoutMode", mode, " or ".join(map(repr, _MODES))))
        if is_tailable and mode == "cursorLifetime":
            raise ConfigurationError(wrong("timeoutMode", mode, "'iteration', because the cursor is tailable"))
        if mode is not None and not limits.is_timeout_set(inherited, timeout_ms):
            raise ConfigurationError(wrong("timeoutMode", mode, "None, because timeoutMS is not set"))
        self._inherited = inherited
        self._timeout_ms = timeout_ms
        self._is_await_data = is_await_data
        self._is_by_iteration = is_tailable or mode == "iteration"
        # The deadline of the command that opened the cursor.
        self._first = NO_DEADLINE

    @property
    def time_limit(self) -> TimeLimit:
        """Whether the command that opens the cursor may carry maxTimeMS, which limits the cursor's lifetime."""
        return TimeLimit.OMIT if self._is_by_iteration and not self._is_await_data else TimeLimit.SEND

    def open(self, core: Core, max_await_time_ms: float | None = None, within: Deadline | None = None) -> Deadline:
        """Return the deadline of the command that opens the cursor.

        `within`: that of the `with_transaction` call around it.

        Raises:
            ConfigurationError: The server would wait for data longer than `timeoutMS` allows.
            InvalidOperation: The cursor has a timeoutMS of its own `within` another.
        """
        if within is None:
            first = limits.deadline(core, self._inherited, self._timeout_ms)
        else:
            first = limits.of_session(core, within, self._timeout_ms)
        if max_await_time_ms is not None and max_await_time_ms >= first.timeout * 1000:
            allowed = f"less than timeoutMS, which is {first.timeout * 1000:g}"
            raise ConfigurationError(wrong("maxAwaitTimeMS", max_await_time_ms, allowed))
        self._first = first
        return first

    def step(self, core: Core) -> Deadline:
        """Return the deadline of one iteration step, which may send several getMore commands."""
        if self._is_by_iteration and self._first.timeout != inf:
            return limits.refreshed(core, self._first.timeout)
        return limits.continued(core, self._first)

    def close(self, core: Core, timeout_ms: float | None = None) -> Deadline:
        """Return the deadline of killCursors, restarted so that an expired cursor is closed on the server too."""
        return limits.for_close(core, self._first.timeout, timeout_ms)
