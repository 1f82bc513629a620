"""Every public method says what it takes; one that sends commands says how they are retried."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

import pytest

from motorlite.gridfs import AsyncGridFS, AsyncGridFSBucket, AsyncGridIn, AsyncGridOut, AsyncGridOutCursor

CLASSES: Final = (AsyncGridFS, AsyncGridFSBucket, AsyncGridIn, AsyncGridOut, AsyncGridOutCursor)
# Not asynchronous, but the cursor that they return sends the command.
CURSORS: Final = {"find"}


def methods(kind: type[Any]) -> dict[str, Any]:
    """The methods of a class that are GridFS's own."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and value.__module__.startswith("motorlite._gridfs")
    }


@pytest.mark.parametrize("kind", CLASSES)
def test_everything_public_has_a_docstring(kind: type[Any]) -> None:
    names = [name for name in dir(kind) if not name.startswith("_")]
    bare = [name for name in names if name != "closed" and not inspect.getdoc(inspect.getattr_static(kind, name))]
    assert bare == []
    assert inspect.getdoc(kind)


@pytest.mark.parametrize("kind", CLASSES)
def test_arguments_are_described(kind: type[Any]) -> None:
    assert methods(kind)
    missing = [
        f"{name}: {each}"
        for name, method in methods(kind).items()
        for each in list(inspect.signature(method).parameters)[1:]
        if not re.search(rf"^    {each}: ", inspect.getdoc(method) or "", re.MULTILINE)
    ]
    assert missing == []


@pytest.mark.parametrize("kind", CLASSES)
def test_methods_that_send_say_how_they_are_retried(kind: type[Any]) -> None:
    for name, method in methods(kind).items():
        sends = inspect.iscoroutinefunction(method) or name in CURSORS
        assert ("\nRetries: " in (inspect.getdoc(method) or "")) is sends, name
