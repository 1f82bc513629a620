"""Pure: extracts the README's quick start as a program."""

from __future__ import annotations

import re

MARKER = "<!-- quick start -->"
_BLOCK = re.compile(re.escape(MARKER) + r".*?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LOCAL_URI = re.compile(r"mongodb://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[^\"'\s]*)?")


def quick_start(readme: str) -> str:
    """The first Python block after the marker.

    Raises:
        ValueError: There is none.
    """
    found = _BLOCK.search(readme)
    if found is None:
        raise ValueError(f"the README has no ```python block after {MARKER}")
    return found[1]


def aimed_at(program: str, uri: str) -> str:
    """The program with its default local server replaced by `uri`."""
    return _LOCAL_URI.sub(lambda _: uri, program)
