"""The overload policy (client backpressure specification) in virtual time: what answers cost in time and tokens.

Which rule permits a retry, and at what cost, is decided in tests/unit/_retry. These tests show that operations of every
kind do so.
"""

from __future__ import annotations

from dataclasses import fields
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import pytest

from motorlite.errors import OperationFailure
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.testing.scripted import Close, ScriptedDeployment, failure, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    COMMANDS,
    DELAYS,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    OVERLOADED_ONLY,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    answering,
    driver,
    fails,
    find,
    gaps,
    insert,
    later,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation

pytestmark = pytest.mark.anyio

BUSY, FINAL, AGAIN, ORDINARY, WRONG = OVERLOADED, OVERLOADED_ONLY, RETRYABLE_ONLY, HOST_UNREACHABLE, BAD_VALUE
# What the command's own successful answer takes the place of.
GOOD: Final = "success"
EVERY: Final = tuple(name for name, _, _ in COMMANDS)
# Those that the retryable reads and writes specifications are about; and one that they are not about.
TWO: Final = ("find", "insert")
OTHER: Final = ("update",)


class Script(NamedTuple):
    """Answers, the last of which repeats, and the retries that follow: their delays, and the tokens left at each."""

    name: str
    answers: list[Any]
    delays: list[float]
    tokens: list[float]
    # After the operation.
    left: float
    refusal: str | None = None
    start: int = 10
    commands: tuple[str, ...] = EVERY
    timeout: float = inf
    jitter: float = 1.0
    # maxAdaptiveRetries.
    retries: int = 5


SCRIPTS: Final = [
    Script("rule 1: success brings a tenth", [GOOD], [], [], 10.1),
    Script("rule 1: another failure brings nothing", [WRONG], [], [], 10),
    Script("rule 2: success on a retry brings 1.1", [BUSY, GOOD], [0.1], [9], 10.1),
    Script("rule 2: once for many retries", [*[BUSY] * 5, GOOD], DELAYS, [9, 8, 7, 6, 5], 6.1),
    Script("rule 2: though it took nothing", [ORDINARY, GOOD], [0], [10], 11.1, commands=TWO),
    Script("rule 3: failure without overload brings one", [BUSY, WRONG], [0.1], [9], 10, "not retryable"),
    Script("rule 3: a state change", [BUSY, failure(91)], [0.1], [9], 10, "not retryable", commands=OTHER),
    Script("rule 3: a network error", [BUSY, Close()], [0.1], [9], 10, "not retryable", commands=OTHER),
    Script("rule 3: failure with overload brings nothing", [BUSY, FINAL], [0.1], [9], 9, "not retryable"),
    Script("rule 3: it pays for the next retry", [BUSY, AGAIN, GOOD], [0.1, 0], [0, 0], 1.1, start=1),
    Script("rule 3: also ordinary retries", [ORDINARY, WRONG], [0], [10], 11, "not retryable", commands=TWO),
    Script("rule 4: five retries", [BUSY], DELAYS, [9, 8, 7, 6, 5], 5, "attempts"),
    Script("rule 4: whatever the timeout", [BUSY], DELAYS, [9, 8, 7, 6, 5], 5, "attempts", timeout=3600),
    Script("rule 4: no RetryableError", [failure(6, "SystemOverloadedError")], [], [], 10, "not retryable"),
    Script("rule 4: the code alone", [failure(462)], [], [], 10),
    Script("rule 4: RetryableError alone", [AGAIN, AGAIN, GOOD], [0, 0], [9, 9], 10.1),
    Script("rule 4: two tokens", [BUSY], [0.1, 0.2], [1, 0], 0, "tokens", start=2),
    Script("rule 4: ordinary retries need none", [ORDINARY, GOOD], [0], [0], 1.1, start=0, commands=TWO),
    Script("rule 4: a delay that ends at the deadline", [BUSY], [], [], 10, "deadline", commands=OTHER, timeout=0.1),
    Script("rule 4: one that ends before it", [BUSY], [0.1], [9], 9, "deadline", commands=OTHER, timeout=0.102),
    Script("rule 4: time comes before tokens", [BUSY], [], [], 0, "deadline", start=0, timeout=0.05),
    Script("rule 5: overload second", [ORDINARY, BUSY, GOOD], [0, 0.2], [10, 9], 10.1, commands=TWO),
    Script("rule 5: a long base", [overloaded(baseBackoffMS=60_000), GOOD], [10], [9], 10.1, commands=OTHER),
    Script(
        "rule 5: jitter, and a base",
        [BUSY, overloaded(baseBackoffMS=50), GOOD],
        [0.025, 0.025],
        [9, 8],
        9.1,
        jitter=0.25,
    ),
    Script("none", [BUSY], [], [], 10, "attempts", retries=0),
    Script("one", [BUSY], [0.1], [9], 9, "attempts", retries=1),
]


