"""The example in docs/transactions.md is run against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

DOCUMENT: Final = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
PRINTED: Final = re.search(r"It prints `(.*?)` and `(.*?)`\.", DOCUMENT)


def test_the_example(replica_set: LocalServer) -> None:
    (example,) = EXAMPLES
    assert PRINTED is not None
    source = NO_WORD_ABOUT_SLOW_STEPS + example.replace("mongodb://localhost:27017", replica_set.uri)
    source = source.replace("client.shop", "client.motorlite_test_transfers")
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", source],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        replica_set.command({"dropDatabase": 1}, "motorlite_test_transfers")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(PRINTED.groups())
    assert not done.stderr
