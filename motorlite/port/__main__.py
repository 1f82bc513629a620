"""Shell: ``python -m motorlite.port``."""

from __future__ import annotations

import sys

from motorlite.port._command import main

if __name__ == "__main__":
    # LibCST goes through long expressions by recursion.
    sys.setrecursionlimit(20_000)
    sys.exit(main(sys.argv[1:]))
