"""State machines of hypothesis as tests: a few sequences in a normal run, as many as wanted in a long one.

``MOTORLITE_SEQUENCES=10000 python -m pytest $(git ls-files 'tests/unit/*_sequences.py') -rP --timeout 0`` tries so many
sequences of each machine.
"""

from __future__ import annotations

import os
import time
from typing import ClassVar, Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

_WANTED: Final = "MOTORLITE_SEQUENCES"


class Machine(RuleBasedStateMachine):
    """A state machine that counts what it does."""

    sequences: ClassVar[int] = 0
    steps: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        cls.sequences = cls.steps = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).sequences += 1

    @invariant()
    def count_step(self) -> None:
        type(self).steps += 1


def run(machine: type[Machine], *, examples: int = 40, steps: int = 30) -> None:
    """Try `examples` sequences of up to `steps` steps, always the same, or as many others as the environment wants."""
    wanted = os.environ.get(_WANTED)
    began = time.process_time()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(wanted or examples),
            stateful_step_count=steps,
            # A normal run must not fail by chance.
            derandomize=wanted is None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    seconds = time.process_time() - began
    print(f"{machine.__name__}: {machine.sequences:,} sequences, {machine.steps:,} steps, {seconds:.1f} s of CPU")
