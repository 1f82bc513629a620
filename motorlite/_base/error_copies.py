"""Pure: helpers for copying errors, to another process (pickle) or another task (copy)."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Final, Self

# The key for `__cause__` in the state of a copy. It is not a valid attribute name.
CAUSE: Final = "cause of the error"


class CopyableError(Exception):
    """An exception that can be copied, to another process (pickle) or for another task (copy), with its cause.

    By default Python recreates an exception by calling its class with `args`, which hold only the message, and drops
    the cause. These copies are made without calling `__init__` and then take over the original's state.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__
        if cause is not None and not isinstance(cause, CopyableError):
            cause = portable(cause)
        return without_init, (type(self), self.args), self._state(cause)

    def __copy__(self) -> Self:
        return self._twin(self._state(self.__cause__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The cause is shared, not copied: many exceptions cannot be copied, and none changes once raised.
        twin = memo[id(self)] = self._twin({})
        twin.__setstate__({**copy.deepcopy(self.__dict__, memo), CAUSE: self.__cause__})
        return twin

    def _state(self, cause: BaseException | None) -> dict[str, Any]:
        # Sets (the labels) may still change.
        own = {name: set(value) if type(value) is set else value for name, value in self.__dict__.items()}
        return {**own, CAUSE: cause}

    def _twin(self, state: dict[str, Any]) -> Self:
        twin: Self = without_init(type(self), self.args)
        twin.__setstate__(state)
        return twin

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        attributes = dict(state or {})
        cause = attributes.pop(CAUSE, None)
        self.__dict__.update(attributes)
        if cause is not None:
            self.__cause__ = cause


def without_init(kind: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Make an exception without calling `__init__`, which may require other arguments."""
    return kind.__new__(kind, *args)


class UnportableError(Exception):
    """A stand-in, with the same text, for an exception that cannot be recreated in another process."""


def portable(cause: BaseException) -> BaseException:
    """Return `cause` if it survives pickling, which many exceptions do not, else a stand-in."""
    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # its class, or an object that it holds, may raise anything
        return UnportableError(f"{type(cause).__module__}.{type(cause).__qualname__}: {cause}")
    return cause
