"""The example in docs/timeouts.md is run against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "timeouts.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example(replica_set: LocalServer) -> None:
    (example,) = EXAMPLES
    # A busy machine needs longer than the example says.
    source = NO_WORD_ABOUT_SLOW_STEPS + example.replace("timeoutMS=100", "timeoutMS=10_000")
    source = source.replace("mongodb://localhost:27017", replica_set.uri).replace("shop", "motorlite_test_timeouts")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", source],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        replica_set.command({"dropDatabase": 1}, "motorlite_test_timeouts")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "{'_id': 1, 'a': 1, 'b': 3}",
        "the server stopped after 0.1 s",
        "100",
    ]
    assert not done.stderr
