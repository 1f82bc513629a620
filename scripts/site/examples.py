"""The examples of methods: the functions of `examples/methods`, which the API reference shows and a test runs.

A function has the name of the method that it is about, and its argument says what the lines begin with. They are in
files of their own, since a module of the driver with the examples of its methods would be longer than modules may be.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Final

from scripts.site.links import REPOSITORY

FOLDER: Final = REPOSITORY / "examples" / "methods"
# The class of each file.
CLASSES: Final = {
    "client": "AsyncMongoClient",
    "database": "AsyncDatabase",
    "collection": "AsyncCollection",
    "cursor": "AsyncCursor",
    "command_cursor": "AsyncCommandCursor",
    "change_stream": "AsyncChangeStream",
    "session": "AsyncClientSession",
}


@dataclass(frozen=True, slots=True)
class Example:
    """The lines of one method's example, and the name of what they are given."""

    file: str
    method: str
    argument: str
    text: str

    def __str__(self) -> str:
        return f"{CLASSES[self.file]}.{self.method}"


@cache
def examples() -> tuple[Example, ...]:
    """All examples, in the order of the files."""
    found = []
    for file in CLASSES:
        source = (FOLDER / f"{file}.py").read_text(encoding="utf-8")
        lines = source.splitlines()
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)]
        for number, node in enumerate(functions):
            # To the next function, so that the comments at the end belong to it.
            following = functions[number + 1].lineno - 1 if number + 1 < len(functions) else len(lines)
            body = "\n".join(lines[node.body[0].lineno - 1 - _comments(lines, node) : following]).rstrip()
            found.append(Example(file, node.name, node.args.args[0].arg, textwrap.dedent(body) + "\n"))
    return tuple(found)


def _comments(lines: list[str], node: ast.AsyncFunctionDef) -> int:
    """The number of lines with comments before the first statement of a function."""
    count = 0
    while lines[node.body[0].lineno - 2 - count].lstrip().startswith("#"):
        count += 1
    return count


@cache
def introduction(file: str) -> str:
    """What the examples of a file are given, in words."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{file}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split())
