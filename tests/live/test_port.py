"""The three programs run against a server, before and after `motorlite.port`, and print the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from motorlite.port._command import main
from tests.support.port_projects import change_by_hand, copied

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.slow

REPOSITORY: Final = Path(__file__).parents[2]
GUIDES: Final = tuple(REPOSITORY / "docs" / f"porting-from-{name}.md" for name in ("pymongo", "motor"))
LOCAL: Final = "mongodb://localhost:27017"
# Nothing of PyMongo is imported but bson.
RUN: Final = """\
import runpy, sys

class NoPyMongo:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ImportError(f"{{name}} is imported")

sys.meta_path.insert(0, NoPyMongo())
sys.path.insert(0, "")
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
CSV: Final = "id,station,day,value\n" + "".join(
    f"{number},{'north' if number % 2 else 'south'},2026-01-{number:02},{number - 2}\n" for number in range(1, 30)
)


def run(folder: Path, server: LocalServer, database: str, *command: str, refused: tuple[str, ...] = ()) -> str:
    """Run a program, and return what it prints."""
    environment = {
        **os.environ,
        "MONGODB_URI": server.uri,
        "MONGODB_DATABASE": database,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(refused=refused), *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "never awaited" not in done.stderr
    # Motor's own objects may be dropped at the end.
    assert not refused or "ignored" not in done.stderr
    return done.stdout


def both(
    name: str, folder: Path, server: LocalServer, database: str, *command: str, refused: tuple[str, ...]
) -> tuple[str, str]:
    """What a program prints before and after the port."""
    before = run(folder, server, f"{database}_a", *command)
    assert main(["--write", "--quiet", str(folder)]) == 1
    change_by_hand(name, folder)
    assert main(["--quiet", str(folder)]) == 0
    return before, run(folder, server, f"{database}_b", *command, refused=refused)


def test_the_service_on_motor(replica_set: LocalServer, database_name: str, tmp_path: Path) -> None:
    folder = copied("motor_service", tmp_path)
    before, after = both(
        "motor_service", folder, replica_set, database_name, "smoke.py", refused=("pymongo", "motor", "gridfs")
    )
    assert after == before
    assert "ordered a 200\nordered a 200\nordered a 200\nordered a 409\nordered b 200\n" in after
    assert "200 524288 True\n200 224288 True\n" in after


def test_the_worker_on_pymongo(replica_set: LocalServer, database_name: str, tmp_path: Path) -> None:
    folder = copied("pymongo_worker", tmp_path)
    before, after = both(
        "pymongo_worker", folder, replica_set, database_name, "main.py", refused=("pymongo", "motor", "gridfs")
    )
    assert after == before
    assert after.startswith("booked: 4 entries: 4\n")


def test_the_script_that_imports(replica_set: LocalServer, database_name: str, tmp_path: Path) -> None:
    folder = copied("import_script", tmp_path)
    file = tmp_path / "measurements.csv"
    file.write_text(CSV, encoding="utf-8")
    before, after = both(
        "import_script",
        folder,
        replica_set,
        database_name,
        "load.py",
        str(file),
        str(file),
        # Its requests and constants stay PyMongo's, because other programs of the folder use the synchronous client.
        refused=("motor", "gridfs"),
    )
    assert after == before
    assert after.startswith("new 29, there 0\n")
    # These keep the synchronous client.
    assert run(folder, replica_set, f"{database_name}_b", "count.py", refused=("motor",)) == "29\n"
    assert run(folder, replica_set, f"{database_name}_b", "compare.py", refused=("motor",)) == "(29, 29)\n"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_programs_of_the_guides(
    guide: Path, replica_set: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = guide.read_text(encoding="utf-8").split("```python\n")[1:]
    texts = [block.partition("```")[0] for block in blocks]
    before, after, *others = texts
    file = tmp_path / "program.py"
    file.write_text(before, encoding="utf-8")
    assert main(["--write", str(file)]) == 0, capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == after
    printed: list[str] = []
    for number, text in enumerate([before, after, *others]):
        program = tmp_path / f"program{number}.py"
        source = text.replace(LOCAL, replica_set.uri).replace("client.shop", "client.motorlite_test_guides")
        program.write_text(source, encoding="utf-8")
        printed.append(run(tmp_path, replica_set, "", program.name, refused=() if text == before else ("pymongo",)))
    assert printed[0] == printed[1]
    assert all(printed)
