"""Three programs as people write them: every difference is found, and what can be changed is changed."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import pytest

from motorlite.port._command import main
from tests.support.port_projects import BY_HAND, FOLDER, PROJECTS, change_by_hand, copied

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.parametrize("name", PROJECTS)


@pytest.fixture
def project(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the program, which is the current folder."""
    folder = copied(name, tmp_path)
    monkeypatch.chdir(folder)
    return folder


def without_numbers(lines: list[str]) -> list[str]:
    return sorted(re.sub(r":\d+:", ":", line, count=1) for line in lines)


def test_every_difference_is_found(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["."]) == 1
    assert capsys.readouterr().out.splitlines() == (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_what_can_be_changed_is_changed(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--write", "."])
    before = [line for line in capsys.readouterr().out.splitlines() if ": by hand: " in line]
    assert main(["."]) == (1 if before else 0)
    after = capsys.readouterr().out.splitlines()
    assert [line for line in after if ": write: " in line] == []
    assert without_numbers([line for line in after if ": by hand: " in line]) == without_numbers(before)


def test_a_person_changes_what_was_listed(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--write", "--quiet", "."])
    capsys.readouterr()
    main(["."])
    report = capsys.readouterr().out
    for file, changes in BY_HAND[name].items():
        lines = (project / file).read_text(encoding="utf-8").splitlines(keepends=True)
        listed = {int(number) for number in re.findall(rf"^{re.escape(file)}:(\d+): by hand: ", report, re.MULTILINE)}
        changed = {number for number, line in enumerate(lines, start=1) if line in changes}
        # The import of a name that is gone goes with it.
        assert {number for number in changed - listed if not lines[number - 1].startswith("import ")} == set()
    change_by_hand(name, project)
    assert main(["."]) == 0, capsys.readouterr().out


def test_nothing_but_lines_with_differences_is_changed(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes().splitlines(keepends=True) for path in project.rglob("*.py")}
    main(["--write", "."])
    report = capsys.readouterr().out
    for path, lines in before.items():
        file = path.relative_to(project).as_posix()
        listed = {int(number) for number in re.findall(rf"^{re.escape(file)}:(\d+): write: ", report, re.MULTILINE)}
        now = path.read_bytes().splitlines(keepends=True)
        for kind, first, last, _, _ in SequenceMatcher(None, lines, now, autojunk=False).get_opcodes():
            changed = set(range(first + 1, last + 1)) if kind != "equal" else set()
            # A statement may have several lines.
            unlisted = [lines[number - 1] for number in changed - listed]
            assert all(re.search(rb"AsyncIOMotor|Error|next_object|^[()]|^    \)", line) for line in unlisted), unlisted
