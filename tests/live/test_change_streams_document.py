"""The example in docs/change-streams.md is run against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "change-streams.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example(replica_set: LocalServer) -> None:
    (example,) = EXAMPLES
    source = example.replace("mongodb://localhost:27017/?replicaSet=rs0", replica_set.uri)
    assert source != example
    source = NO_WORD_ABOUT_SLOW_STEPS + source.replace("shop", "motorlite_test_changes")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", source],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        replica_set.command({"dropDatabase": 1}, "motorlite_test_changes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{'_id': 0}", "{'_id': 1}", "later: {'_id': 2}"]
    assert not done.stderr
