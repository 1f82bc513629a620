"""Generates docs/options.md from the rows of the options: ``python -m tests.unit._options.options_document``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite._options.table import SECTIONS

if TYPE_CHECKING:
    from motorlite._options.row import Option

FILE: Final = Path(__file__).resolve().parents[3] / "docs" / "options.md"

_TEXT = """\
# Client options

Every option is a keyword argument of `AsyncMongoClient`; case does not matter. All of them except those marked with \\*
may also be in the connection string. Keyword arguments override the connection string, and an invalid one raises. An
invalid value in a connection string is ignored with a warning, except [in TLS and authentication
options](authentication.md#mistakes-in-the-connection-string). Deprecated names cause a warning; `j` and `wtimeout` work
in connection strings only. `client.options` has the result.

Most services need `timeoutMS`, [`maxPoolSize`](performance.md#pool-size) and the
[credentials](authentication.md), and, if there are many clients, a smaller `retry_budget`.
[What happens under overload](overload.md#what-to-set) says when to set the others.

This page is generated from `motorlite/_options/table.py` (`python -m tests.unit._options.options_document`), and a test
verifies that it is current.
"""
_HEAD = ("option", "default", "value", "meaning")


def default_text(option: Option) -> str:
    """The default in the words of the documentation."""
    default = option.default
    if default is None:
        return "not set"
    if default == ():
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, type):
        return default.__name__
    return f"{default} {option.unit}".rstrip() if isinstance(default, int | str) else f"{type(default).__name__}()"


def row(option: Option) -> str:
    """One line of a table."""
    name = f"`{option.name}`" + ("" if option.is_in_uri else r" \*")
    names = [
        name,
        *(f"`{alias}`" for alias in option.aliases),
        *(f"`{old}` (deprecated)" for old in (*option.former, *option.renamed)),
    ]
    return f"| {', '.join(names)} | {default_text(option)} | {option.values.allowed} | {option.meaning} |"


def document() -> str:
    """The whole page."""
    lines = [_TEXT]
    for title, options in SECTIONS.items():
        lines += [f"## {title}", "", f"| {' | '.join(_HEAD)} |", "|---|---|---|---|", *map(row, options), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
