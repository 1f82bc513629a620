"""Shell: the process of one arm's clients: does runs until standard input ends, as when its parent is killed."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
import warnings
from time import monotonic

from benchmarks.storm.sockets.client import do, say


def main() -> None:
    # The driver's warnings about errors would be printed, where the application has no logging of its own.
    logging.getLogger().addHandler(logging.NullHandler())
    # An arm may combine options on purpose that the driver warns about.
    warnings.simplefilter("ignore")
    while True:
        try:
            task = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        began = monotonic()
        try:
            asyncio.run(do(task))
        except Exception as error:  # the parent decides what a failed run means
            say(RuntimeError(f"after {monotonic() - began:.1f} s: {describe(error)}"))
        else:
            say("closed")


def describe(error: BaseException) -> str:
    """The type and the text of an error; of the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