@pytest.mark.parametrize(
    ("script", "name", "make", "success"),
    [
        pytest.param(script, *command, id=f"{script.name}-{command[0]}")
        for script in SCRIPTS
        for command in COMMANDS
        if command[0] in script.commands
    ],
)
async def test_what_answers_cost(
    script: Script, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
) -> None:
    deployment = answering(name, *[success if answer is GOOD else answer for answer in script.answers])
    async with driver(deployment, jitter=script.jitter, maxAdaptiveRetries=script.retries) as client:
        client.drain_to(script.start)
        if script.answers[-1] is GOOD:
            await client.run(make(), timeout=script.timeout)
        else:
            error = await fails(client, make(), timeout=script.timeout)
            assert (error.attempts, error.retry_refusal) == (len(script.delays) + 1, script.refusal)
        retries = [event for event in client.recorder.retries if event.permitted]
        assert gaps(deployment["a:1"].times(name)) == pytest.approx(script.delays, abs=1e-9)
        assert [event.delay for event in retries] == script.delays
        assert [event.attempt for event in retries] == list(range(1, len(retries) + 1))
        assert [event.tokens for event in retries] == script.tokens
        assert client.tokens == script.left
        # No rule about retries is about some errors, so there is nothing to refuse.
        assert len(client.recorder.retries) == len(retries) + (script.refusal is not None)
        assert client.core.stats().refusals == ({script.refusal: 1} if script.refusal else {})


# --- tokens ---


async def test_the_bucket_holds_a_thousand_tokens() -> None:
    async with driver(answering("find", FOUND, HOST_UNREACHABLE, FOUND)) as client:
        assert client.tokens == client.bucket.capacity == 1000
        for _ in range(2):
            await client.run(find())
            assert client.tokens == 1000


async def test_an_unacknowledged_write_succeeds_when_it_is_written() -> None:
    async with driver(replica_set()) as client:
        client.drain_to(10)
        assert await client.run(insert(write_concern=WriteConcern(w=0))) is None
        assert client.tokens == 10.1


async def test_less_than_a_token_is_no_token() -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    async with driver(deployment) as client:
        client.drain_to(0)
        for _ in range(9):
            await client.run(run_command())
        assert client.tokens == 0.9
        server.on("find", OVERLOADED)
        await fails(client, find())
        assert len(server.times("find")) == 1
        assert client.tokens == 0.9

        await client.run(run_command())
        server.on("find", OVERLOADED, FOUND)
        await client.run(find())
        assert client.tokens == 1.1


async def test_the_bucket_is_the_clients() -> None:
    async with (
        driver(answering("find", OVERLOADED)) as client,
        driver(answering("find", OVERLOADED, FOUND)) as neighbour,
    ):
        client.drain_to(0)
        await fails(client, find())
        await neighbour.run(find())
        assert neighbour.tokens == 1000


async def test_without_a_budget_retries_are_free() -> None:
    async with driver(answering("ping", OVERLOADED, OVERLOADED, failure(2)), retry_budget=False) as client:
        assert client.core.executor.bucket is None
        await fails(client, run_command())
        client.deployment["a:1"].on("ping", OVERLOADED, DONE)
        await client.run(run_command())
        assert {event.tokens for event in client.recorder.retries} == {inf}
        assert client.core.stats().tokens == inf


