"""Shell: runs a module in a fresh process, which prints one value as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.workers import ROOT


class ChildFailedError(Exception):
    """The process failed; the message is the end of what it said."""


def ask(module: str, *arguments: str, limit: float = 300.0) -> Any:
    """Run `python -m module arguments` and return the value that it prints.

    Raises:
        ChildFailedError: It failed, or took longer than `limit` seconds.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ChildFailedError(f"took longer than {limit:g} s") from None
    if done.returncode:
        raise ChildFailedError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout)
