from __future__ import annotations

import pytest

from benchmarks.figures import Round, summarise
from benchmarks.speed.targets import Condition, best_peer, conditions, exit_code


def one(
    arm: str, rate: float, *, operation: str = "find_one", tasks: int = 50, cpu: float = 1e-4, p99: float = 0.002
) -> Round:
    return Round(operation, arm, tasks, 1, int(rate * 2), 2.0, int(rate * 2) * cpu, 0.001, p99)


def found(*rounds: Round) -> list[Condition]:
    return conditions(summarise(rounds))


def the(conditions: list[Condition], words: str) -> Condition:
    """The only condition with these words."""
    (condition,) = [condition for condition in conditions if words in condition.text]
    return condition


@pytest.mark.parametrize(("rate", "met"), [(950, True), (940, False)])
def test_operations_are_compared_with_the_bare_protocol(rate: float, met: bool) -> None:
    condition = the(found(one("motorlite", rate), one("bare", 1000)), "operations of motorlite are at least 0.95")
    assert condition.met is met
    assert f"({rate / 1000:.2f} times)" in condition.text
    assert condition.line.startswith("met: " if met else "NOT MET: ")


def test_only_the_comparison_with_a_peer_is_required() -> None:
    without_bare = found(one("motorlite", 4500), one("pymongo", 1000))
    assert the(without_bare, "operations of motorlite are at least 0.95").met is None
    assert the(without_bare, "operations of motorlite are at least 0.95").line.startswith("not measured: ")
    assert exit_code(without_bare) == 0
    without_peer = found(one("motorlite", 4500), one("bare", 4500))
    assert the(without_peer, "operations of motorlite are at least 1 ").met is None
    assert "(the best peer was not measured)" in the(without_peer, "operations of motorlite are at least 1 ").text
    assert exit_code(without_peer) == 1


def test_the_best_peer_is_the_fastest_for_that_operation() -> None:
    rounds = [
        one("motorlite", 120, operation="insert_many", tasks=1),
        one("pymongo", 100, operation="insert_many", tasks=1),
        one("mongojet", 80, operation="insert_many", tasks=1),
    ]
    best = best_peer(summarise(rounds), "insert_many", 1)
    assert best is not None
    assert best.arm == "pymongo"
    condition = the(found(*rounds), "best peer")
    assert condition.met is False
    assert "(1.20 times, pymongo)" in condition.text
    assert best_peer({}, "insert_many", 1) is None


def test_the_client_cpu_is_compared_with_the_bare_protocol_and_trio_with_asyncio() -> None:
    rounds = [one("motorlite", 9, cpu=1.2e-4), one("bare", 9, cpu=1e-4), one("motorlite-trio", 9, cpu=2e-4)]
    assert the(found(*rounds), "CPU of motorlite is").met is True
    assert the(found(*rounds), "CPU of motorlite-trio").met is False


def test_the_p99_is_compared_with_the_best_of_all_peers() -> None:
    rounds = [one("motorlite", 9, p99=0.003), one("pymongo", 9, p99=0.004), one("motor", 9, p99=0.002)]
    condition = the(found(*rounds), "p99")
    assert condition.met is False
    assert "(1.50 times, motor)" in condition.text


def test_other_numbers_of_tasks_and_operations_have_no_conditions() -> None:
    assert found(one("motorlite", 9000, tasks=8), one("pymongo", 1000, tasks=8)) == []
    assert exit_code([]) == 0


@pytest.mark.parametrize(("cpu", "expected"), [(1.05, True), (1.06, False)])
def test_the_cpu_may_not_grow(cpu: float, expected: bool) -> None:
    mine = one("motorlite", 2500, cpu=cpu * 1e-4)
    condition = the(found(mine, one("before", 9000)), "that of before")
    assert condition.met is expected
    assert f"({cpu:.2f} times)" in condition.text
