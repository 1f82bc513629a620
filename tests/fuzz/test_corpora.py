"""Each input of the corpora, and of what was wrong once, keeps the promises and the limits of its target."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import corpus, engines
from tests.fuzz import target as targets
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Checker, HangError, Limit, LimitError, Target, measure, steps_of
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes of a corpus.
LARGEST = 64 * 1024
# LibCST takes a second for the corpus of `port`, all others together half of one.
ALL = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "port")) for name in TARGETS]
)


@ALL
def test_the_corpus(name: str) -> None:
    target, found = TARGETS[name], corpus.load(TARGETS[name])
    assert found
    assert sum(map(len, found)) <= LARGEST
    assert all(len(data) <= targets.MAX_INPUT for data in found)
    for data in (*target.seeds, *found):
        target.run(data)


@ALL
def test_the_limits_of_the_largest_inputs(name: str) -> None:
    target, found = TARGETS[name], corpus.load(TARGETS[name])
    measure(target, found[-1])  # also imports what is imported when it is needed
    for data in sorted(found, key=len)[-3 if name == "port" else -20 :]:
        measure(target, data)


NO_LIMIT = Limit(10**9, 0)


def toy(run: Callable[[bytes], object], *, steps: Limit = NO_LIMIT, memory: Limit = NO_LIMIT) -> Target:
    def ignored(data: bytes) -> None:
        run(data)

    return Target("toy", ignored, [b"seed"], (), 1, steps=steps, memory=memory)


def test_an_exception_is_found_and_its_input_shrunk() -> None:
    target = toy(lambda data: 1 / (b"x" not in data or len(data) < 3))
    outcome = engines.mutate(target, 100_000, 1)
    assert outcome.crash is not None
    assert outcome.report == "ZeroDivisionError('division by zero')"
    shrunk = engines.shrunk(target, outcome.crash)
    assert (len(shrunk), b"x" in shrunk) == (3, True)
    assert not engines.mutate(toy(len), 1000, 1).report


def test_too_much_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "MEASURED", 1)
    outcome = engines.mutate(toy(lambda data: bytes(1000 * len(data)), memory=Limit(3000, 10)), 100, 1)
    assert "bytes took" in outcome.report
    with pytest.raises(LimitError, match=r"toy: 4 bytes took [0-9]+ bytes, more than 3040"):
        measure(toy(lambda data: bytes(10_000), memory=Limit(3000, 10)), b"seed")


def test_too_many_steps_are_found() -> None:
    target = TARGETS["message"]
    data = target.seeds[2]
    steps, _ = steps_of(target, data)
    limited = toy(target.run, steps=Limit(steps, 0))
    measure(limited, data)
    with pytest.raises(LimitError, match=f"{steps} lines, more than {steps - 1}$"):
        measure(toy(target.run, steps=Limit(steps - 1, 0)), data)


def test_a_hang_is_found_whatever_the_driver_catches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "CPU_LIMIT", 0.02)

    def hang(data: bytes) -> None:
        while True:
            try:
                sum(data)
            except Exception:
                continue

    with Checker(toy(hang)) as checker, pytest.raises(HangError):
        checker.check(b"seed")


def test_one_seed_makes_the_same_inputs_again() -> None:
    for target in TARGETS.values():
        runs = []
        for _ in range(2):
            mutator = Mutator(target, Random(7))
            runs.append([mutator.mutated(target.seeds[0], target.seeds) for _ in range(20)])
        assert runs[0] == runs[1]
        assert len(set(runs[0])) > 10


def test_a_corpus_has_only_what_reaches_more() -> None:
    target = TARGETS["message"]
    inputs = [*target.seeds, *target.seeds, b"", b"\1", target.seeds[0] + b"\0"]
    kept = corpus.minimised(target, inputs)
    assert set(kept) < set(inputs)
    assert set().union(*(steps_of(target, data)[1] for data in kept)) == set().union(
        *(steps_of(target, data)[1] for data in inputs)
    )
    assert corpus.shrunk(b"abcdefgh", lambda data: b"c" in data and b"g" in data) == b"cg"
