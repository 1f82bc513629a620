"""Pure: lets code that still imports PyMongo catch motorlite's exceptions, and hear its events.

A program that is ported step by step has handlers such as ``except pymongo.errors.DuplicateKeyError``, and libraries
that have them too, and agents that call `pymongo.monitoring.register`. Call `install` once, where the program starts::

    import motorlite.compat

    motorlite.compat.install()

**Exceptions.** From then on, each of motorlite's exceptions is also an instance of PyMongo's exception of the same name
(GridFS: of the package `gridfs`), for ``except``, `isinstance` and `issubclass`, with all of PyMongo's base classes.
Exceptions of motorlite's own are what they are derived from: a `CircuitBreakerOpenError` is also a
`pymongo.errors.ConnectionFailure`. What handlers read (`code`, `details`, `errors`, `timeout`, `has_error_label`,
`partial_result`...) is motorlite's, under PyMongo's names, and so are text, copies and pickles; a pickle can be loaded
where `install` was not called. ``except motorlite.errors...`` works as before.

It works by changing the base classes of motorlite's exceptions, not PyMongo: PyMongo's own exceptions are never
motorlite's. There is no cost per operation.

**Tracing agents and other listeners.** Whatever is registered with `pymongo.monitoring.register`, before or after
`install`, hears the command, pool, server, heartbeat and topology events of every motorlite client that is made later,
as those of PyMongo's clients. Events have all attributes of PyMongo's; tests run the instrumentations of OpenTelemetry
(`opentelemetry-instrumentation-pymongo`) and Sentry (`sentry_sdk.integrations.pymongo`) this way.

**Limits.**

- Other classes stay what they are: an `AsyncCollection` of motorlite is no instance of PyMongo's, nor are events and
  results. Agents that replace methods inside PyMongo, as those of Datadog and New Relic do, see nothing:
  `motorlite.exporters.opentelemetry` needs no such method.
- A class of the application that is derived from exceptions of both, PyMongo's first, has no possible order of its base
  classes afterwards: `install` raises `TypeError`, and changes nothing. Name motorlite's first.

This module imports PyMongo, and no other module of motorlite imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import gridfs.errors
import pymongo.errors
from pymongo import monitoring

import motorlite.errors
import motorlite.gridfs.errors
import motorlite.monitoring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["install", "uninstall"]

# PyMongo's lists of global listeners, one for each kind; private, but as old as its `register`.
_THEIR_LISTENERS: Final = "_LISTENERS"
# The packages of the base classes that `install` adds.
_THEIR_PACKAGES: Final = ("pymongo", "gridfs")


def install() -> None:
    """Make motorlite's exceptions also PyMongo's, and PyMongo's global listeners also motorlite's.

    Call it once, from any thread, before clients are made; further calls change nothing. What it does, and what it
    cannot do, is in the description of this module.

    Raises:
        TypeError: A class of the application has a base class of each library in an order that does not allow it.
        RuntimeError: The installed PyMongo keeps its global listeners where they are not found.
    """
    if issubclass(motorlite.errors.PyMongoError, pymongo.errors.PyMongoError):
        return
    if not isinstance(getattr(monitoring, _THEIR_LISTENERS, None), tuple):
        raise RuntimeError(
            f"motorlite.compat does not find the global listeners of PyMongo {pymongo.version}; "
            "pass them to each client as event_listeners"
        )
    try:
        for ours, theirs in _pairs():
            _derive(ours, theirs)
    except TypeError as error:
        _restore()
        raise TypeError(
            f"motorlite.compat.install() cannot change the base classes of motorlite's exceptions ({error}): a class "
            f"with base classes of both libraries must name those of motorlite first{_theirs_first()}"
        ) from None
    motorlite.monitoring.sources.append(_their_listeners)


def uninstall() -> None:
    """Take back what `install` did, for tests. Existing exceptions and clients are what their classes now are."""
    _restore()
    # By name: after a reload of this module, the function that `install` added is not this one.
    motorlite.monitoring.sources[:] = [source for source in motorlite.monitoring.sources if not _is_theirs(source)]


def _pairs() -> Iterator[tuple[type, type]]:
    """Motorlite's exceptions with PyMongo's of the same name; base classes first."""
    for ours, theirs in ((motorlite.errors, pymongo.errors), (motorlite.gridfs.errors, gridfs.errors)):
        kinds = [vars(ours)[name] for name in ours.__all__]
        for kind in sorted(kinds, key=lambda kind: len(kind.__mro__)):
            counterpart = getattr(theirs, kind.__name__, None)
            # Errors of bson are the same in both.
            if counterpart is not None and issubclass(kind, motorlite.errors.PyMongoError):
                yield kind, counterpart


def _derive(ours: type, theirs: type) -> None:
    """Make `theirs` a base class of `ours`, after those of motorlite, so that its methods are never found first."""
    bases = ours.__bases__
    position = next((index for index, base in enumerate(bases) if issubclass(theirs, base)), len(bases))
    _change(ours, (*bases[:position], theirs, *bases[position:]))


def _restore() -> None:
    """Remove PyMongo's classes from the base classes, derived classes first.

    What was there before is not remembered, because a reload of this module would forget it.
    """
    for ours, _ in reversed([*_pairs()]):
        bases = tuple(base for base in ours.__bases__ if base.__module__.partition(".")[0] not in _THEIR_PACKAGES)
        if bases != ours.__bases__:
            _change(ours, bases)


def _theirs_first() -> str:
    """Name the application's classes whose order of base classes may be impossible, for a message."""
    theirs = {counterpart for _, counterpart in _pairs()}
    names: set[str] = set()
    kinds: list[type] = [motorlite.errors.PyMongoError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        mro = kind.__mro__
        first = next((index for index, base in enumerate(mro) if base in theirs), len(mro))
        if any(base.__module__.partition(".")[0] == "motorlite" for base in mro[first:]):
            names.add(f"{kind.__module__}.{kind.__qualname__}")
    return f"; look at {', '.join(sorted(names))}" if names else ""


def _change(kind: Any, bases: tuple[type, ...]) -> None:
    kind.__bases__ = bases


def _is_theirs(source: Callable[[], Iterable[object]]) -> bool:
    return (source.__module__, source.__qualname__) == (__name__, _their_listeners.__qualname__)


def _their_listeners() -> Iterator[object]:
    """What is registered with PyMongo; one listener of several kinds is in several lists."""
    known: set[int] = set()
    for listeners in getattr(monitoring, _THEIR_LISTENERS):
        for listener in listeners:
            if id(listener) not in known:
                known.add(id(listener))
                yield listener
