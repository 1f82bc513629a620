"""Traces of operations whose attempts wait, fail and are retried."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from motorlite import CursorType, InsertOne, ReadPreference, UpdateOne, call_options
from motorlite.errors import OperationFailure, PoolFullError, ServerSelectionTimeoutError
from motorlite.overload import WaitQueue
from motorlite.testing.scripted import Reply, failure, overloaded
from tests.support.clients import one_member

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from opentelemetry.sdk.trace import ReadableSpan

    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FOUND: dict[str, Any] = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


class Trace:
    """The spans that ended."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def tree(self) -> list[str]:
        """The names of all spans, indented; failed ones with an exclamation mark. They are then forgotten."""
        spans = self.spans
        self.exporter.clear()

        def below(parent: int | None, depth: int) -> list[str]:
            lines = []
            for span in spans:
                if (span.parent.span_id if span.parent else None) == parent:
                    assert span.context is not None
                    mark = "!" if span.status.status_code is StatusCode.ERROR else ""
                    lines += [" " * depth + span.name + mark, *below(span.context.span_id, depth + 1)]
            return lines

        lines = below(None, 0)
        assert len(lines) == len(spans)
        return lines


@asynccontextmanager
async def traced(
    answers: dict[str, Any] | None = None,
    *,
    phases: bool = True,
    with_transaction: bool = False,
    is_down: bool = False,
    **options: Any,
) -> AsyncIterator[tuple[Client, Trace]]:
    trace = Trace()
    provider = trace.provider
    tracing = {"enabled": True, "phases": phases, "with_transaction": with_transaction, "tracer_provider": provider}
    async with one_member(answers, tracing=tracing, **options) as (client, server):
        server.is_down = is_down
        yield client, trace


async def test_every_attempt_has_its_phases() -> None:
    async with traced({"find": [overloaded(), FOUND]}) as (client, trace):
        await client.db.coll.find_one()
        reasons = [dict(span.attributes or {}) for span in trace.spans if span.name == "backoff"]
        assert reasons == [{"motorlite.retry.reason": "overload", "motorlite.retry.delay": 0.1}]
        assert trace.tree() == [
            "find db.coll",
            " attempt!",
            "  server selection",
            "  check-out",
            "  find!",
            " backoff",
            " attempt",
            "  server selection",
            "  check-out",
            "  find",
        ]


async def test_each_command_of_a_bulk_write_has_its_attempts() -> None:
    async with traced({"update": [overloaded(), {"n": 1, "nModified": 1}]}) as (client, trace):
        await client.db.coll.bulk_write([InsertOne({}), UpdateOne({}, {"$set": {"x": 1}})])
        numbers = [(span.attributes or {})["motorlite.attempt"] for span in trace.spans if span.name == "attempt"]
        assert numbers == [1, 1, 2]
        phases = ["  server selection", "  check-out"]
        assert trace.tree() == [
            "bulkWrite db.coll",
            *[" attempt", *phases, "  insert"],
            *[" attempt!", *phases, "  update!"],
            " backoff",
            *[" attempt", *phases, "  update"],
        ]


async def test_every_backoff_of_a_cursor_with_its_own_connection_ends() -> None:
    batch = {"cursor": {"id": 5, "ns": "db.coll", "firstBatch": [{}]}}
    end = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": []}}
    async with traced({"find": [batch], "getMore": [overloaded(), overloaded(), end]}) as (client, trace):
        await client.db.coll.find(cursor_type=CursorType.EXHAUST).to_list()
        assert trace.tree()[-6:] == ["getMore db.coll", " getMore!", " backoff", " getMore!", " backoff", " getMore"]


async def test_a_check_out_ends_before_a_command_without_a_span() -> None:
    async with traced({"createUser": failure(51003)}) as (client, trace):
        with pytest.raises(OperationFailure):
            await client.db.command("createUser", "u", pwd="p", roles=[])
        assert trace.tree() == ["runCommand db!", " attempt!", "  server selection", "  check-out"]


async def test_without_phases_there_are_commands_only() -> None:
    async with traced({"find": [overloaded(), FOUND]}, phases=False) as (client, trace):
        await client.db.coll.find_one()
        assert trace.tree() == ["find db.coll", " find!", " find"]


