"""The examples of methods: the functions of `examples/methods`, which the API reference shows and a test runs.

A function has the name of the method that it is about, and its argument says what the lines begin with. They are in
files of their own, since a module of the driver with the examples of its methods would be longer than modules may be.
"""

from __future__ import annotations

import ast
import textwrap
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parents[2] / "examples" / "methods"
# The class of each file.
CLASSES: Final = {
    "client": "AsyncMongoClient",
    "database": "AsyncDatabase",
    "collection": "AsyncCollection",
    "cursor": "AsyncCursor",
    "command_cursor": "AsyncCommandCursor",
    "change_stream": "AsyncChangeStream",
    "session": "AsyncClientSession",
    "encryption": "AsyncClientEncryption",
}


class Example(NamedTuple):
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
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)]
        # From the line of the name to the next function, so that comments at both ends belong to it.
        ends = [*(node.lineno - 1 for node in functions[1:]), None]
        for node, end in zip(functions, ends, strict=True):
            text = textwrap.dedent("\n".join(source.splitlines()[node.lineno : end])).rstrip() + "\n"
            found.append(Example(file, node.name, node.args.args[0].arg, text))
    return tuple(found)


@cache
def introduction(file: str) -> str:
    """What the examples of a file are given, in words."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{file}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split())
