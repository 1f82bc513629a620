"""Operations on an AsyncClientEncryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified import results
from tests.spec.unified.operations.method import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler


def _with_options(method: Method) -> Handler:
    """The fields of the argument `opts` are arguments of the method."""

    async def call(target: Any, arguments: Arguments) -> Any:
        options = arguments.pop("opts", {})
        return await method(target, {**arguments, **options})

    return call


def _rewrapped(result: Any) -> dict[str, Any]:
    if result.bulk_write_result is None:
        return {}
    # In a result, a document has the fields that the test names and no others.
    written = results.bulk_write(result.bulk_write_result)
    del written["acknowledged"]
    return {"bulkWriteResult": written}


OPERATIONS: Final[Mapping[str, Handler]] = {
    "createDataKey": _with_options(Method("create_data_key", "kmsProvider masterKey keyAltNames keyMaterial")),
    "rewrapManyDataKey": _with_options(Method("rewrap_many_data_key", "filter provider masterKey", result=_rewrapped)),
    "deleteKey": Method("delete_key", "id=id", result=results.delete),
    "getKey": Method("get_key", "id=id"),
    "getKeys": Method("get_keys"),
    "addKeyAltName": Method("add_key_alt_name", "id=id keyAltName"),
    "removeKeyAltName": Method("remove_key_alt_name", "id=id keyAltName"),
    "getKeyByAltName": Method("get_key_by_alt_name", "keyAltName"),
    "encrypt": _with_options(Method("encrypt", "value algorithm id=key_id keyAltName contentionFactor queryType")),
    "decrypt": Method("decrypt", "value"),
}
