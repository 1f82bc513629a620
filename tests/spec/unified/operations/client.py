"""Operations on a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.spec.unified.operations.method import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Handler

OPERATIONS: Final[Mapping[str, Handler]] = {
    "close": Method("close"),
    "listDatabases": Method(
        "list_databases",
        "filter nameOnly=nameOnly authorizedDatabases=authorizedDatabases comment timeoutMS=timeoutMS",
    ),
    "listDatabaseNames": Method("list_database_names", "comment timeoutMS=timeoutMS"),
}
