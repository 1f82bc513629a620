"""Pure: what all events have in common."""

from __future__ import annotations


class Event:
    """Gives every event a readable repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = [name for kind in reversed(type(self).__mro__) for name in getattr(kind, "__slots__", ())]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"<{type(self).__name__} {fields}>"
