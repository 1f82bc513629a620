"""Pure: loops of Motor's that are written in another way."""

from __future__ import annotations

import libcst as cst

from motorlite.port._source import dotted, walk


def is_fetch_loop(node: cst.While) -> bool:
    """Whether it is ``while await cursor.fetch_next:``."""
    test = node.test
    return (
        isinstance(test, cst.Await)
        and isinstance(test.expression, cst.Attribute)
        and test.expression.attr.value == "fetch_next"
    )


def iterated_instead(node: cst.CSTNode) -> cst.For | None:
    """Return ``async for document in cursor:`` for a loop with `fetch_next`.

    Only if the first statement is ``document = cursor.next_object()``, and nothing else in the loop takes an object.
    """
    assert isinstance(node, cst.While)
    if not is_fetch_loop(node) or not isinstance(node.body, cst.IndentedBlock):
        return None
    assert isinstance(node.test, cst.Await)
    assert isinstance(node.test.expression, cst.Attribute)
    cursor = node.test.expression.value
    first, *others = node.body.body
    target = _next_object(first, cursor)
    if target is None or not others or not dotted(cursor) or any(_has_next_object(each) for each in others):
        return None
    assert isinstance(first, cst.SimpleStatementLine)
    # Comments above the statement stay.
    others[0] = others[0].with_changes(leading_lines=[*first.leading_lines, *others[0].leading_lines])  # type: ignore[attr-defined]  # all statements have them
    return cst.For(
        target=target,
        iter=cursor,
        body=node.body.with_changes(body=others),
        orelse=node.orelse,
        asynchronous=cst.Asynchronous(),
        leading_lines=node.leading_lines,
        whitespace_before_colon=node.whitespace_before_colon,
    )


def _next_object(statement: cst.BaseStatement, cursor: cst.BaseExpression) -> cst.BaseAssignTargetExpression | None:
    """The target of ``document = cursor.next_object()``."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    assign = statement.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not isinstance(assign.value, cst.Call):
        return None
    function = assign.value.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "next_object":
        return None
    return assign.targets[0].target if function.value.deep_equals(cursor) else None


def _has_next_object(statement: cst.CSTNode) -> bool:
    names = (node.attr.value for node in walk(statement) if isinstance(node, cst.Attribute))
    return any(name in ("next_object", "fetch_next") for name in names)


def chunks_instead(node: cst.CSTNode) -> cst.While | None:
    """Return ``while chunk := await file.readchunk():`` for ``async for chunk in file:``."""
    assert isinstance(node, cst.For)
    if not isinstance(node.target, cst.Name) or not dotted(node.iter):
        return None
    call = cst.Call(cst.Attribute(node.iter.with_changes(lpar=[], rpar=[]), cst.Name("readchunk")))
    test = cst.NamedExpr(node.target, cst.Await(call), lpar=[], rpar=[])
    return cst.While(
        test=test,
        body=node.body,
        orelse=node.orelse,
        leading_lines=node.leading_lines,
        whitespace_before_colon=node.whitespace_before_colon,
    )
