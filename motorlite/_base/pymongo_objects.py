"""Pure: recognises objects of PyMongo's classes, which the driver accepts, without importing PyMongo."""

from __future__ import annotations

from typing import Any


def is_like(value: Any, kind: type[Any]) -> bool:
    """Whether `value` is an instance of `kind`, or of PyMongo's class with the same name.

    PyMongo is always installed (`bson` is part of it), and object mappers pass its requests, models and listeners.
    """
    return isinstance(value, kind) or any(
        base.__name__ == kind.__name__ and base.__module__.partition(".")[0] == "pymongo"
        for base in type(value).__mro__
    )
