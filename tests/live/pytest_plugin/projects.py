"""Projects of users, each run by a pytest of its own that loads the plugin as an installed one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

REPOSITORY: Final = Path(__file__).parents[3]
# pytest-asyncio 1.x wants one of its settings to be set.
STRICT: Final = ("-W", "error", "-W", "ignore:The configuration option")


class Project:
    """A folder with tests, outside of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The environment of the tests may have been installed before the plugin was there, so its entry point is
        # installed here once more. pytest loads an entry point that it finds twice once.
        table = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
        information = folder / "installed" / "motorlite-0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: motorlite\nVersion: 0\n")
        lines = [f"{name} = {module}" for name, module in table.items()]
        (information / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))

    def write(self, name: str, text: str) -> None:
        """Add a file."""
        (self.folder / name).write_text(text)

    def run(
        self, *arguments: str, server: LocalServer | None = None, mode: tuple[str, ...] = STRICT, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest, with `server` as the deployment, or else with one that the plugin starts.

        `mode` is Python's own, and `more` is added to the environment.
        """
        named = [f"--motorlite-uri={server.uri}"] if server is not None else []
        (self.folder / "pytest.ini").touch()
        paths = [str(self.folder / "installed"), str(REPOSITORY)]
        left_out = ("MONGODB_URI", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "PYTEST_ADDOPTS")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        return subprocess.run(
            [sys.executable, *mode, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", *named, *arguments],
            cwd=self.folder,
            env={**environment, **more, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
