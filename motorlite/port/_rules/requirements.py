"""Pure: files that say which packages a project needs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from motorlite.port._finding import Finding, Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LISTS: Final = re.compile(r"(?:.*[-_.])?(?:requirements?|constraints?)(?:[-_.].*)?\.(?:txt|in)", re.IGNORECASE)
_CONFIGURATIONS: Final = frozenset({"setup.cfg", "tox.ini", "environment.yml", "environment.yaml"})
_TABLES: Final = frozenset({"pyproject.toml", "Pipfile"})
_DOCKER: Final = re.compile(r"(?:.*\.)?Dockerfile(?:\..*)?|Containerfile")
# The tables of a TOML file whose lists, or keys, are requirements.
_NEEDS: Final = re.compile(r"depend|requir")
_TABLES_OF_NEEDS: Final = re.compile(rf"{_NEEDS.pattern}|^extras$|^(?:dev-)?packages$")
_NAME: Final = r"(?P<name>motor|pymongo|motorlite)(?![\w.-])"
_REQUIREMENT: Final = re.compile(
    rf"{_NAME}(?:\s*\[[^\]]*\])?\s*(?:(?:[<>=!~]=?|@)\s*[^\s#;]*\s*(?:,\s*[<>=!~]=?\s*[^\s#;,]+\s*)*)?(?:;[^#]*)?(?=\s*(?:#|$))",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(r"\s*\[\[?(?P<path>[^\[\]]+)\]\]?\s*$")
_KEY: Final = re.compile(r"""\s*["']?(?P<key>[\w.-]+)["']?\s*=\s*(?P<value>.*)""")
_STRING: Final = re.compile(r"""(["'])(.*?)\1""")
# A line of a list: alone, behind a dash, or behind the name of an option.
_LINE: Final = re.compile(
    r"\s*(?:-\s+|[\w-]+\s*=\s*)?(?P<requirement>(?:motor|pymongo|motorlite)(?![\w.-]).*)", re.IGNORECASE
)
# A word of a command.
_WORD: Final = re.compile(
    rf"(?:^|[\s'\"=])(?P<requirement>{_NAME}(?:\[[^\]]*\])?(?:[<>=!~]=?[^\s'\"]*)?)(?=[\s'\"\\]|$)", re.IGNORECASE
)
_KEEP: Final = re.compile(r"#\s*port:\s*keep\b")
_PYMONGO: Final = "motorlite, which needs it for `bson`"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A line that names Motor, PyMongo or motorlite."""

    line: int
    text: str
    # Its name in lower case.
    package: str


def is_requirements_file(path: str) -> bool:
    """Whether a file at `path` says what the project needs; a lock file does not, since a tool writes it."""
    name, folder = PurePath(path).name, PurePath(path).parent.name
    is_list = bool(_LISTS.fullmatch(name)) or (
        folder in ("requirements", "constraints") and name.endswith((".txt", ".in"))
    )
    return is_list or name in _CONFIGURATIONS or name in _TABLES or bool(_DOCKER.fullmatch(name))


def problem_of(name: str, content: str) -> str:
    """Return why a file cannot be read; "" if it can."""
    if name in _TABLES:
        try:
            tomllib.loads(content)
        except tomllib.TOMLDecodeError as error:
            return str(error)
    return ""


def requirements(name: str, content: str) -> list[Requirement]:
    """Return the requirements of a file that name Motor, PyMongo or motorlite, except for lines that are kept."""
    lines = content.splitlines()
    if name in _TABLES:
        found = _in_tables(lines)
    elif _DOCKER.fullmatch(name):
        found = _in_commands(lines)
    else:
        found = _in_lists(lines)
    return [each for each in found if not _KEEP.search(lines[each.line - 1])]


def _in_lists(lines: list[str]) -> Iterator[Requirement]:
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        requirement = _REQUIREMENT.match(match["requirement"]) if match else None
        if requirement:
            yield Requirement(number, requirement[0].strip(), requirement["name"].lower())


def _in_commands(lines: list[str]) -> Iterator[Requirement]:
    """Words of ``pip install``, whose lines may go on after a backslash."""
    is_installing = False
    for number, line in enumerate(lines, start=1):
        is_installing = is_installing or bool(re.search(r"\binstall\b|\buv add\b", line))
        for match in _WORD.finditer(line) if is_installing else ():
            yield Requirement(number, match["requirement"], match["name"].lower())
        is_installing = is_installing and line.rstrip().endswith("\\")


def _in_tables(lines: list[str]) -> Iterator[Requirement]:
    """The strings of lists, and the keys of tables, where the name of the table or of the list speaks of needs."""
    is_table, depth = False, 0
    for number, line in enumerate(lines, start=1):
        code = line.partition("#")[0]
        header = _HEADER.match(code) if not depth else None
        if header:
            is_table = _names_needs(header["path"], _TABLES_OF_NEEDS)
            continue
        key = _KEY.match(code) if not depth else None
        is_needed = is_table or bool(depth) or (key is not None and _names_needs(key["key"], _NEEDS))
        if is_needed:
            # What a table names itself is a package, unless it is a list of some.
            strings = [key["key"]] if key and is_table and not key["value"].startswith("[") else []
            strings += [match[2] for match in _STRING.finditer(key["value"] if key else code)]
            for text in strings:
                requirement = _REQUIREMENT.fullmatch(text.strip())
                if requirement:
                    yield Requirement(number, requirement[0].strip(), requirement["name"].lower())
            depth = max(depth + _brackets(code), 0)


def _names_needs(path: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(part.strip(" \"'")) for part in path.split("."))


def _brackets(code: str) -> int:
    """How many lists begin in a line, less those that end."""
    bare = _STRING.sub("", code)
    return bare.count("[") - bare.count("]")


def findings_of(files: Mapping[str, str], *, is_asynchronous: bool) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield each file with the requirements that have to change.

    Args:
        files: The project's files, by their paths.
        is_asynchronous: Whether its code uses the asynchronous client, or motorlite.
    """
    found = {path: requirements(PurePath(path).name, content) for path, content in files.items()}
    is_there = any(each.package == "motorlite" for rows in found.values() for each in rows)
    for path, rows in found.items():
        yield (
            path,
            tuple(
                Finding(each.line, 1, each.text, "motorlite" if each.package == "motor" else _PYMONGO, Mark.HAND)
                for each in rows
                if each.package == "motor" or (each.package == "pymongo" and is_asynchronous and not is_there)
            ),
        )
