"""Pure: the base classes of all events."""

from __future__ import annotations


class Public:
    """A class that is public as part of `motorlite.monitoring`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__}>"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("motorlite._events."):
            cls.__module__ = "motorlite.monitoring"


class Event(Public):
    """The base class of all events, with a readable repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = [name for kind in reversed(type(self).__mro__) for name in getattr(kind, "__slots__", ())]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"<{type(self).__name__} {fields}>"
