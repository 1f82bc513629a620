"""Mutations of inputs: bytes are changed anywhere, BSON documents also by their structure, so that they stay BSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

from tests.fuzz.target import MAX_INPUT, Form
from tests.support.malformed import ABSENT, VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.fuzz.target import Target

# Without those that are larger than an input.
_VALUES: Final = [
    value for name, value in VALUES.items() if name not in ("absent", "long text", "long array", "deep", "too deep")
]
_BOUNDARIES: Final = (0, 1, 4, 5, 15, 16, 127, 128, 255, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
_SMALLEST: Final = 5
_WORDS: Final = re.compile(rb"\w+|\s+|.", re.DOTALL)


class Mutator:
    """Makes new inputs of a target from old ones."""

    # Decodes whatever is well-formed.
    LENIENT: Final = CodecOptions[dict[str, Any]](
        datetime_conversion=DatetimeConversion.DATETIME_MS, unicode_decode_error_handler="replace"
    )

    def __init__(self, target: Target, random: Random) -> None:
        self._target = target
        self._random = random
        self._changes = {
            Form.BYTES: self._changed_bytes,
            Form.DOCUMENTS: self._changed_documents,
            Form.LINES: self._changed_lines,
        }
        self._keys = self.keys_of(target)

    @staticmethod
    def keys_of(target: Target) -> list[str]:
        """Return all keys of the documents in a target's seeds."""
        if target.form is not Form.DOCUMENTS:
            return []
        parts = [part for seed in target.seeds for part in documents(seed[target.prefix :])]
        return sorted({key for part in parts for key in _keys(decoded(part))})

    def mutated(self, data: bytes, others: Sequence[bytes]) -> bytes:
        """Return another input, made of `data` and perhaps of one of the `others`."""
        random, prefix = self._random, self._target.prefix
        head, rest = data[:prefix], data[prefix:]
        if prefix and random.random() < 0.1:
            head = random.randbytes(prefix)
        for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
            change = self._changed_bytes if random.random() < 0.2 else self._changes[self._target.form]
            rest = change(rest, random.choice(others)[prefix:] if others else b"")
        return (head + rest)[:MAX_INPUT]

    # --- bytes ---

    def _changed_bytes(self, data: bytes, other: bytes) -> bytes:
        random = self._random
        start = random.randrange(len(data) + 1)
        size = random.choice((1, 1, 2, 4, random.randrange(len(data) - start + 1)))
        before, after = data[:start], data[start + size :]
        kind = random.randrange(7)
        if kind == 0:
            return before + after
        if kind == 1:
            return before + random.randbytes(size) + after
        if kind == 2:
            return before + random.randbytes(size) + data[start:]
        if kind == 3:
            return data[:start] + data[start : start + size] * random.choice((2, 3, 50)) + after
        if kind == 4:
            width = random.choice((1, 2, 4, 8))
            number = random.choice(_BOUNDARIES) * random.choice((1, 1, 1, -1)) + random.choice((0, 0, 1, -1))
            encoded = (number % (1 << 8 * width)).to_bytes(width, random.choice(("little", "little", "big")))
            return before + encoded + data[start + width :]
        if kind == 5 and data:
            position = min(start, len(data) - 1)
            flipped = bytes([data[position] ^ 1 << random.randrange(8)])
            return data[:position] + flipped + data[position + 1 :]
        cut = random.randrange(len(other) + 1)
        return before + other[cut : cut + random.choice((size, len(other)))] + after

    # --- lines ---

    def _changed_lines(self, data: bytes, other: bytes) -> bytes:
        random, lines, others = self._random, data.splitlines(keepends=True), other.splitlines(keepends=True)
        position, kind = random.randrange(len(lines) + 1), random.randrange(6)
        if kind == 0:
            del lines[position : position + random.choice((1, 2, 5))]
        elif kind == 1 and others:
            start = random.randrange(len(others))
            lines[position:position] = others[start : start + random.choice((1, 2, 5))]
        elif kind == 2 and lines:
            line = lines[position - 1]
            lines[position - 1] = random.choice((b"    " + line, line[4:], line.rstrip(), line.lstrip()))
        elif kind == 3 and lines:
            lines[position:position] = [random.choice(lines)]
        else:
            return self._changed_words(data, other)
        return b"".join(lines)

    def _changed_words(self, data: bytes, other: bytes) -> bytes:
        """Replace a word or a sign by another one."""
        random, words, others = self._random, _WORDS.findall(data), _WORDS.findall(other + data)
        if words:
            words[random.randrange(len(words))] = random.choice((b"", *random.choices(others, k=3)))
        return b"".join(words)

    # --- documents ---

    def _changed_documents(self, data: bytes, other: bytes) -> bytes:
        random, parts = self._random, list(documents(data))
        if not parts or random.random() < 0.1:
            return self._rearranged(parts, list(documents(other)))
        position = random.randrange(len(parts))
        document = decoded(parts[position])
        if document is None:
            return self._changed_bytes(data, other)
        self._change(document)
        try:
            parts[position] = bson.encode(document)
        except Exception:  # a key with a NUL, a document nested too deeply, ...
            return self._changed_bytes(data, other)
        return b"".join(parts)

    def _rearranged(self, parts: list[bytes], others: list[bytes]) -> bytes:
        """Remove, repeat or insert whole documents."""
        random, kind = self._random, self._random.randrange(3)
        position = random.randrange(len(parts) + 1)
        if kind == 0:
            del parts[position : position + 1]
        elif kind == 1 or not others:
            parts[position:position] = parts[position : position + 1]
        else:
            parts.insert(position, random.choice(others))
        return b"".join(parts)

    def _change(self, container: dict[str, Any] | list[Any]) -> None:
        random = self._random
        if isinstance(container, list):
            if not container or random.random() < 0.2:
                container.insert(random.randrange(len(container) + 1), self._value())
                return
            place: Any = random.randrange(len(container))
        else:
            if not container or random.random() < 0.1:
                container[self._key()] = self._value()
                return
            place = random.choice(list(container))
        value = container[place]
        kind = random.randrange(8)
        if kind == 0:
            del container[place]
        elif kind == 1:
            container[place] = self._value()
        elif kind == 2 and isinstance(container, dict):
            container[self._key()] = value
        elif isinstance(value, dict | list):
            self._change(value)
        else:
            container[place] = self._changed_value(value)

    def _changed_value(self, value: Any) -> Any:
        random = self._random
        if isinstance(value, bool):
            return not value
        if isinstance(value, bytes):
            nested = decoded(value)
            if nested is None or random.random() < 0.3:
                return self._changed_bytes(bytes(value), b"")
            self._change(nested)
            try:
                return bson.encode(nested)
            except Exception:  # as above
                return self._changed_bytes(bytes(value), b"")
        if isinstance(value, str):
            return self._changed_bytes(value.encode(errors="replace"), b"").decode(errors="replace")
        if isinstance(value, int) and abs(value) < 2**62:
            return value + random.choice((-1, 1, -value, random.choice(_BOUNDARIES), -random.choice(_BOUNDARIES)))
        return self._value()

    def _value(self) -> Any:
        value = self._random.choice(_VALUES)
        assert value is not ABSENT
        return value

    def _key(self) -> str:
        return self._random.choice(self._keys) if self._keys else "x"


def documents(data: bytes) -> list[bytes]:
    """Split bytes into BSON documents by their lengths; what is left has a length that does not fit."""
    found, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "little")
        if not _SMALLEST <= size <= len(data) - position:
            size = len(data) - position
        found.append(data[position : position + size])
        position += size
    return found


def decoded(data: bytes) -> dict[str, Any] | None:
    """Return a document; None for what is no BSON."""
    if len(data) < _SMALLEST:
        return None
    try:
        return bson.decode(data, Mutator.LENIENT)
    except Exception:  # bson raises errors of many types for what is no BSON
        return None


def _keys(value: Any) -> list[str]:
    """All keys in a document."""
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in _keys(inner))]
    if isinstance(value, list):
        return [key for inner in value for key in _keys(inner)]
    if isinstance(value, bytes):
        return _keys(decoded(value))
    return []
