"""Pure: the statements of update and delete commands, validated by the CRUD specification's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from motorlite._base.arguments import check_list, check_mapping, check_replacement, check_update
from motorlite._base.wire_versions import V4_4, V8_0
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, as_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from motorlite._base.arguments import Pipeline
    from motorlite._base.values import Document
    from motorlite._operations.common import Needs


class StatementOptions(TypedDict, total=False):
    """The options of updates and replacements. None if unset."""

    upsert: bool | None
    collation: Mapping[str, Any] | None
    hint: str | Mapping[str, Any] | None
    sort: Mapping[str, Any] | None


def update_statement(
    filter: Mapping[str, Any],
    update: Mapping[str, Any] | Pipeline,
    *,
    multi: bool = False,
    array_filters: Sequence[Mapping[str, Any]] | None = None,
    **options: Unpack[StatementOptions],
) -> Document:
    """Build one entry of `updates`, for updateOne and updateMany.

    Raises:
        TypeError: The filter or the update has the wrong type.
        ValueError: The update is empty or does not begin with an operator.
    """
    check_update(update)
    statement = _statement(filter, update, **options)
    if multi:
        statement["multi"] = True
    if array_filters is not None:
        check_list("array_filters", array_filters)
        statement["arrayFilters"] = array_filters
    return statement


def replace_statement(
    filter: Mapping[str, Any], replacement: Mapping[str, Any], **options: Unpack[StatementOptions]
) -> Document:
    """Build one entry of `updates`, for replaceOne.

    Raises:
        TypeError: The filter or the replacement has the wrong type.
        ValueError: The replacement begins with an operator.
    """
    check_replacement(replacement)
    return _statement(filter, replacement, **options)


def delete_statement(
    filter: Mapping[str, Any],
    *,
    multi: bool = False,
    collation: Mapping[str, Any] | None = None,
    hint: str | Mapping[str, Any] | None = None,
) -> Document:
    """Build one entry of `deletes`, for deleteOne and deleteMany.

    Raises:
        TypeError: The filter is not a mapping.
    """
    check_mapping("filter", filter)
    statement: Document = {"q": filter, "limit": 0 if multi else 1}
    if collation is not None:
        statement["collation"] = collation
    if hint is not None:
        statement["hint"] = hint
    return statement


def _statement(
    filter: Mapping[str, Any],
    change: Any,
    upsert: bool | None = None,
    collation: Mapping[str, Any] | None = None,
    hint: str | Mapping[str, Any] | None = None,
    sort: Mapping[str, Any] | None = None,
) -> Document:
    check_mapping("filter", filter)
    statement: Document = {"q": filter, "u": change}
    if upsert:
        statement["upsert"] = True
    if collation is not None:
        statement["collation"] = collation
    if hint is not None:
        statement["hint"] = hint
    if sort is not None:
        check_mapping("sort", sort)
        statement["sort"] = sort
    return statement


def is_multi(statement: Mapping[str, Any]) -> bool:
    """Whether a statement may change several documents and so is not a retryable write."""
    return statement.get("multi", False) or statement.get("limit") == 0


def statement_needs(statement: Mapping[str, Any], *, acknowledged: bool) -> Needs:
    """Return the statement's options that need a newer server.

    The server itself refuses an option that it does not support. Only for a write without a reply must the client
    refuse it (CRUD specification, "Why are client-side errors raised...").
    """
    if "limit" in statement:
        return (("hint of a delete", V4_4),) if "hint" in statement else ()
    if not acknowledged and "sort" in statement:
        return (("sort of an unacknowledged update", V8_0),)
    return ()


def statement_of(request: object) -> tuple[str, Any]:
    """Return the command that a request of `bulk_write` needs, and its statement (for an insert, the document).

    Raises:
        TypeError: `request` is not a request, or an argument of it has the wrong type.
        ValueError: An update or a replacement is invalid.
    """
    request = as_request(request)
    if isinstance(request, InsertOne):
        return "insert", request.document
    if isinstance(request, (DeleteOne, DeleteMany)):
        multi = isinstance(request, DeleteMany)
        return "delete", delete_statement(request.filter, multi=multi, collation=request.collation, hint=request.hint)
    assert isinstance(request, (UpdateOne, UpdateMany, ReplaceOne))
    options: StatementOptions = {
        "upsert": request.upsert,
        "collation": request.collation,
        "hint": request.hint,
        "sort": request.sort,
    }
    if isinstance(request, ReplaceOne):
        return "update", replace_statement(request.filter, request.replacement, **options)
    multi, array_filters = isinstance(request, UpdateMany), request.array_filters
    return "update", update_statement(
        request.filter, request.update, multi=multi, array_filters=array_filters, **options
    )
