"""Shell: ``python -m motorlite.doctor``."""

from __future__ import annotations

import asyncio
import sys

from motorlite.doctor._command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], asyncio.run))
