"""What tests with real servers share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing import LocalServer

REPOSITORY = Path(__file__).resolve().parents[2]
# For programs in the development mode of Python, whose standard error must stay empty: asyncio says there which steps
# took long, which is a word about the machine.
NO_WORD_ABOUT_SLOW_STEPS = """
exec('''
import logging
logging.getLogger("asyncio").addFilter(lambda record: not record.msg.startswith("Executing %s took"))
''', {})  # in a namespace of its own: a filter with the program's would keep all that is in it
"""


def run_program(
    source: str, *arguments: str, mode: Sequence[str] = ("-W", "error")
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own; `mode` is Python's."""
    return subprocess.run(
        [sys.executable, *mode, "-c", source, *arguments],
        capture_output=True,
        text=True,
        timeout=55,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def open_cursors(server: LocalServer, namespace: str) -> int:
    """How many cursors of a collection the server keeps."""
    of_collection = {"ns": namespace, "cursor": {"$exists": True}}
    pipeline = [{"$currentOp": {"idleCursors": True, "allUsers": True}}, {"$match": of_collection}]
    found = server.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}})["cursor"]["firstBatch"]
    # The server looks at operations first and at idle cursors later: it may list a cursor whose getMore ends twice.
    return len({each["cursor"]["cursorId"] for each in found})


def numbered(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Documents with the ids from 0 on."""
    return [{"_id": number, **fields} for number in range(count)]
