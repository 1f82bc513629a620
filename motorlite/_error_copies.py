"""Pure: what the copies of errors need, for another process (pickle) or another task (copy)."""

from __future__ import annotations

import pickle
from typing import Any, Final

# Where the state of a copy has `__cause__`: no name of an attribute.
CAUSE: Final = "cause of the error"


def without_init(kind: type[BaseException], args: tuple[Any, ...]) -> Any:
    """An exception that is made without calling `__init__`, which may want other arguments."""
    return kind.__new__(kind, *args)


class UnportableError(Exception):
    """Stands in another process for an exception that cannot be made there, with its text."""


def portable(cause: BaseException) -> BaseException:
    """`cause` if it survives pickling, as many exceptions do not, else a stand-in."""
    try:
        pickle.loads(pickle.dumps(cause))
    except Exception:  # whatever its class, or an object that it holds, has to say
        return UnportableError(f"{type(cause).__module__}.{type(cause).__qualname__}: {cause}")
    return cause
