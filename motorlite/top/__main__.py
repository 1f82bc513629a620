"""Shell: ``python -m motorlite.top``."""

from __future__ import annotations

import sys

from motorlite.top._command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
