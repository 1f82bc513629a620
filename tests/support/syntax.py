"""The syntax trees of source files, read once for all rules about them."""

from __future__ import annotations

import ast
import gc
from functools import cache


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of a source text, from the top.

    The garbage collector would go through the growing trees again and again; meanwhile it waits.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return tuple(ast.walk(ast.parse(source)))
    finally:
        if was_enabled:
            gc.enable()


def parsed(source: str) -> ast.Module:
    """The tree of a source text."""
    top = nodes(source)[0]
    assert isinstance(top, ast.Module)
    return top
