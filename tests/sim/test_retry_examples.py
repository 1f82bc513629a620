"""The examples of docs/retry-strategies.md, run one after the other, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from motorlite.errors import OperationFailure
from motorlite.retry import BestEffort, RetryBudget
from motorlite.testing.scripted import failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, HOST_UNREACHABLE, OVERLOADED, answering

PAGE: Final = Path(__file__).parents[2] / "docs" / "retry-strategies.md"
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def examples() -> dict[str, Any]:
    """What the page's code defines."""
    names: dict[str, Any] = {}
    exec("\n".join(EXAMPLES), names)
    return names


async def test_every_example_runs() -> None:
    names = examples()
    assert isinstance(names["client"].options.retry_strategy, BestEffort)
    assert names["client"].options.timeout == 10
    assert isinstance(names["reports"]._settings.call_options.retry_strategy, BestEffort)
    assert isinstance(names["smaller"].options.retry_budget, RetryBudget)
    assert names["smaller"].options.retry_budget.capacity == 100
    assert names["careful"].options.retry_budget.per_server == 200
    assert {client.options.retry_budget for client in names["clients"]} == {names["shared"]}


async def test_a_robot_is_not_retried_and_a_person_gets_the_best_effort() -> None:
    handle = examples()["handle"]
    deployment = answering("find", *[HOST_UNREACHABLE] * 4, FOUND)
    async with scripted_client(deployment) as client:
        assert await handle(client.db.coll, False) == {"_id": 1}
        assert len(deployment["a:1"].commands("find")) == 5
        deployment["a:1"].received.clear()
        deployment["a:1"].on("find", *[HOST_UNREACHABLE] * 4, FOUND)
        with pytest.raises(OperationFailure) as caught:
            await handle(client.db.coll, True)
        assert caught.value.attempts == len(deployment["a:1"].commands("find")) == 1


@pytest.mark.parametrize(("answer", "attempts"), [(HOST_UNREACHABLE, 3), (OVERLOADED, 1)])
async def test_failing_fast(answer: Any, attempts: int) -> None:
    """A strategy that fails fast for some reasons; and `FailFast`, which does for all."""
    names = examples()
    deployment = answering("find", answer)
    async with scripted_client(deployment, retry_strategy=names["fail_fast"].options.retry_strategy) as client:
        with pytest.raises(OperationFailure) as caught:
            await client.db.coll.find_one()
        assert caught.value.attempts == attempts
        deployment["a:1"].received.clear()
        with pytest.raises(OperationFailure):
            await names["suggestions"](client.db.coll, "a")
        assert len(deployment["a:1"].commands("find")) == 1


async def test_codes_of_ones_own() -> None:
    strategy = examples()["patient"]._settings.call_options.retry_strategy
    assert strategy.codes == {24, 46, 112, 117, 133, 246}
    async with scripted_client(answering("find", failure(24), failure(117), FOUND), retry_strategy=strategy) as client:
        assert await client.db.coll.find_one() == {"_id": 1}


@pytest.mark.parametrize("clients", [1, 10, 100])
async def test_what_the_tokens_of_all_clients_amount_to(clients: int) -> None:
    """The table of the page, at a hundredth of its capacity: a burst of one bucket for each client, and no more."""
    operations, sent = 4, 0
    for _ in range(clients):
        deployment = answering("find", OVERLOADED)
        async with scripted_client(deployment, retry_budget=RetryBudget(10)) as client:
            for _ in range(operations):
                with pytest.raises(OperationFailure):
                    await client.db.coll.find_one()
        sent += len(deployment["a:1"].commands("find"))
    assert sent == clients * (operations + 10)
