"""Net: starts programs that outlive this process."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# The shell ends at once, so the program becomes a child of the system, which reaps it.
_DETACHED: Final = '"$@" </dev/null >/dev/null 2>&1 &'


def start_detached(command: Sequence[str]) -> bool:
    """Start a program in a session of its own. Return False if there is none of that name. Blocks."""
    if shutil.which(command[0]) is None:
        return False
    subprocess.run(["/bin/sh", "-c", _DETACHED, "sh", *command], start_new_session=True, check=True)
    return True
