"""Operations on a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified import results
from tests.spec.unified.arguments import cursor_type, return_document, search_index_model, write_models
from tests.spec.unified.operations.method import Method
from tests.spec.unified.operations.watch import create_change_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler

_TIME: Final = "maxTimeMS=maxTimeMS timeoutMS=timeoutMS"
_READ: Final = f"collation hint comment {_TIME}"
_WRITE: Final = "comment let timeoutMS=timeoutMS"
_UPDATE: Final = f"filter update upsert arrayFilters bypassDocumentValidation collation hint {_WRITE}"
_DELETE: Final = f"filter collation hint {_WRITE}"
_FIND: Final = (
    "filter projection skip limit sort batchSize allowDiskUse allowPartialResults collation comment hint let min max "
    "maxTimeMS maxAwaitTimeMS=max_await_time_ms noCursorTimeout oplogReplay returnKey showRecordId cursorType "
    "timeoutMS=timeoutMS timeoutMode=timeoutMode"
).replace("maxTimeMS ", "maxTimeMS=max_time_ms ")
_FIND_AND_MODIFY: Final = f"filter projection sort collation hint comment let {_TIME}"
_CHANGE: Final = f"{_FIND_AND_MODIFY} upsert returnDocument bypassDocumentValidation=bypassDocumentValidation"
_BEFORE_OR_AFTER: Final = {"returnDocument": return_document}
_FIND_METHOD: Final = Method("find", _FIND, converters={"cursorType": cursor_type}, required=("filter",))


async def _create_find_cursor(collection: Any, arguments: Arguments) -> Any:
    return await _FIND_METHOD.call(collection, arguments)


async def _drop_index(collection: Any, arguments: Arguments) -> Any:
    return await Method("drop_index", f"name=index_or_name comment {_TIME}")(collection, arguments)


async def _list_index_names(collection: Any, arguments: Arguments) -> list[str]:
    """No method of PyMongo's; its users take the names."""
    found = await Method("list_indexes", "comment timeoutMS=timeoutMS")(collection, arguments)
    return [index["name"] for index in found]


async def _list_search_indexes(collection: Any, arguments: Arguments) -> Any:
    """The options of the aggregation are arguments like the others."""
    arguments |= arguments.pop("aggregationOptions", {})
    return await Method("list_search_indexes", f"name batchSize=batchSize {_READ}")(collection, arguments)


OPERATIONS: Final[Mapping[str, Handler]] = {
    "aggregate": Method(
        "aggregate",
        f"pipeline allowDiskUse=allowDiskUse batchSize=batchSize let bypassDocumentValidation=bypassDocumentValidation "
        f"timeoutMode=timeoutMode maxAwaitTimeMS=maxAwaitTimeMS {_READ}",
    ),
    "bulkWrite": Method(
        "bulk_write",
        f"requests ordered bypassDocumentValidation {_WRITE}",
        results.bulk_write,
        {"requests": write_models},
    ),
    "countDocuments": Method("count_documents", f"filter skip limit {_READ}"),
    "createChangeStream": create_change_stream,
    "createFindCursor": _create_find_cursor,
    "createIndex": Method(
        "create_index",
        "keys name unique sparse expireAfterSeconds=expireAfterSeconds collation hidden comment "
        "partialFilterExpression=partialFilterExpression wildcardProjection=wildcardProjection "
        f"{_TIME}",
    ),
    "createSearchIndex": Method(
        "create_search_index", f"model comment {_TIME}", converters={"model": search_index_model}
    ),
    "createSearchIndexes": Method(
        "create_search_indexes",
        f"models comment {_TIME}",
        converters={"models": lambda models: [search_index_model(model) for model in models]},
    ),
    "deleteMany": Method("delete_many", _DELETE, results.delete),
    "deleteOne": Method("delete_one", _DELETE, results.delete),
    "distinct": Method("distinct", f"fieldName=key filter {_READ}"),
    "drop": Method("drop", "comment timeoutMS=timeoutMS"),
    "dropIndex": _drop_index,
    "dropIndexes": Method("drop_indexes", f"comment {_TIME}"),
    "dropSearchIndex": Method("drop_search_index", f"name comment {_TIME}"),
    "estimatedDocumentCount": Method("estimated_document_count", f"comment {_TIME}"),
    "find": _FIND_METHOD,
    "findOne": Method("find_one", _FIND, required=("filter",)),
    "findOneAndDelete": Method("find_one_and_delete", _FIND_AND_MODIFY),
    "findOneAndReplace": Method("find_one_and_replace", f"replacement {_CHANGE}", converters=_BEFORE_OR_AFTER),
    "findOneAndUpdate": Method("find_one_and_update", f"update arrayFilters {_CHANGE}", converters=_BEFORE_OR_AFTER),
    "insertMany": Method("insert_many", f"documents ordered bypassDocumentValidation {_WRITE}", results.insert_many),
    "insertOne": Method("insert_one", f"document bypassDocumentValidation {_WRITE}", results.insert_one),
    "listIndexNames": _list_index_names,
    "listIndexes": Method("list_indexes", "comment batchSize=batchSize timeoutMS=timeoutMS timeoutMode=timeoutMode"),
    "listSearchIndexes": _list_search_indexes,
    "rename": Method("rename", "to=new_name dropTarget=dropTarget comment timeoutMS=timeoutMS"),
    "replaceOne": Method(
        "replace_one",
        f"filter replacement upsert bypassDocumentValidation collation hint sort {_WRITE}",
        results.update,
    ),
    "updateMany": Method("update_many", _UPDATE, results.update),
    "updateOne": Method("update_one", f"{_UPDATE} sort", results.update),
    "updateSearchIndex": Method("update_search_index", f"name definition comment {_TIME}"),
}
