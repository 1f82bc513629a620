"""Runs `motorlite.port` over programs in memory."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

from motorlite.port._files import read_table
from motorlite.port._scan import Unreadable, parse, scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.port._source import Source


def ported(files: Mapping[str, str]) -> dict[str, tuple[str, list[str]]]:
    """Return each file as it is written, and the lines of its report without the path."""
    sources: dict[str, Source] = {}
    for path, text in files.items():
        source = parse(path, tuple(path.removesuffix(".py").split("/")), dedent(text).encode())
        assert not isinstance(source, Unreadable), source
        if source is not None:
            sources[path] = source
    found = {path: (dedent(text), list[str]()) for path, text in files.items()}
    for each in scan(sources, read_table(), write=True):
        assert not isinstance(each, Unreadable), each
        text = found[each.path][0] if each.changed is None else each.changed.decode()
        found[each.path] = text, [finding.text(each.path).removeprefix(f"{each.path}:") for finding in each.findings]
    return found


def written(text: str) -> str:
    """Return one file as it is written."""
    return ported({"program.py": text})["program.py"][0]


def report(text: str) -> list[str]:
    """Return the report about one file, without the path."""
    return ported({"program.py": text})["program.py"][1]
