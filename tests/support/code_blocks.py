"""The code blocks of README and documentation, and how they become programs.

A Python block is a program, unless `documented_programs.PAGES` says more about its page. A line ``# > text`` in one is
what it prints there, and so is a block ``output`` that follows it. Where a comment ``<!-- file: name -->`` precedes
a block, the block is that file, of any language. A block with a function ``test_...`` is run by pytest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = "python"
OUTPUT: Final = "output"
LOCAL: Final = re.compile(r"mongodb://localhost(:27017)?(?=[\"'?)]|/\?replicaSet=rs0|$)(/\?replicaSet=rs0)?")

# A warning of the driver as Python's last handler prints it: the message alone.
WARNED: Final = r"(Attempt \d+ of \"find\" .* failed .*\n)?"

_BLOCK: Final = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n+)?^(?P<fence>`{3,})(?P<language>\S*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_TEST: Final = re.compile(r"^(?:async )?def test_", re.MULTILINE)
_MOTOR: Final = re.compile(r"^(?:import|from) motor\b", re.MULTILINE)
_PRINTED: Final = re.compile(r"^ *# > (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    file: str | None = None

    @property
    def name(self) -> str:
        """Where it is, for the name of a test."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Case:
    """What the block that contains `mark` needs around it, and what it prints if the page does not say so."""

    mark: str
    before: str = ""
    after: str = ""
    prints: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """How the blocks of a page are run.

    Attributes:
        is_one_program: All Python blocks without a file name make up one program.
        cases: Further code for single blocks; each must match one.
        logs: The page says that the driver logs a warning, which Python prints where logging is not set up.
        commands: Arguments of Python, run after all files of the page were written.
        replace: Texts that differ in the test.
    """

    is_one_program: bool = False
    logs: bool = False
    cases: tuple[Case, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    replace: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its name, its text, the lines that it prints if the page says so, and words among them.

    What it writes to its standard error matches `logged`.
    """

    name: str
    text: str
    printed: tuple[str, ...] | None
    words: str = ""
    logged: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def is_for_pytest(self) -> bool:
        """Whether it consists of tests."""
        return _TEST.search(self.text) is not None

    @property
    def is_for_motor(self) -> bool:
        """Whether it shows a program before its port: Motor's warnings are not ours."""
        return _MOTOR.search(self.text) is not None


def documents() -> list[str]:
    """The paths of README and all pages."""
    pages = [path.relative_to(REPOSITORY).as_posix() for path in sorted((REPOSITORY / "docs").rglob("*.md"))]
    return ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "spec-tests/README.md", *pages]


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return [
        Block(page, text[: match.start("fence")].count("\n") + 1, match["language"], match["text"], match["file"])
        for match in _BLOCK.finditer(text)
    ]


def case_of(block: Block, how: Page) -> Case:
    """The case of a block; one without any needs nothing."""
    found = [case for case in how.cases if case.mark in block.text]
    assert len(found) <= 1, f"{block.name}: several cases"
    return found[0] if found else Case("")


def programs(page: str, how: Page) -> list[Program]:
    """The programs of a page."""
    listed = blocks(page)
    single = [(block, _following(listed, number)) for number, block in enumerate(listed) if _is_program(block)]
    made = [_program(block, output, case_of(block, how), how) for block, output in single]
    if not how.is_one_program or not made:
        return made
    printed = [line for program in made for line in program.printed or ()]
    text = "\n".join(program.text for program in made)
    words = " ".join(filter(None, (program.words for program in made)))
    return [Program(page, text, tuple(printed) or None, words, WARNED if how.logs else "")]


def _is_program(block: Block) -> bool:
    return block.language == PYTHON and block.file is None


def _following(listed: list[Block], number: int) -> Block | None:
    after = listed[number + 1 : number + 2]
    return after[0] if after and after[0].language == OUTPUT else None


def _program(block: Block, output: Block | None, case: Case, how: Page) -> Program:
    text = case.before + block.text + case.after
    for old, new in how.replace.items():
        text = text.replace(old, new)
    printed = _PRINTED.findall(block.text) or (output.text.splitlines() if output is not None else None)
    return Program(
        block.name, text, None if printed is None else tuple(printed), case.prints, WARNED if how.logs else ""
    )