async def test_an_operation_that_gives_up() -> None:
    async with traced({"find": [overloaded(), failure(2)]}) as (client, trace):
        with pytest.raises(OperationFailure):
            await client.db.coll.find_one()
        assert trace.spans[0].attributes is not None
        assert trace.spans[0].attributes["motorlite.retry.refusal"] == "not retryable"
        names = trace.tree()
    assert names[0] == "find db.coll!"
    assert names[6] == " attempt!"
    assert names[-1] == "  find!"


async def test_no_server() -> None:
    async with traced(is_down=True, serverSelectionTimeoutMS=500) as (client, trace):
        with pytest.raises(ServerSelectionTimeoutError):
            await client.db.coll.find_one()
        (selection,) = [span for span in trace.spans if span.name == "server selection"]
        assert [event.name for event in selection.events] == ["waiting for a suitable server"]
        assert trace.tree() == ["find db.coll!", " attempt!", "  server selection!"]


async def test_a_full_pool() -> None:
    async with traced({"find": [Reply(FOUND, 2)]}, maxPoolSize=1, waitQueueTimeoutMS=500) as (client, trace):
        await client.admin.command("ping")
        trace.tree()
        async with anyio.create_task_group() as group:
            group.start_soon(client.db.coll.find_one)
            await anyio.sleep(0.1)
            with pytest.raises(Exception, match="connection pool"):
                await client.db.other.find_one()
        assert trace.tree() == [
            "find db.coll",
            " attempt",
            "  server selection",
            "  check-out",
            "  find",
            "find db.other!",
            " attempt!",
            "  server selection",
            "  check-out!",
        ]


async def test_concurrent_operations_keep_to_their_parents() -> None:
    async with traced({"find": [Reply(FOUND, 0.5)]}, phases=False) as (client, trace):
        tracer = trace.provider.get_tracer("application")

        async def request(number: int) -> None:
            with tracer.start_as_current_span(f"request {number}"):
                await client.db[f"coll{number}"].find_one()

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(request, number)
        assert sorted(trace.tree()[::3]) == ["request 0", "request 1", "request 2"]
        assert trace.tree() == []


async def test_a_cancelled_operation_ends_its_spans() -> None:
    async with traced({"find": [Reply(FOUND, 5)]}) as (client, trace):
        with anyio.move_on_after(1):
            await client.db.coll.find_one()
        assert trace.tree() == ["find db.coll!", " attempt!", "  server selection", "  check-out", "  find!"]


async def test_background_work_is_in_no_trace_of_a_caller() -> None:
    async with traced(phases=False) as (client, trace):
        with trace.provider.get_tracer("application").start_as_current_span("request"):
            await client.db.coll.find_one()
        await anyio.sleep(30)
        assert trace.tree() == ["request", " find db.coll", "  find"]


@pytest.mark.parametrize("is_shown", [False, True])
async def test_a_call_of_with_transaction_has_a_span_if_it_is_asked_for(is_shown: bool) -> None:
    """The specification's text wants one, its test file does not: "convenient transactions"."""
    answers = {"insert": [failure(112, "TransientTransactionError"), {"n": 1}]}
    async with (
        traced(answers, phases=False, with_transaction=is_shown) as (client, trace),
        client.start_session() as session,
    ):
        with trace.provider.get_tracer("application").start_as_current_span("request"):
            await session.with_transaction(lambda session: client.db.coll.insert_one({}, session=session))
        tree = [
            "transaction",
            " insert db.coll!",
            "  insert!",
            " abortTransaction admin",
            "  abortTransaction",
            "transaction",
            " insert db.coll",
            "  insert",
            " commitTransaction admin",
            "  commitTransaction",
        ]
        if is_shown:
            tree = ["withTransaction", *(f" {line}" for line in tree)]
        assert trace.tree() == ["request", *(f" {line}" for line in tree)]


async def test_a_fallback_has_an_attempt_of_its_own() -> None:
    options: dict[str, Any] = {"maxPoolSize": 1, "wait_queue": WaitQueue("degrade")}
    async with traced({"count": Reply({"n": 1}, 5)}, **options) as (client, trace):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.db.command, "count")
            await anyio.sleep(1)
            with call_options(fallback=ReadPreference.PRIMARY_PREFERRED), pytest.raises(PoolFullError):
                await client.db.coll.find_one()
        phases = ["  server selection", "  check-out"]
        assert trace.tree()[-7:] == [
            "find db.coll!",
            " attempt",
            *phases,
            " attempt!",
            "  server selection",
            "  check-out!",
        ]
