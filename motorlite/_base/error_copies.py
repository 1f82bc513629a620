"""Pure: helpers for copying errors, to another process (pickle) or another task (copy)."""

from __future__ import annotations

from typing import Any, Final

# The key for `__cause__` in the state of a copy. It is not a valid attribute name.
CAUSE: Final = "cause of the error"


def without_init(kind: type[BaseException], args: tuple[Any, ...]) -> Any:
    """Make an exception without calling `__init__`, which may require other arguments."""
    return kind.__new__(kind, *args)


class UnportableError(Exception):
    """A stand-in, with the same text, for an exception that cannot be recreated in another process."""


def portable(cause: BaseException) -> BaseException:
    """Return `cause` if it survives pickling, which many exceptions do not, else a stand-in."""
    import pickle

    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # its class, or an object that it holds, may raise anything
        return UnportableError(f"{type(cause).__module__}.{type(cause).__qualname__}: {cause}")
    return cause