# --- delays ---


async def test_a_delay_that_does_not_fit_the_deadline_raises_at_once() -> None:
    deployment = answering("find", OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(10)
        before = client.now
        # 0.1 and 0.2 fit, 0.4 does not.
        error = await fails(client, find(), timeout=0.5)
        assert gaps(deployment["a:1"].times("find")) == [0.1, 0.2]
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)
        assert client.tokens == 8
        assert isinstance(error, OperationFailure)
        assert (error.attempts, error.retry_refusal, error.phase) == (3, "deadline", "backoff")


async def test_the_delay_counts_from_the_answer() -> None:
    deployment = answering("find", later(OVERLOADED, 0.05), later(OVERLOADED, 0.05), FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [0.15, 0.25]


async def test_other_operations_go_on_during_a_backoff() -> None:
    deployment = answering("find", OVERLOADED, FOUND)
    async with driver(deployment, maxPoolSize=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            # Neither the connection nor anything else is held meanwhile.
            await client.run(run_command())
            assert client.server().operation_count == 0
        assert deployment["a:1"].times("ping")[0] == pytest.approx(deployment["a:1"].times("find")[0] + 0.05)


async def test_what_the_error_and_the_events_say() -> None:
    async with driver(answering("find", HOST_UNREACHABLE, OVERLOADED)) as client:
        error = await fails(client, find())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.address, error.phase) == (462, A, None)
        assert error.retry_reasons == ("temporary failure", *["overload"] * 4)
        text = "server a:1; 6 attempts, retried for: temporary failure, overload; not retried again: attempts"
        assert text in str(error)
        events = client.recorder.retries
        assert [event.reason for event in events] == ["temporary failure", *["overload"] * 5]
        assert [event.rule for event in events] == ["specification", *["overload policy"] * 5]
        assert [event.permitted for event in events] == [True] * 5 + [False]


# --- rule 6 ---

PREFERRED: Final = ReadPreference.PRIMARY_PREFERRED


def read(preference: Any = PREFERRED) -> Operation[Any]:
    return find(selector=preference, read_preference=preference)


@pytest.mark.parametrize("count", [2, 3])
async def test_every_mongos_is_asked_before_one_is_asked_again(count: int) -> None:
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"][:count], mongos=True)
    for server in deployment.servers.values():
        server.on("find", OVERLOADED)
    async with driver(deployment) as client:
        await anyio.sleep(1)
        await fails(client, find())
        # Once all are on the list, all may be chosen again.
        assert len(client.recorder.retries) == 6
        assert len({event.address for event in client.recorder.retries[:count]}) == count
        assert all(event.deprioritized for event in client.recorder.retries[:-1])


@pytest.mark.parametrize(
    ("answer", "retargeting", "address"),
    [
        (OVERLOADED, True, B),
        (OVERLOADED, False, A),
        # Only after overload.
        (RETRYABLE_ONLY, True, A),
        (HOST_UNREACHABLE, True, A),
    ],
)
async def test_a_member_that_is_overloaded_is_avoided(answer: Any, retargeting: bool, address: Any) -> None:
    deployment = answering("find", answer, FOUND, servers=2)
    deployment["b:1"].on("find", FOUND)
    async with driver(deployment, enableOverloadRetargeting=retargeting) as client:
        reply = await client.run(read())
        assert reply.address == address
        assert [event.deprioritized for event in client.recorder.retries] == [address == B]
        # Only this operation avoids it.
        assert (await client.run(read())).address == A


async def test_the_only_suitable_server_is_asked_again() -> None:
    deployment = answering("insert", OVERLOADED, OVERLOADED, WRITTEN, servers=2)
    async with driver(deployment) as client:
        await client.run(insert())
        assert len(deployment["a:1"].times("insert")) == 3
        assert not deployment["b:1"].commands()


@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY, HOST_UNREACHABLE])
@pytest.mark.parametrize("retargeting", [True, False])
async def test_a_mongos_is_avoided_after_every_error(answer: dict[str, Any], retargeting: bool) -> None:
    # Retryable reads and writes specifications: sharded clusters do so whatever the option says.
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    deployment["a:1"].on("find", answer)
    async with driver(deployment, enableOverloadRetargeting=retargeting) as client:
        await anyio.sleep(1)
        reply = await client.run(read(ReadPreference.PRIMARY))
        assert reply.address == B
        assert len(deployment["a:1"].times("find")) == 1
        assert [event.deprioritized for event in client.recorder.retries] == [True]


