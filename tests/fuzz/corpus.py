"""The corpora: for each target a file with one input per line, in base64, which together reach what fuzzing reached."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.fuzz.target import MAX_INPUT, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fuzz.target import Target

_FOLDER: Final = Path(__file__).with_name("corpora")


def _path(target: Target) -> Path:
    return _FOLDER / f"{target.name}.txt"


def load(target: Target) -> list[bytes]:
    """Return the inputs of a target's corpus."""
    path = _path(target)
    return [b64decode(line, validate=True) for line in path.read_text().split()] if path.exists() else []


def save(target: Target, inputs: Iterable[bytes]) -> None:
    """Replace a target's corpus."""
    lines = sorted({b64encode(data).decode() for data in inputs}, key=lambda line: (len(line), line))
    _path(target).write_text("".join(f"{line}\n" for line in lines))


def minimised(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that each add a step between two lines of the driver to those of all shorter ones."""
    reached: set[tuple[str, int, int]] = set()
    kept = []
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        if len(data) > MAX_INPUT:
            break
        arcs = steps_of(target, data)[1]
        if not arcs <= reached:
            reached |= arcs
            kept.append(data)
    return kept


def shrunk(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Return a short input for which `fails` is still true: `data` without the parts that do not matter."""
    size = max(1, len(data) // 2)
    while True:
        position = 0
        while position < len(data):
            shorter = data[:position] + data[position + size :]
            if fails(shorter):
                data = shorter
            else:
                position += size
        if size == 1:
            return data
        size = max(1, min(size // 2, len(data)))
