"""Shell: ``python -m tests.simulate``: runs the driver in simulated worlds; the arguments are in `tests.simulation`."""

from __future__ import annotations

import sys

from tests.simulation.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
