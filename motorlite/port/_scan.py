"""Pure: goes through the files of a project."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._kinds import Kinds
from motorlite.port._names import Clients, Names
from motorlite.port._report import Report
from motorlite.port._rules.imports import Imports
from motorlite.port._rules.mentions import Mentions
from motorlite.port._rules.requirements import findings_of
from motorlite.port._rules.texts import Texts
from motorlite.port._rules.uses import Uses
from motorlite.port._source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite.port._finding import Finding
    from motorlite.port._table import Table

# A file without any of these words has nothing to change, and nothing that says what others have.
_WORDS: Final = re.compile(
    rb"pymongo|motor|gridfs|mongo|database|collection|AsyncIO|\.close\(|fetch_next|get_io_loop|next_object",
    re.IGNORECASE,
)
# LibCST goes through a tree by recursion, and its parser's time grows with the square of the depth.
_TOO_DEEP: Final = "an expression is nested too deeply (a sum has a level for each term)"
_DEPTH: Final = 1000
_NUL: Final = "it has a NUL, which Python refuses"


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in a file."""

    path: str
    findings: tuple[Finding, ...]
    # The file as it was read.
    content: bytes
    # The file with all changes that can be made; None if there are none, or if none should be made.
    changed: bytes | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no Python, or of another version."""

    path: str
    problem: str


def parse(path: str, parts: tuple[str, ...], content: bytes) -> Source | Unreadable | None:
    """Return the parsed file, or what is wrong with it; None if it has nothing to do with databases.

    Args:
        path: Its path, for the report.
        parts: The same as the names of packages and module.
        content: The bytes of the file.
    """
    if not _WORDS.search(content):
        return None
    if b"\0" in content:
        return Unreadable(path, _NUL)
    problem = ""
    try:
        if _depth(content) > _DEPTH:
            return Unreadable(path, _TOO_DEEP)
    except SyntaxError as error:
        problem = f"line {error.lineno}: {error.msg}"
        if error.msg.startswith("too many"):
            # No version of Python takes it, and LibCST's parser overflows the stack.
            return Unreadable(path, problem)
        # It may be right for a newer version, which LibCST knows.
    except (RecursionError, MemoryError):
        return Unreadable(path, _TOO_DEEP)
    except ValueError as error:
        return Unreadable(path, str(error))
    try:
        module = cst.parse_module(content)
        if module.bytes != content:
            return Unreadable(path, "LibCST cannot reproduce it byte by byte (form feeds between lines are a cause)")
        return Source(path, parts, module)
    except cst.ParserSyntaxError as error:
        return Unreadable(path, problem or f"line {error.raw_line}: {error.message}")
    except (UnicodeDecodeError, LookupError, SyntaxError, ValueError) as error:
        return Unreadable(path, str(error))
    except RecursionError:
        return Unreadable(path, _TOO_DEEP)


def _depth(content: bytes) -> int:
    """The number of levels of a file's syntax tree, as Python has it; this takes a small part of LibCST's time.

    Raises:
        SyntaxError, ValueError: It is no Python, or of another version.
        RecursionError, MemoryError: There are more levels than Python's own parser can take.
    """
    with warnings.catch_warnings():
        # The file's escape sequences are not this command's business.
        warnings.simplefilter("ignore")
        level: list[ast.AST] = [ast.parse(content)]
    depth = 0
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def scan(
    sources: Mapping[str, Source], table: Table, *, write: bool, requirements: Mapping[str, str] | None = None
) -> Iterator[Scan | Unreadable]:
    """Yield the findings of each file.

    Args:
        sources: The files of one project, by their paths.
        table: What is known of PyMongo, Motor and motorlite.
        write: Also make the changes.
        requirements: The project's files that say what it needs, by their paths.
    """
    kinds = Kinds(table, list(sources.values()))
    clients = Clients(table, kinds, sources.values())
    for path, source in sources.items():
        try:
            yield _scanned(path, source, table, kinds, clients, write=write)
        except RecursionError:
            yield Unreadable(path, _TOO_DEEP)
    for path, findings in findings_of(requirements or {}, is_asynchronous=clients.is_any_asynchronous):
        yield Scan(path, findings, b"", None)


def _scanned(path: str, source: Source, table: Table, kinds: Kinds, clients: Clients, *, write: bool) -> Scan:
    report = Report(source)
    names = Names(table, source, kinds, clients)
    Imports(table, source, names, report).run()
    Uses(table, source, kinds, clients, report).run()
    Texts(table, source, names, clients, report).run()
    Mentions(table, source, names, clients, report).run()
    changed = report.changed() if write and report.has_changes else None
    return Scan(path, tuple(sorted(report.findings)), source.module.bytes, changed.bytes if changed else None)
