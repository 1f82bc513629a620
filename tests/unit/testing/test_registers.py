from __future__ import annotations

from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite.testing.journal import operations
from motorlite.testing.registers import judge_registers
from tests.support.histories import History

if TYPE_CHECKING:
    from motorlite.testing.journal import Operation


def registers(*steps: str) -> History:
    """Operations like ``w1 1-2``, ``r1 1-2`` and ``c1>2 1-2``, with times; ``!``: did not swap; ``?``: unknown."""
    history = History()
    for step in steps:
        what, times = step.split()
        begin, end = map(float, times.split("-"))
        value: Any = int(what[-1]) if what[-1].isdigit() else None
        details: dict[str, Any] = {"op": {"w": "write", "r": "read", "c": "cas"}[what.lstrip("?!")[0]], "key": "x"}
        result: dict[str, Any] = {}
        if details["op"] == "read":
            result["value"] = value
        else:
            details["value"] = value
        if details["op"] == "cas":
            before = what.split(">")[0][-1]
            details["expected"] = int(before) if before.isdigit() else None
            result["swapped"] = not what.startswith("!")
        history.add("register", details, "unknown" if what.startswith("?") else "ok", result, at=(begin, end))
    return history


@pytest.mark.parametrize(
    ("steps", "final", "is_linearizable"),
    [
        (("w1 1-2", "r1 3-4"), 1, True),
        (("w1 1-2", "r- 3-4"), 1, False),  # stale
        (("w1 1-4", "r- 2-3"), 1, True),
        (("w1 1-9", "r1 2-3", "r- 4-5"), 1, False),  # back in time
        (("w1 1-9", "r- 2-3", "r1 4-5"), 1, True),
        (("r1 1-2", "w1 3-4"), 1, False),  # the future
        (("w1 1-2", "w2 3-4"), 1, False),  # lost
        (("w1 1-4", "w2 3-5"), 1, True),
        (("?w1 1-2", "r- 3-4", "r1 5-6"), 1, True),  # happens later
        (("?w1 1-2", "r1 3-4", "r- 5-6"), 1, False),  # cannot happen and not happen
        (("?w1 1-2", "w2 3-4", "r1 5-6"), 1, True),
        (("?w1 1-2", "w2 3-4"), 2, True),
        (("?w1 1-2", "w2 3-4", "r1 5-6", "w3 7-8", "r1 9-10"), 1, False),  # happens once
        (("w1 1-2", "c1>2 3-4", "r2 5-6"), 2, True),
        (("w1 1-2", "c3>2 3-4"), 2, False),
        (("w1 1-2", "c1>2 3-5", "c1>3 4-6"), 3, False),  # both have won
        (("w1 1-2", "c1>2 3-5", "!c1>3 4-6"), 2, True),
        (("w1 1-2", "!c1>3 4-6"), 1, False),
        (("?w1 1-2", "?c1>2 1-2", "r2 3-4"), 2, True),  # one unknown needs the other
        (("?c1>2 1-2", "r2 3-4"), 2, False),
        (("w1 1-2", "?w2 1-2", "!c1>3 4-6"), 2, True),  # rejected because of what nothing reads
        (("w1 1-2", "?w2 5-6", "!c1>3 3-4"), 2, False),
        (("w1 1-2", "c1>1 3-4"), 1, True),
        (("w2 1-2", "c1>1 3-4"), 2, False),
        (("w1 1-2", "r7 3-4"), 1, False),
    ],
)
def test_registers(steps: tuple[str, ...], final: Any, is_linearizable: bool) -> None:
    found = judge_registers(registers(*steps).entries, {"x": final})
    assert [finding.kind for finding in found] == [] if is_linearizable else ["not linearizable"]


def possible_orders(performed: list[Operation], final: Any) -> bool:
    """Whether there is an order, by trying all of them."""
    certain = [each for each in performed if each.outcome == "ok"]
    others = [each for each in performed if each.outcome == "unknown" and each.details["op"] != "read"]
    for choice in range(2 ** len(others)):
        chosen = certain + [each for bit, each in enumerate(others) if choice >> bit & 1]
        for order in permutations(chosen):
            is_in_time = all(a.begin <= b.end for n, a in enumerate(order) for b in order[n + 1 :])
            if is_in_time and _ends_with(order, final):
                return True
    return False


def _ends_with(order: tuple[Operation, ...], final: Any) -> bool:
    held = None
    for each in order:
        details = each.details
        if details["op"] == "read":
            if each.result["value"] != held:
                return False
        elif details["op"] == "cas" and (held == details["expected"]) != each.result.get("swapped", True):
            return False
        elif each.result.get("swapped", True):
            held = details["value"]
    return bool(held == final)


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_the_search_agrees_with_all_orders(seed: int, values: int) -> None:
    random = Random(seed)
    history = History()
    for _ in range(random.randint(1, 6)):
        begin = random.randint(0, 8)
        op = random.choice(("read", "write", "cas"))
        details: dict[str, Any] = {"op": op, "key": "x"}
        if op != "read":
            details["value"] = random.randrange(values)
        if op == "cas":
            details["expected"] = random.choice([None, *range(values)])
        outcome: Any = random.choice(("ok", "ok", "ok", "unknown"))
        result: dict[str, Any] = {}
        if outcome == "ok" and op != "write":
            value = random.choice([None, *range(values)])
            result = {"value": value} if op == "read" else {"swapped": random.random() < 0.7}
        history.add("register", details, outcome, result, at=(begin, begin + random.randint(0, 5)))
    final = random.choice([None, *range(values)])
    found = judge_registers(history.entries, {"x": final})
    assert (found == []) is possible_orders(list(operations(history.entries)), final)


def test_keys_are_judged_alone_and_start_with_their_values() -> None:
    history = History().see("start", registers=[["x", 5]])
    history.add("register", {"op": "read", "key": "x"}, result={"value": 5})
    history.add("register", {"op": "read", "key": "y"}, result={"value": None})
    assert judge_registers(history.entries) == []
    assert judge_registers(history.entries, {"x": 5}) == []
    assert [finding.kind for finding in judge_registers(history.entries, {})] == ["not linearizable"]


def test_what_failed_did_not_happen() -> None:
    history = History().add("register", {"op": "write", "key": "x", "value": 1}, "failed")
    assert judge_registers(history.entries, {}) == []
    assert judge_registers(history.entries, {"x": 1}) != []


def test_the_message_names_the_operations() -> None:
    (finding,) = judge_registers(registers("w1 1-2", "r1 3-4", "w2 5-6", "r1 7-8").entries)
    assert "it held 1" in finding.message
    assert "#3 read 1" in finding.message
    assert {0, 2, 3} <= {entry.id for entry in finding.entries}


def test_a_search_that_is_too_long_gives_up() -> None:
    steps = [f"w{n} 1-50" for n in range(5)] + [f"r{n} 60-99" for n in range(5)]
    (finding,) = judge_registers(registers(*steps).entries, limit=3)
    assert finding.kind == "undecided"


def test_an_operation_that_is_none() -> None:
    with pytest.raises(ValueError, match="'add' is none of read, write and cas"):
        judge_registers(History().add("register", {"op": "add", "key": "x"}).entries)
