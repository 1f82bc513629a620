"""Operations on a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite import DriverInfo
from tests.spec.unified import results
from tests.spec.unified.arguments import namespaced_models, write_concern
from tests.spec.unified.operations.method import Method
from tests.spec.unified.operations.watch import create_change_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler


async def _append_metadata(client: Any, arguments: Arguments) -> None:
    client.append_metadata(DriverInfo(**arguments.pop("driverInfoOptions")))


_BULK_WRITE: Final = Method(
    "bulk_write",
    "models ordered bypassDocumentValidation let comment verboseResults writeConcern timeoutMS=timeoutMS",
    results.client_bulk_write,
    {"models": namespaced_models, "writeConcern": write_concern},
)


OPERATIONS: Final[Mapping[str, Handler]] = {
    "appendMetadata": _append_metadata,
    "clientBulkWrite": _BULK_WRITE,
    "close": Method("close"),
    "createChangeStream": create_change_stream,
    "dropDatabase": Method("drop_database", "database=name_or_database comment timeoutMS=timeoutMS"),
    "listDatabases": Method(
        "list_databases",
        "filter nameOnly=nameOnly authorizedDatabases=authorizedDatabases comment timeoutMS=timeoutMS",
    ),
    "listDatabaseNames": Method("list_database_names", "comment timeoutMS=timeoutMS"),
}
