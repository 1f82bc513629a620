"""Shell: the command line of ``python -m motorlite.port``."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite.port._files import NOTEBOOK, EditedError, files_of, parts_of, read_table, write
from motorlite.port._finding import Mark
from motorlite.port._progress import Progress
from motorlite.port._rules.requirements import is_requirements_file, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.port._finding import Finding
    from motorlite.port._source import Source

NOTHING_TO_DO: Final = 0
DIFFERENCES: Final = 1
WRONG_USAGE: Final = 2

_DESCRIPTION: Final = """\
Port a program from PyMongo Async or Motor to motorlite: list every import and use that differs, with file, line, and
what to write instead."""
_EPILOG: Final = """\
Each line of the report begins with file and line, and says whether --write changes it ("write"), a person has to ("by
hand"), or it uses the synchronous API, which motorlite does not replace ("stays"). A line of the program that ends in
"# port: keep" is left alone.

exit status: 0 if there is nothing to do; 1 if there are differences (with --write: if any are left), or files that
could not be read; 2 if the command was used wrongly"""
_NOTEBOOK_IMPORT: Final = re.compile(rb"\b(?:from|import) (?:pymongo|motor|gridfs)\b")
_MISSING_EXTRA: Final = "motorlite.port needs LibCST, which is in an extra: pip install 'motorlite[port]'"


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m motorlite.port",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a folder with Python files, or a file")
    parser.add_argument("--write", action="store_true", help="change the files")
    parser.add_argument("--quiet", action="store_true", help="print only the summary, and what cannot be read")
    chosen = parser.parse_args(arguments)
    try:
        import libcst  # noqa: F401  # the modules that use it are imported below
    except ImportError:
        print(_MISSING_EXTRA, file=sys.stderr)
        return WRONG_USAGE
    missing = [path for path in chosen.paths if not path.exists()]
    if missing:
        print(f"{parser.prog}: no such file or folder: {', '.join(map(str, missing))}", file=sys.stderr)
        return WRONG_USAGE
    for stream in (sys.stdout, sys.stderr):
        # Names of files, and code, may have characters that a terminal or a log cannot show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return _Run(write=chosen.write, quiet=chosen.quiet).over(chosen.paths)


class _Run:
    """One run of the command."""

    def __init__(self, *, write: bool, quiet: bool) -> None:
        self._write = write
        self._quiet = quiet
        self._progress = Progress()
        self._marks: Counter[Mark] = Counter()
        self._changed = 0
        # How many differences could have been changed, in files that could not be written.
        self._unwritten = 0
        self._files = 0
        self._problems = 0

    def over(self, paths: Sequence[Path]) -> int:
        """Go through all paths, each a project of its own."""
        for path in paths:
            self._project(path)
        self._print(self._summary())
        left = self._problems + self._marks[Mark.HAND] + (0 if self._write else self._marks[Mark.WRITE])
        return DIFFERENCES if left else NOTHING_TO_DO

    def _project(self, root: Path) -> None:
        from motorlite.port._scan import Unreadable, scan

        requirements: dict[str, str] = {}
        sources = self._sources(root, requirements)
        for number, found in enumerate(scan(sources, read_table(), write=self._write, requirements=requirements)):
            self._progress.step("compared", number, len(sources))
            if isinstance(found, Unreadable):
                self._unreadable(found.path, found.problem)
                continue
            if found.changed is not None and not self._change(Path(found.path), found.changed, found.content):
                self._unwritten += sum(finding.mark is Mark.WRITE for finding in found.findings)
            self._report(found.path, found.findings)

    def _sources(self, root: Path, requirements: dict[str, str]) -> dict[str, Source]:
        """The parsed files of a project, by their paths; adds what the project needs to `requirements`."""
        from motorlite.port._scan import Unreadable, parse

        sources: dict[str, Source] = {}
        paths = list(files_of(root))
        for number, path in enumerate(paths):
            self._progress.step("read", number, len(paths))
            self._files += path.suffix != NOTEBOOK
            try:
                content = path.read_bytes()
            except OSError as error:
                self._unreadable(str(path), error.strerror or str(error))
                continue
            if path.suffix == NOTEBOOK:
                self._notebook(path, content)
                continue
            if is_requirements_file(path.as_posix()):
                self._requirements(path, content, requirements)
                continue
            parsed = parse(str(path), parts_of(path, root), content)
            if isinstance(parsed, Unreadable):
                self._unreadable(parsed.path, parsed.problem)
            elif parsed is not None:
                sources[str(path)] = parsed
        return sources

    def _change(self, path: Path, content: bytes, before: bytes) -> bool:
        """Write a file, and return whether that was possible."""
        try:
            write(path, content, before)
        except OSError as error:
            self._problem(f"{path}: cannot be written: {error.strerror}")
        except EditedError:
            self._problem(f"{path}: cannot be written: it was edited after it was read; run the command again")
        else:
            self._changed += 1
            return True
        return False

    def _notebook(self, path: Path, content: bytes) -> None:
        if _NOTEBOOK_IMPORT.search(content):
            self._unreadable(str(path), "it is a notebook: `jupyter nbconvert --to script` makes a file to check")

    def _requirements(self, path: Path, content: bytes, found: dict[str, str]) -> None:
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            self._unreadable(str(path), str(error))
            return
        problem = problem_of(path.name, text)
        if problem:
            self._unreadable(str(path), problem)
        else:
            found[str(path)] = text

    def _unreadable(self, path: str, problem: str) -> None:
        self._problem(f"{path}: cannot be read: {problem}")

    def _problem(self, text: str) -> None:
        self._problems += 1
        self._progress.clear()
        print(text, file=sys.stderr)

    def _report(self, path: str, findings: Sequence[Finding]) -> None:
        self._marks.update(finding.mark for finding in findings)
        if not self._quiet:
            for finding in findings:
                self._print(finding.text(path))

    def _print(self, text: str) -> None:
        self._progress.clear()
        try:
            print(text, flush=True)
        except BrokenPipeError:
            # The reader stopped, as `head` does. Nothing more is printed, but the files are changed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _summary(self) -> str:
        written, by_hand, stays = (self._marks[mark] for mark in (Mark.WRITE, Mark.HAND, Mark.NOTE))
        parts = [f"{_count(self._files, 'file')}: {_count(written + by_hand, 'difference')}"]
        if self._write:
            parts.append(f"{written - self._unwritten} changed in {_count(self._changed, 'file')}")
        elif written:
            parts.append(f"--write changes {written}")
        if by_hand:
            parts.append(f"{by_hand} by hand")
        if stays:
            parts.append(f"{stays} of the synchronous API, which stay with PyMongo")
        if self._problems:
            parts.append(f"{_count(self._problems, 'file')} not read or not written")
        return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
