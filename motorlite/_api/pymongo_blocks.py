"""Shell: the `pymongo.timeout` block around an operation, from code that still uses PyMongo beside motorlite.

PyMongo is never imported here: without it, no such block can exist. It keeps the limit in context variables with
private names. They are used only after a trial block, in a context of its own, has shown that they mean what they
should. In a PyMongo where they do not, an operation inside of a block is refused rather than left without its limit.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from contextvars import ContextVar
    from types import ModuleType

    Timeout: TypeAlias = Callable[[float | None], AbstractContextManager[None]]

# Seconds: a limit for trial blocks, and one that no outer block has.
_TRIAL = 60.0
_FOREVER = 1e9


class Theirs(NamedTuple):
    """The innermost `pymongo.timeout` block: its argument, and the seconds that are left.

    Of a block of 0 or None, these are the seconds that are left of the blocks around it.
    """

    seconds: float | None
    remaining: float


class _Readable:
    """The blocks of a PyMongo that is understood."""

    __slots__ = ("_deadline", "_remaining", "_seconds", "_timeout")

    def __init__(self, timeout: Timeout, private: Any) -> None:
        self._timeout = timeout
        self._seconds: Callable[[], float | None] = private.TIMEOUT.get
        self._deadline: Callable[[], float] = private.DEADLINE.get
        self._remaining: Callable[[], float | None] = private.remaining

    @property
    def variables(self) -> tuple[Callable[[], float | None], Callable[[], float]]:
        """What returns the argument of the innermost block, None without one, and the end of all, infinity without."""
        return self._seconds, self._deadline

    def __call__(self) -> Theirs | None:
        seconds = self._seconds()
        if seconds:
            return Theirs(seconds, self._left())
        if self._deadline() == inf:
            return None if seconds is None else Theirs(seconds, inf)
        # `timeout(None)` or `timeout(0)` in a block: nothing is limited, but no limit set there may outlast the block.
        with self._timeout(_FOREVER):
            return Theirs(seconds, self._left())

    def _left(self) -> float:
        left = self._remaining()
        return inf if left is None else left

    def is_right(self) -> bool:
        """Whether trial blocks read as they should."""
        with self._timeout(_TRIAL):
            outer = self()
            with self._timeout(None):
                lifted = self()
        return (
            self() is None
            and outer is not None
            and outer.seconds == _TRIAL
            and lifted is not None
            and lifted.seconds is None
            and all(_TRIAL / 2 < found.remaining <= _TRIAL for found in (outer, lifted))
        )


class _Unreadable:
    """The blocks of a PyMongo that is not understood: whether there is one shows in the variables that it sets."""

    __slots__ = ("_variables", "_version")

    def __init__(self, timeout: Timeout, version: object) -> None:
        try:
            self._variables = Context().run(_set_by, timeout)
        except Exception:  # as in `_reader`
            self._variables = frozenset()
        self._version = version

    def __call__(self) -> None:
        context = copy_context()
        if not self._variables or any(variable in context for variable in self._variables):
            raise InvalidOperation(
                f"motorlite cannot read the limit of pymongo.timeout() in PyMongo {self._version}, and would have to "
                "ignore it: use motorlite.timeout() instead"
            )


def _set_by(timeout: Timeout) -> frozenset[ContextVar[Any]]:
    with timeout(_TRIAL):
        return frozenset(copy_context())


Reader: TypeAlias = "Callable[[], Theirs | None]"


def _reader(pymongo: ModuleType, timeout: Timeout) -> Reader:
    unreadable = _Unreadable(timeout, getattr(pymongo, "version", "of an unknown version"))
    try:
        readable = _Readable(timeout, getattr(pymongo, "_csot", None))
        return readable if Context().run(readable.is_right) else unreadable
    except Exception:  # another PyMongo's: anything may be missing, or have become something else
        return unreadable


class _Found:
    """PyMongo's module, and what reads its blocks."""

    __slots__ = ("deadline", "module", "read", "seconds")

    def __init__(self, module: ModuleType | None, read: Reader) -> None:
        self.module = module
        self.read = read
        # The two look-ups of every operation: of a context without any block, unless it must be looked at more closely.
        self.seconds: Callable[[], float | None] = lambda: 0
        self.deadline: Callable[[], float] = lambda: 0
        if isinstance(read, _Readable):
            self.seconds, self.deadline = read.variables


_found = _Found(None, lambda: None)


def innermost(pymongo: ModuleType) -> Theirs | None:
    """Return the innermost `pymongo.timeout` block around the caller, or None.

    Args:
        pymongo: PyMongo's module, from `sys.modules`.

    Raises:
        InvalidOperation: There is, or may be, such a block, and this PyMongo keeps its limit where it is not found.
    """
    global _found
    found = _found
    if found.module is not pymongo:
        timeout = getattr(pymongo, "timeout", None)
        if timeout is None:  # it is being imported
            return None
        found = _found = _Found(pymongo, _reader(pymongo, timeout))
    if found.seconds() is None and found.deadline() == inf:
        return None
    return found.read()
