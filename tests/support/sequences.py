"""State machines of hypothesis as tests: a few sequences in a normal run, as many as wanted in a long one.

``MOTORLITE_SEQUENCES=10000 python -m pytest $(git ls-files 'tests/unit/*_sequences.py') -k 'not planted' -rP --timeout
0`` tries so many sequences of each machine.

A normal run is hypothesis' own. A long one draws rules and arguments at random (`draws`), which takes a fraction of the
time. Its sequences are numbered: ``MOTORLITE_SEQUENCES=1 MOTORLITE_FIRST_SEQUENCE=4711`` repeats one that failed.
"""

from __future__ import annotations

import os
import time
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.support.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Iterable

_WANTED: Final = "MOTORLITE_SEQUENCES"
_FIRST: Final = "MOTORLITE_FIRST_SEQUENCE"
_STEPS: Final = 30
# The part of the rules that a sequence does without: with few of them, rare states are reached.
_LEFT_OUT: Final = (0.0, 0.0, 0.25, 0.5)


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


def run(machine: type[Machine], *, examples: int = 40) -> None:
    """Try `examples` sequences, always the same, or as many others as the environment wants."""
    wanted = os.environ.get(_WANTED)
    began = time.process_time()
    if wanted is None:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=_STEPS,
                # A normal run must not fail by chance.
                derandomize=True,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    else:
        first = int(os.environ.get(_FIRST) or SystemRandom().randrange(2**31))
        found = search(machine, int(wanted), first=first)
        if found.failure is not None:
            raise found.failure
    seconds = time.process_time() - began
    print(f"{machine.__name__}: {machine.sequences:,} sequences, {machine.steps:,} steps, {seconds:.1f} s of CPU")


class Step(NamedTuple):
    """One step of a random sequence: a rule, and the seed of its arguments."""

    rule: str
    seed: int


class Search(NamedTuple):
    """How a search for a failure ended.

    Attributes:
        sequences: How many sequences were tried, the one that failed included.
        failure: What went wrong in that one, with its steps as a note; None: nothing, in any.
    """

    sequences: int
    failure: Exception | None


def search(machine: type[Machine], most: int, *, first: int = 0) -> Search:
    """Try up to `most` random sequences, until one fails. The first one has the number `first`."""
    for number in range(first, first + most):
        done: list[Step] = []
        failure = _failure(machine, _steps(machine, Random(number)), done)
        if failure is not None:
            shortest, failure = _shortest(machine, done, failure)
            shown = "\n".join(_shown(machine, shortest))
            failure.add_note(
                f"in sequence {number} of {machine.__name__}, {len(shortest)} of {len(done)} steps:\n{shown}"
            )
            return Search(number - first + 1, failure)
    return Search(most, None)


def _steps(machine: type[Machine], random: Random) -> Iterable[Step]:
    """Draw the steps of a sequence: more than are made, since some of the rules do not apply when it is their turn."""
    parts = machine.setup_state()
    names = [rule.function.__name__ for rule in parts.rules]
    left_out = random.choice(_LEFT_OUT)
    names = [name for name in names if random.random() >= left_out] or names
    for rule in random.sample(parts.initializers, len(parts.initializers)):
        yield Step(rule.function.__name__, random.getrandbits(32))
    for _ in range(4 * _STEPS):
        yield Step(random.choice(names), random.getrandbits(32))


def _failure(machine: type[Machine], steps: Iterable[Step], done: list[Step] | None = None) -> Exception | None:
    """Make as many of the steps as a sequence has, and return what went wrong. `done` gets those that were made."""
    rules, left = _rules(machine), len(machine.setup_state().initializers)
    running, made = machine(), 0
    try:
        for step in steps:
            rule = rules[step.rule]
            if not all(condition(running) for condition in rule.preconditions):
                continue
            if done is not None:
                done.append(step)
            draws = Draws(Random(step.seed))
            rule.function(running, **{name: draws.draw(each) for name, each in rule.arguments.items()})
            left -= 1
            if left <= 0:
                _check(running)
            made += 1
            if made == _STEPS:
                break
    except Exception as failure:
        try:
            running.teardown()
        except Exception as second:
            failure.add_note(f"its teardown failed, too: {second!r}")
        return failure
    try:
        running.teardown()
    except Exception as failure:
        return failure
    return None


def _rules(machine: type[Machine]) -> dict[str, Any]:
    parts = machine.setup_state()
    return {rule.function.__name__: rule for rule in (*parts.initializers, *parts.rules)}


def _check(running: Machine) -> None:
    for each in running.setup_state().invariants:
        if all(condition(running) for condition in each.preconditions):
            each.function(running)


def _shortest(machine: type[Machine], steps: list[Step], failure: Exception) -> tuple[list[Step], Exception]:
    """Leave out every step without which the sequence fails in the same way."""
    fixed = len(machine.setup_state().initializers)
    place = len(steps) - 1
    while place >= fixed:
        made: list[Step] = []
        found = _failure(machine, steps[:place] + steps[place + 1 :], made)
        if found is not None and type(found) is type(failure):
            # Steps that do not apply without it are left out, too.
            steps, failure = made, found
        place = min(place, len(steps)) - 1
    return steps, failure


def _shown(machine: type[Machine], steps: list[Step]) -> Iterable[str]:
    """Describe steps with their arguments, but for those that depend on the state."""
    rules = _rules(machine)
    for step in steps:
        draws = Draws(Random(step.seed))
        arguments = {name: draws.draw(each) for name, each in rules[step.rule].arguments.items()}
        shown = ", ".join(f"{name}={'...' if each is draws else repr(each)}" for name, each in arguments.items())
        yield f"    {step.rule}({shown})"
