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


@pytest.mark.parametrize(
    ("more", "less", "expected"),
    [
        ("", "", []),
        ("tests/conftest.py", "", ["tests/conftest.py does not belong there"]),
        ("", "motorlite/__init__.py", ["motorlite/__init__.py is missing"]),
        ("", "motorlite-1.dist-info/licenses/LICENSE", ["licenses/LICENSE is missing"]),
        ("", "motorlite-1.dist-info/entry_points.txt", ["entry_points.txt is missing"]),
    ],
)
def test_wheels(more: str, less: str, expected: list[str]) -> None:
    found = {*SOURCES, *INFORMATION, *([more] if more else [])} - {less}
    assert list(release.wheel_problems(found, SOURCES)) == expected
    # The marker is missed where the repository has none either.
    without = list(release.wheel_problems(found - {"motorlite/py.typed"}, SOURCES - {"motorlite/py.typed"}))
    assert set(without) == {*expected, "motorlite/py.typed is missing"}


def built(folder: Path, **files: str) -> Path:
    """A wheel with these files, whose names have no dots."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.py" if name != "METADATA" else "a-1.dist-info/METADATA", text)
    return folder / "a.whl"


def test_the_oldest_versions(tmp_path: Path) -> None:
    assert release.oldest(["anyio>=4.4", "pymongo>=4.9"]) == ["anyio==4.4", "pymongo==4.9"]
    for line in ("anyio", "anyio>=4.4,<5", "anyio>=4.4; python_version < '3.12'"):
        with pytest.raises(CheckFailed, match="has no single oldest version"):
            release.oldest([line])
    # Requirements of extras are not those of the wheel.
    text = "Metadata-Version: 2.4\nName: a\nRequires-Dist: b>=1\nRequires-Dist: c>=2; extra == 'd'\n\n"
    wheel = built(tmp_path / "a", METADATA=text)
    assert release.oldest(release.metadata(wheel).requires or []) == ["b==1"]
    found = release.optional_packages()
    assert {"trio", "pytest", "python-snappy"} <= found
    assert not found & {"anyio", "pymongo", "dnspython", "motorlite"}


def test_wheels_with_different_files_are_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = built(tmp_path / "theirs", same="", other="x = 1")
    ours = built(tmp_path / "ours", same="", other="x = 2")
    monkeypatch.setattr(release, "build", lambda *_arguments: Packages(ours, tmp_path))
    with pytest.raises(CheckFailed, match=r"another wheel than the repository: other\.py"):
        release.check_same_wheel(Packages(theirs, tmp_path), ours.parent)


def test_a_failed_program_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="sh -c echo no; exit 3\nno"):
        release.run("sh", "-c", "echo no; exit 3", cwd=tmp_path)
    assert release.find_python("2.99") is None


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["Python_Snappy==2\npip==3\n"], "installed without being asked for: python-snappy$"),
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


def test_a_report_has_one_line_for_each_check(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise CheckFailed("for a reason")

    assert release.check("this", lambda: "well done")
    assert not release.check("that", fail)
    assert capsys.readouterr().out.splitlines() == ["ok        this: well done (0 s)", "FAILED    that: for a reason"]
