"""Which runs a command stands for."""

from __future__ import annotations

import pytest

from benchmarks.storm.arms import ARMS, WrongPolicyError, parse_arm
from benchmarks.storm.plan import plan
from benchmarks.storm.scenarios import find


def test_standard_scenarios_run_on_sockets_and_others_in_the_simulation() -> None:
    steps = list(plan(find(["failover", "burst"]), None, 2, None))
    assert [step.backend for step in steps] == ["sockets"] * 16 + ["twin"] * 14
    assert [step.arm.name for step in steps[:8]] == list(find(["burst"])[0].arms)
    assert [step.seed for step in steps[:16]] == [1] * 8 + [2] * 8


def test_the_simulation_leaves_out_what_it_does_not_model() -> None:
    steps = list(plan(find(["burst"]), None, 1, "twin"))
    assert {step.backend for step in steps} == {"twin"}
    assert [step.arm.name for step in steps] == [name for name in find(["burst"])[0].arms if name != "mongojet"]


def test_a_quick_session_leaves_most_to_the_simulation() -> None:
    steps = list(plan(find(["standard"]), None, 2, None, is_quick=True))
    on_sockets = [step for step in steps if step.backend == "sockets"]
    assert [(step.scenario.name, step.arm.name) for step in on_sockets] == [
        ("sustained", name) for name in ("no-retry", "default", "small-budget", "pymongo")
    ]
    assert {step.scenario.name for step in steps} == {"burst", "sustained", "metastable"}
    everywhere = plan(find(["burst"]), None, 2, "sockets", is_quick=True)
    assert {step.backend for step in everywhere} == {"sockets"}


def test_arms_of_the_user_replace_those_of_the_scenario() -> None:
    steps = list(plan(find(["failover"]), [ARMS["default"]], 3, None))
    assert [(step.arm.name, step.seed) for step in steps] == [("default", 1), ("default", 2), ("default", 3)]


def test_an_arm_with_other_fields() -> None:
    arm = parse_arm("default:tokens=50,max_pool_size=20,adaptive_limit=yes,budget=server")
    assert (arm.tokens, arm.max_pool_size, arm.adaptive_limit, arm.budget) == (50.0, 20, True, "server")
    assert arm.name == "default:tokens=50,max_pool_size=20,adaptive_limit=yes,budget=server"
    assert arm.retries == ARMS["default"].retries
    assert parse_arm("default") is ARMS["default"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sead", "there is no policy 'sead'; there are no-retry"),
        ("default:token=3", "a policy has no 'token'; it has retries"),
        ("default:name=3", "a policy has no 'name'"),
        ("default:tokens=many", "tokens=many is not float"),
        ("default:queue=maybe", "queue=maybe is not bool"),
        ("default:budget=everyone", "budget=everyone is not one of client, server"),
        ("default:retries=-1", "retries=-1 is not int of at least 0"),
        ("default:tokens=nan", "tokens=nan is not float"),
    ],
)
def test_arms_that_are_none(text: str, message: str) -> None:
    with pytest.raises(WrongPolicyError, match=message):
        parse_arm(text)
