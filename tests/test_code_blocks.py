"""Every code block of README and documentation has a language, and a check that belongs to it.

Python is run by tests/live/test_code_blocks.py, as are statements for MongoDB's own shell.
"""

from __future__ import annotations

import ast
import json
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support import block_checks
from tests.support.code_blocks import OUTPUT, PYTHON, Block, Case, Page, Program, blocks, documents, programs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BLOCKS: Final = [block for page in documents() for block in blocks(page)]


def check_python(block: Block) -> None:
    compile(block.text, block.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def check_commands(block: Block) -> None:
    found = block_checks.commands(block.text)
    assert found, block.name
    problems = [problem for words in found if (problem := block_checks.problem_of_command(words))]
    assert problems == []


def check_drawing(block: Block) -> None:
    assert list(block_checks.problems_of_drawing(block.text)) == []


def check_statements(block: Block) -> None:
    assert list(block_checks.statements(block.text))


CHECKS: Final[dict[str, Callable[[Block], Any]]] = {
    PYTHON: check_python,
    "console": check_commands,
    "text": check_drawing,
    "javascript": check_statements,
    "json": lambda block: json.loads(block.text),
    "toml": lambda block: tomllib.loads(block.text),
}


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in BLOCKS])
def test_a_block_is_what_it_says(block: Block) -> None:
    if block.language == OUTPUT:
        listed = blocks(block.page)
        assert listed[listed.index(block) - 1].language == PYTHON, "output belongs to the program before it"
    else:
        assert block.language in CHECKS, f"{block.name}: a block needs one of {', '.join(CHECKS)}"
        CHECKS[block.language](block)


def test_blocks_are_found() -> None:
    assert len(BLOCKS) > 40
    assert {block.language for block in BLOCKS} >= {PYTHON, "console", "text", "javascript"}


# --- how pages become programs ---

TEXT: Final = """\
```python
first = 1
print(first)
# > 1
```

```output
unused
```

<!-- file: other.py -->

```python
second = 2
```

```python
print(first + 1)
```

```output
2
```

```python
async def test_it():
    assert True
```
"""


TEXT_OF_TEST: Final = "async def test_it():\n    assert True\n"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    (tmp_path / "page.md").write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr("tests.support.code_blocks.REPOSITORY", tmp_path)
    return "page.md"


def test_the_blocks_of_a_page(page: str) -> None:
    found = [(block.name, block.language, block.file) for block in blocks(page)]
    assert found == [
        ("page.md:1", PYTHON, None),
        ("page.md:7", OUTPUT, None),
        ("page.md:13", PYTHON, "other.py"),
        ("page.md:17", PYTHON, None),
        ("page.md:21", OUTPUT, None),
        ("page.md:25", PYTHON, None),
    ]


def test_each_block_is_a_program(page: str) -> None:
    first, second, third = programs(page, Page(cases=(Case("first + 1", before="first = 1\n", prints="2"),)))
    assert [program.is_for_pytest for program in (first, second, third)] == [False, False, True]
    assert first.printed == ("1",)
    assert (second.text, second.printed, second.words) == ("first = 1\nprint(first + 1)\n", ("2",), "2")


@pytest.mark.parametrize(
    ("text", "is_for_motor"),
    [("from motor.motor_asyncio import A", True), ("import motorlite", False), ("# from motor\n", False)],
)
def test_programs_before_a_port(text: str, is_for_motor: bool) -> None:
    assert Program("", text, None).is_for_motor is is_for_motor


def test_a_page_is_one_program(page: str) -> None:
    (program,) = programs(page, Page(is_one_program=True, replace={"first": "one", TEXT_OF_TEST: ""}))
    assert program.text == "one = 1\nprint(one)\n# > 1\n\nprint(one + 1)\n\n"
    assert program.printed == ("1", "2")


# --- what the checks notice ---


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make test PARTS=unit", ""),
        ("make tests", "no target"),
        ("make test PART=unit", "no target reads"),
        ("pip install 'motorlite[zstd,aws]'", ""),
        ("pip install 'motorlite[zst]'", "no extra"),
        ("pip install .", ""),
        ("pip install '.[testing]'", ""),
        ("pip install '.[test]'", "no extra"),
        ("pip install motor", "not motorlite"),
        ("python -m benchmarks storm burst --arms seed,pymongo", ""),
        ("python -m benchmarks storm burst --arm-names seed", "unrecognized"),
        ("python -m benchmarks storms", "no such benchmark"),
        ("python -m tests.spec crud --match find", ""),
        ("python -m tests.spec crud --mach find", "no option"),
        ("python -m tests.specs", "no module"),
        ("pytest tests/spec -k retryable", ""),
        ("pytest tests/specs", "no tests/specs"),
        ("git push", "should not name"),
        ("rm -rf .", "no command"),
    ],
)
def test_commands(command: str, problem: str) -> None:
    (words,) = block_checks.commands(command)
    found = block_checks.problem_of_command(words)
    assert problem in found
    assert bool(problem) == bool(found)


def test_lines_of_commands() -> None:
    assert block_checks.commands("make a \\\n  B=c  # why\n\n# nothing\n") == [["make", "a", "B=c"]]
    assert block_checks.commands("$ make a\nits output\n") == [["make", "a"]]


def test_drawings() -> None:
    assert list(block_checks.problems_of_drawing("_pool/pool.py  check_out(deadline) -> x")) == []
    assert len(list(block_checks.problems_of_drawing("_pool/poll.py  check_outs(deadline)"))) == 2


def test_statements() -> None:
    text = 'db.getSiblingDB("config").c.updateOne({_id: "a"}, {$set: {value: 0}})  // why\n'
    assert list(block_checks.statements(text)) == [
        ("config", {"update": "c", "updates": [{"q": {"_id": "a"}, "u": {"$set": {"value": 0}}}]})
    ]
    with pytest.raises(AssertionError, match="not understood"):
        list(block_checks.statements("show dbs\n"))
