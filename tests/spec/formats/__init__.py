"""The formats of test files beside the unified one: each has a name, its tests and what is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.spec.formats import (
    auth_connection_string,
    cmap,
    concerns,
    connection_string,
    dns_seedlist,
    max_staleness,
    sdam,
    sdam_monitoring,
    server_selection,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.formats.base import Format

FORMATS: Final[Mapping[str, Format]] = {
    one.name: one
    for one in (
        auth_connection_string.AUTH_CONNECTION_STRING,
        concerns.CONNECTION_STRING,
        concerns.DOCUMENT,
        connection_string.CONNECTION_STRING,
        connection_string.URI_OPTIONS,
        sdam.SDAM,
        sdam_monitoring.SDAM_MONITORING,
        server_selection.SERVER_SELECTION,
        server_selection.ROUND_TRIP_TIME,
        server_selection.IN_WINDOW,
        max_staleness.MAX_STALENESS,
        cmap.CMAP,
        dns_seedlist.DNS_SEEDLIST,
    )
}


def recognized(content: Any) -> str | None:
    """The format that the content of a file looks like, or None."""
    if not isinstance(content, dict):
        return None
    return next((name for name, one in FORMATS.items() if one.recognizes(content)), None)
