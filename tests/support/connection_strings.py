"""Connection strings as a client reads them, before defaults and keyword arguments."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from motorlite._base.hosts import DEFAULT_PORT
from motorlite._options.rules import check_combination
from motorlite._options.uri import read_uri

if TYPE_CHECKING:
    from motorlite._options.uri import ParsedURI


def parse_uri(uri: str, default_port: int = DEFAULT_PORT) -> ParsedURI:
    """Parse a connection string, warn, then check the options against each other and the hosts."""
    parsed, notes = read_uri(uri, default_port)
    for note in notes:
        warnings.warn(note.text, note.category, stacklevel=2)
    check_combination(parsed.options, host_count=len(parsed.hosts), is_srv=parsed.srv_host is not None)
    return parsed
