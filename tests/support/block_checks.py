"""Checks of code blocks that are not Python: commands, drawings, and statements for the shell of MongoDB."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shlex
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from benchmarks.__main__ import BENCHMARKS
from tests.support.code_blocks import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = "motorlite"
# Commands of git that pages name; they need a network, or other files.
GIT: Final = ("clone", "-C")
_PATH: Final = re.compile(r"[\w/]+\.py\b")
_CALL: Final = re.compile(r"\b(\w+)\(")
_STATEMENT: Final = re.compile(
    r"db\.getSiblingDB\(\"(?P<database>\w+)\"\)\.(?P<collection>\w+)\.(?P<method>\w+)\((?P<arguments>.*)\)$"
)
_BARE_KEY: Final = re.compile(r"([{,]\s*)([$\w]+)\s*:")


# --- commands ---


def commands(text: str) -> list[list[str]]:
    """The command lines of a block, without comments, prompts and continuations."""
    lines = text.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def problem_of_command(words: list[str]) -> str:
    """What is wrong with a command; nothing if it can work."""
    checks = {"make": _make, "pip": _pip, "python": _python, "pytest": _pytest, "git": _git}
    if words[0] not in checks:
        return f"{words[0]} is no command that pages should name"
    found = checks[words[0]](words[1:])
    return f"{shlex.join(words)}: {found}" if found else ""


@cache
def makefile() -> str:
    return (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def _make(words: list[str]) -> str:
    targets = [word for word in words if "=" not in word]
    names = [word.partition("=")[0] for word in words if "=" in word]
    if unknown := [name for name in targets if not re.search(rf"^{re.escape(name)}:", makefile(), re.MULTILINE)]:
        return f"there is no target {unknown}"
    if unknown := [name for name in names if f"$({name})" not in makefile() and f"$(if $({name})" not in makefile()]:
        return f"no target reads {unknown}"
    return ""


@cache
def extras() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def _pip(words: list[str]) -> str:
    if words[0] != "install":
        return "pages only install"
    for word in words[1:]:
        # The clone is the current folder.
        match = re.fullmatch(r"(?:motorlite|\.)(?:\[([\w,]+)\])?", word)
        if match is None:
            return f"{word} is not motorlite"
        if unknown := set((match[1] or "").split(",")) - {""} - extras():
            return f"there is no extra {unknown}"
    return ""


def _python(words: list[str]) -> str:
    if words[0] != "-m":
        return "" if (REPOSITORY / words[0]).exists() else "there is no such file"
    module, arguments = words[1], words[2:]
    if module == "benchmarks":
        return _benchmark(arguments)
    if importlib.util.find_spec(module) is None:
        return f"there is no module {module}"
    source = _source(module)
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    # argparse makes the second name of an option that is on or off.
    names = {option: (f'"{option}"', f'"{option.replace("--no-", "--")}"') for option in options}
    if unknown := {option for option in options if not any(name in source for name in names[option])}:
        return f"{module} has no option {unknown}"
    return ""


def _source(module: str) -> str:
    """The text of a module, or of all modules of a package."""
    path = REPOSITORY / module.replace(".", "/")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ValueError(message)


def _benchmark(words: list[str]) -> str:
    """The parser of the benchmark reads its arguments."""
    if not words or words[0] not in BENCHMARKS:
        return "there is no such benchmark"
    parser = _Parser()
    BENCHMARKS[words[0]][0](parser)
    try:
        parser.parse_args(words[1:])
    except ValueError as error:
        return str(error)
    return ""


def _pytest(words: list[str]) -> str:
    paths = [
        word for number, word in enumerate(words) if not word.startswith("-") and words[number - 1 : number] != ["-k"]
    ]
    return next((f"there is no {path}" for path in paths if not (REPOSITORY / path).exists()), "")


def _git(words: list[str]) -> str:
    return "" if words[0] in GIT else "pages should not name it"


# --- drawings ---


@cache
def _definitions() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted((REPOSITORY / PACKAGE).rglob("*.py")))


@cache
def _files() -> list[str]:
    return [file.as_posix() for file in sorted((REPOSITORY / PACKAGE).rglob("*.py"))]


def problems_of_drawing(text: str) -> Iterator[str]:
    """Modules and functions that a drawing names and that do not exist."""
    for path in _PATH.findall(text):
        if not any(file.endswith(f"/{path}") for file in _files()):
            yield f"there is no {path}"
    for name in _CALL.findall(text):
        if not re.search(rf"(?:def|class) {name}\b", _definitions()):
            yield f"nothing is called {name}"


# --- statements for the shell of MongoDB ---


def statements(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The databases and commands that statements of MongoDB's own shell amount to."""
    for line in text.splitlines():
        statement = line.partition("//")[0].strip()
        if not statement:
            continue
        match = _STATEMENT.fullmatch(statement)
        assert match is not None, f"not understood: {statement}"
        arguments = json.loads("[" + _BARE_KEY.sub(r'\1"\2":', match["arguments"]) + "]")
        collection = match["collection"]
        if match["method"] == "insertOne":
            (document,) = arguments
            yield match["database"], {"insert": collection, "documents": [document]}
        else:
            assert match["method"] == "updateOne", statement
            query, update = arguments
            yield match["database"], {"update": collection, "updates": [{"q": query, "u": update}]}
