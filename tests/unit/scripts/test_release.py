"""What `make release-check` says about release."""

from __future__ import annotations

import zipfile
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from scripts import release
from scripts.release import CheckFailed, Packages

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {"motorlite/__init__.py", "motorlite/py.typed"}
INFORMATION = {
    f"motorlite-1.dist-info/{name}" for name in ("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE")
}


def test_a_good_wheel() -> None:
    assert list(release.wheel_problems(SOURCES | INFORMATION, SOURCES)) == []


@pytest.mark.parametrize(
    ("more", "less", "expected"),
    [
        ("tests/conftest.py", "", "tests/conftest.py does not belong there"),
        ("", "motorlite/__init__.py", "motorlite/__init__.py is missing"),
        ("", "motorlite-1.dist-info/licenses/LICENSE", "licenses/LICENSE is missing"),
        ("", "motorlite-1.dist-info/entry_points.txt", "entry_points.txt is missing"),
    ],
)
def test_a_bad_wheel(more: str, less: str, expected: str) -> None:
    found = {*SOURCES, *INFORMATION, *([more] if more else [])} - {less}
    assert list(release.wheel_problems(found, SOURCES)) == [expected]


def test_a_marker_that_is_in_neither_is_missed() -> None:
    code = {"motorlite/__init__.py"}
    assert list(release.wheel_problems(code | INFORMATION, code)) == ["motorlite/py.typed is missing"]


def test_the_oldest_versions() -> None:
    assert release.oldest(["anyio>=4.4", "pymongo>=4.9"]) == ["anyio==4.4", "pymongo==4.9"]


@pytest.mark.parametrize("line", ["anyio", "anyio>=4.4,<5", "anyio>=4.4; python_version < '3.12'"])
def test_a_requirement_without_one_oldest_version(line: str) -> None:
    with pytest.raises(CheckFailed, match="has no single oldest version"):
        release.oldest([line])


def test_requirements_of_extras_are_not_those_of_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    lines = ["Metadata-Version: 2.4", "Name: a", "Requires-Dist: b>=1", "Requires-Dist: c>=2; extra == 'd'", "", ""]
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a-1.dist-info/METADATA", "\n".join(lines))
    assert release.oldest(release.metadata(wheel).requires or []) == ["b==1"]


def test_the_optional_packages() -> None:
    found = release.optional_packages()
    assert {"trio", "pytest", "python-snappy"} <= found
    assert not found & {"anyio", "pymongo", "dnspython", "motorlite"}


def test_wheels_with_different_files_are_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(name: str, text: str) -> Path:
        path = tmp_path / name / "a.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("same.py", "")
            archive.writestr("other.py", text)
        return path

    theirs, ours = built("theirs", "x = 1"), built("ours", "x = 2")
    monkeypatch.setattr(release, "build", lambda *_arguments: Packages(ours, tmp_path))
    with pytest.raises(CheckFailed, match=r"another wheel than the repository: other\.py"):
        release.check_same_wheel(Packages(theirs, tmp_path), ours.parent)


def test_a_failed_program_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="sh -c echo no; exit 3\nno"):
        release.run("sh", "-c", "echo no; exit 3", cwd=tmp_path)


def test_a_plain_installation_brings_nothing_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "install", lambda *_arguments: tmp_path / "python")
    monkeypatch.setattr(release, "run", lambda *_arguments, **_options: "motorlite==1\nPython_Snappy==2\npip==3\n")
    with pytest.raises(CheckFailed, match=r"installed without being asked for: python-snappy$"):
        release.check_user(tmp_path, "python3", "mongodb://h")


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["bson==1", "/usr/motorlite/__init__.py"], "motorlite was imported from /usr/motorlite/__init__.py"),
        (["bson==1", "{}/motorlite/__init__.py", ""], "the quick start printed nothing"),
        (["bson==1", "{}/motorlite/__init__.py", "bolt"], ""),
    ],
)
def test_the_quick_start_runs_with_what_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outputs: list[str], message: str
) -> None:
    printed = (text.format(tmp_path) for text in outputs)
    monkeypatch.setattr(release, "install", lambda *_arguments: tmp_path / "python")
    monkeypatch.setattr(release, "run", lambda *_arguments, **_options: next(printed))
    with pytest.raises(CheckFailed, match=message) if message else nullcontext():
        release.check_user(tmp_path, "python3", "mongodb://h")


def test_a_python_that_does_not_exist() -> None:
    assert release.find_python("2.99") is None


def test_a_report_has_one_line_for_each_check(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise CheckFailed("for a reason")

    assert release.check("this", lambda: "well done")
    assert not release.check("that", fail)
    assert capsys.readouterr().out.splitlines() == ["ok        this: well done (0 s)", "FAILED    that: for a reason"]
