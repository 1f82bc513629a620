"""The prose tests of the OpenTelemetry specification, and what it says about options and environment variables."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from motorlite import AsyncMongoClient
from motorlite._options.row import ENABLED_VARIABLE, LENGTH_VARIABLE
from motorlite.errors import ConfigurationError
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client

pytestmark = pytest.mark.anyio


async def spans(**options: Any) -> tuple[ReadableSpan, ...]:
    """The spans of a `find` by a new client."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    given = {"tracer_provider": provider, **options}
    async with scripted_client(ScriptedDeployment(["a:1"]), tracing=given) as client:
        await client.db.coll.find().to_list()
        return exporter.get_finished_spans()


def texts(found: tuple[ReadableSpan, ...]) -> list[Any]:
    return [(span.attributes or {}).get("db.query.text") for span in found if span.name == "find"]


async def test_1_tracing_by_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Tracing Enable/Disable via Environment Variable."""
    monkeypatch.setenv(ENABLED_VARIABLE, "false")
    assert not await spans()
    monkeypatch.setenv(ENABLED_VARIABLE, "true")
    assert await spans()


async def test_2_query_text_by_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """2. Command Payload Emission via Environment Variable."""
    monkeypatch.setenv(ENABLED_VARIABLE, "true")
    monkeypatch.setenv(LENGTH_VARIABLE, "1024")
    assert texts(await spans()) == ['{"find": "coll", "filter": {}}']
    monkeypatch.delenv(LENGTH_VARIABLE)
    assert texts(await spans()) == [None]


@pytest.mark.parametrize("value", ["1", "true", "yes", " TRUE ", "", "0", "false", "no", "on", "2"])
async def test_words_that_turn_it_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENABLED_VARIABLE, value)
    assert bool(await spans()) is (value in ("1", "true", "yes", " TRUE "))


async def test_the_option_of_the_client_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENABLED_VARIABLE, "true")
    monkeypatch.setenv(LENGTH_VARIABLE, "1024")
    assert not await spans(enabled=False)
    assert texts(await spans(query_text_max_length=0)) == [None]
    assert texts(await spans(query_text_max_length=4)) == ['{"fi...']
    monkeypatch.setenv(ENABLED_VARIABLE, "false")
    assert await spans(enabled=True)


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "², "])
async def test_a_wrong_length_is_ignored(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LENGTH_VARIABLE, value)
    assert texts(await spans(enabled=True)) == [None]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"motorlite\[opentelemetry\]"):
        AsyncMongoClient(tracing={"enabled": True})
    AsyncMongoClient(tracing={"enabled": False})
    monkeypatch.setenv(ENABLED_VARIABLE, "true")
    with pytest.warns(UserWarning, match=r"motorlite\[opentelemetry\]"):
        AsyncMongoClient()


@pytest.mark.parametrize(
    ("value", "error", "problem"),
    [
        (True, TypeError, "tracing must be a mapping"),
        ("enabled", TypeError, "tracing must be a mapping"),
        ({"on": True}, ValueError, "tracing has the unknown key 'on'; known are enabled, query_text_max_length"),
        ({"enabled": 1}, ValueError, "True or False for 'enabled', not 1"),
        ({"phases": "yes"}, ValueError, "True or False for 'phases', not 'yes'"),
        ({"query_text_max_length": -1}, ValueError, "not -1"),
        ({"query_text_max_length": True}, ValueError, "not True"),
        ({"query_text_max_length": float("nan")}, ValueError, "not nan"),
        ({"tracer_provider": object()}, ValueError, "a TracerProvider for 'tracer_provider'"),
    ],
)
def test_wrong_options(value: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem) as caught:
        AsyncMongoClient(tracing=value)
    assert isinstance(caught.value, ConfigurationError)


def test_a_connection_string_cannot_enable_it() -> None:
    with pytest.warns(UserWarning, match="tracing"):
        AsyncMongoClient("mongodb://localhost/?tracing=true")
