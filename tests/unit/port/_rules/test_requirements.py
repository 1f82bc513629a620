"""Files that say what a program needs: a program whose code is ported still depends on what they name."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from motorlite.port._command import main
from motorlite.port._rules.requirements import Requirement, is_requirements_file, requirements

if TYPE_CHECKING:
    from pathlib import Path

USES = "from motorlite import AsyncMongoClient\n"


def found(name: str, text: str) -> list[tuple[int, str, str]]:
    return [(each.line, each.text, each.package) for each in requirements(name, dedent(text))]


READ = (
    *("requirements.txt", "requirements-dev.txt", "dev-requirements.in", "requirements/base.txt", "constraints.txt"),
    *("pyproject.toml", "setup.cfg", "tox.ini", "Pipfile", "environment.yml", "environment.yaml", "Dockerfile"),
    "Dockerfile.test",
)
NOT_READ = ("poetry.lock", "uv.lock", "notes.txt", "my_requirements.md", "setup.py", "data/base.txt", "config.toml")


def test_files_that_are_read() -> None:
    assert [path for path in (*READ, *NOT_READ) if is_requirements_file(path)] == list(READ)


def test_a_list_of_requirements() -> None:
    text = """\
        # motor
        motor==3.6  # the driver
        Motor [srv] >= 3
        pymongo[srv]>=4.9; python_version > "3.9"
        motor-types
        pymongo_inmemory
        -r motor.txt
        motorlite[port]
        pymongo
    """
    assert found("requirements.txt", text) == [
        (2, "motor==3.6", "motor"),
        (3, "Motor [srv] >= 3", "motor"),
        (4, 'pymongo[srv]>=4.9; python_version > "3.9"', "pymongo"),
        (8, "motorlite[port]", "motorlite"),
        (9, "pymongo", "pymongo"),
    ]


def test_pyproject() -> None:
    text = """\
        [project]
        name = "motor"
        keywords = ["motor", "pymongo"]
        dependencies = [
            "httpx",
            "motor>=3",
        ]
        [project.optional-dependencies]
        mongo = ["pymongo >= 4.9"]
        [dependency-groups]
        test = ["motor>=3", {include-group = "mongo"}]
        [tool.poetry.dependencies]
        motor = "^3.3"
        pymongo = {version = "^4", optional = true}
        [tool.poetry.group.dev.dependencies]
        motor = "*"
        [tool.mypy]
        packages = "motor"
    """
    assert found("pyproject.toml", text) == [
        (6, "motor>=3", "motor"),
        (9, "pymongo >= 4.9", "pymongo"),
        (11, "motor>=3", "motor"),
        (13, "motor", "motor"),
        (14, "pymongo", "pymongo"),
        (16, "motor", "motor"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "line", "requirement"),
    [
        ("setup.cfg", "[options]\ninstall_requires =\n    motor>=3\n", 3, "motor>=3"),
        ("setup.cfg", "[options]\ninstall_requires = motor>=3\n", 2, "motor>=3"),
        ("tox.ini", "[testenv]\ndeps =\n    pytest\n    motor\n", 4, "motor"),
        ("Pipfile", "[packages]\nmotor = '*'\n", 2, "motor"),
        ("environment.yml", "dependencies:\n  - python\n  - motor=3.6\n", 3, "motor=3.6"),
        ("environment.yml", "dependencies:\n  - pip:\n    - motor>=3\n", 3, "motor>=3"),
        (
            "Dockerfile",
            "FROM python\nRUN pip install --no-cache-dir httpx 'motor[srv]>=3' uvicorn\n",
            2,
            "motor[srv]>=3",
        ),
        ("Dockerfile", "RUN uv pip install \\\n    motor==3.6 \\\n    httpx\n", 2, "motor==3.6"),
    ],
)
def test_other_files(name: str, text: str, line: int, requirement: str) -> None:
    assert requirements(name, text) == [Requirement(line, requirement, "motor")]


def project(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.{'py' if name == 'a' else 'txt'}").write_text(text)


def test_motor_is_reported_always(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, a="x = 1\n", requirements="motor>=3\nmotorlite\n")
    assert main(["--write", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path / 'requirements.txt'}:1: by hand: motor>=3 -> motorlite",
        "2 files: 1 difference, 0 changed in 0 files, 1 by hand",
    ]
    assert (tmp_path / "requirements.txt").read_text() == "motor>=3\nmotorlite\n"


def test_pymongo_is_reported_until_motorlite_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, a=USES, requirements="pymongo>=4\n")
    assert main([str(tmp_path)]) == 1
    assert "requirements.txt:1: by hand: pymongo>=4 -> motorlite, which needs it for `bson`" in capsys.readouterr().out
    project(tmp_path, constraints="motorlite\n")
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path / "requirements.txt")]) == 0


@pytest.mark.parametrize(
    ("program", "requirement"),
    [("from pymongo import MongoClient\n", "pymongo>=4\n"), ("x = 1\n", "motor  # port: keep\n")],
    ids=["nothing is asynchronous", "kept"],
)
def test_a_requirement_that_stays(program: str, requirement: str, tmp_path: Path) -> None:
    project(tmp_path, a=program, requirements=requirement)
    assert main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("name", "content"), [("requirements.txt", b"motor\xff\n"), ("pyproject.toml", b"dependencies = [\n")]
)
def test_a_file_that_cannot_be_read(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / name}: cannot be read: ")
