"""The example in docs/gridfs.md is run against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "gridfs.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example(replica_set: LocalServer) -> None:
    (example,) = EXAMPLES
    source = NO_WORD_ABOUT_SLOW_STEPS + example
    source = source.replace("mongodb://localhost:27017", replica_set.uri).replace("shop", "motorlite_test_gridfs")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", source],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        replica_set.command({"dropDatabase": 1}, "motorlite_test_gridfs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "report.txt 14 {'year': 2026}",
        "b'one\\n'",
        "b'two\\n'",
        "b'three\\n'",
        "b'two'",
        "b'line 0\\nline 1\\nline 2\\n'",
        "True b'one'",
    ]
    assert not done.stderr