# --- options ---


@pytest.mark.parametrize(
    ("options", "retried"),
    [
        ({}, {"find", "insert", "update", "getMore", "ping"}),
        ({"retryReads": False}, {"insert", "update"}),
        ({"retryWrites": False}, {"find", "getMore"}),
        ({"retryReads": False, "retryWrites": False}, set()),
    ],
)
@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY])
async def test_retry_options(options: dict[str, Any], retried: set[str], answer: dict[str, Any]) -> None:
    deployment = replica_set()
    async with driver(deployment, **options) as client:
        for name, make, success in COMMANDS:
            deployment["a:1"].on(name, answer, success)
            if name in retried:
                await client.run(make())
                continue
            error = await fails(client, make())
            assert (error.attempts, error.retry_refusal) == (1, "disabled")
        assert client.tokens == 1000


async def test_what_a_success_deposits_is_no_option() -> None:
    # Every field differs from its default; a new one must be added here, and may not change the amounts.
    policy = OverloadRetry(
        max_retries=3,
        is_budgeted=True,
        base_backoff=0.5,
        max_backoff=5,
        first_exponent=1,
        needs_both_labels=True,
        retargets=False,
        handshake="2",
    )
    usual = OverloadRetry()
    same = {field.name for field in fields(policy) if getattr(policy, field.name) == getattr(usual, field.name)}
    assert same == {"is_budgeted", "token_capacity"}, "without them there is no bucket, or another one"
    deployment = answering("find", FOUND, OVERLOADED, FOUND, OVERLOADED, BAD_VALUE)
    async with driver(deployment, overload_policy=policy, retry_budget=20) as client:
        client.drain_to(10)
        await client.run(find())
        assert client.tokens == 10.1
        await client.run(find())
        assert client.tokens == pytest.approx(10.1 - 1 + 1.1)
        await fails(client, find())
        assert client.tokens == pytest.approx(10.2 - 1 + 1)


LATER: Final = OverloadRetry.revision_2026_07()


@pytest.mark.parametrize(
    ("name", "make", "answer", "delays"),
    [
        ("find", read, OVERLOADED, [0.2, 0.4]),
        # Both labels are needed.
        ("ping", run_command, RETRYABLE_ONLY, []),
        ("update", update_many, OVERLOADED_ONLY, []),
        # SystemOverloadedError alone does not forbid an ordinary retry; it is delayed and capped.
        ("insert", insert, failure(6, "SystemOverloadedError", "RetryableWriteError"), [0.2, 0.4]),
    ],
)
async def test_preset_of_the_later_revision(name: str, make: Any, answer: Any, delays: list[float]) -> None:
    deployment = answering(name, answer, servers=2)
    async with driver(deployment, overload_policy=LATER) as client:
        error = await fails(client, make())
        assert gaps(deployment["a:1"].times(name)) == delays
        assert error.attempts == len(delays) + 1
        assert not deployment["b:1"].commands(name)
        assert client.core.executor.bucket is None


async def test_preset_of_the_later_revision_with_options_on_top() -> None:
    async with driver(
        answering("ping", OVERLOADED), overload_policy=LATER, maxAdaptiveRetries=1, retry_budget=True
    ) as client:
        client.drain_to(10)
        assert (await fails(client, run_command())).attempts == 2
        assert client.tokens == 9
