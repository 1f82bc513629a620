"""Credentials on demand, from scripted metadata services."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._client.outside_requests import OutsideRequests
from motorlite._connection.auth.aws import AwsCredentials
from motorlite._encryption.credentials import CredentialSource
from motorlite._encryption.services import ClientServices
from motorlite._net import aws_sdk
from motorlite._net.current import current_runtime
from motorlite.errors import AutoReconnect, ConfigurationError, ExecutionTimeout, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer

pytestmark = pytest.mark.anyio

# What the encryption library raises. It has no types.
refusal: Any = import_module("pymongocrypt.errors").MongoCryptError


class Service:
    """A metadata service and the machinery of a client that asks it."""

    def __init__(self, body: object, status: int = 200) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.answer = f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        self.requests: list[tuple[Address, str]] = []
        self.runtime = self
        self.now = current_runtime().now
        self.waiter = current_runtime().waiter
        self.outside_requests = OutsideRequests()
        self.outside_request = self.outside_requests.in_flight
        # Until `background`.
        self.host: Any = None
        # The threads in use, each for so many seconds, and their maximum.
        self.seconds = 0.0
        self.threads = self.most_threads = 0

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        self.host = current_runtime().host("test", lambda: None)
        try:
            yield
        finally:
            await self.host.close()

    def enter(self) -> None:
        pass

    async def run_in_thread(self, function: Callable[[], Any], until: float) -> Any:
        self.threads += 1
        self.most_threads = max(self.threads, self.most_threads)
        try:
            await anyio.sleep(self.seconds)
            return function()
        finally:
            self.threads -= 1

    def connector(self, tls: None) -> Any:
        return self._connect

    async def _connect(self, address: Address, framer: Framer, until: float) -> Any:
        return Stream(partial(self._exchange, address, framer))

    def _exchange(self, address: Address, framer: Any, request: bytes) -> Any:
        self.requests.append((address, request.decode()))
        return framer.feed(self.answer)[0]

    async def find(
        self, *providers: str, source: CredentialSource | None = None, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, Any]:
        core: Any = self
        given: dict[str, Any] = {name: {} for name in providers}
        return await (source or CredentialSource()).find(given, core, deadline)


class Stream:
    """One connection to it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def exchange(self, request: bytes, until: float) -> bytes:
        answer: bytes = self._answer(request)
        return answer

    def abort(self) -> None:
        pass


async def test_azure_and_its_cache() -> None:
    service, source = Service({"access_token": "t", "expires_in": "3600"}), CredentialSource()
    for _ in range(2):
        assert await service.find("azure", source=source) == {"azure": {"accessToken": "t"}}
    ((address, request),) = service.requests
    assert address == ("169.254.169.254", 80)
    assert "resource=https%3A%2F%2Fvault.azure.net" in request
    assert "Metadata: true" in request
    assert "t" not in repr(source).split()


async def test_azures_token_is_renewed_before_its_end() -> None:
    service, source = Service({"access_token": "t", "expires_in": "30"}), CredentialSource()
    await service.find("azure", source=source)
    await service.find("azure", source=source)
    assert len(service.requests) == 2


async def test_azures_token_is_not_measured_with_the_clock_of_another_event_loop() -> None:
    """A forked child keeps the token. The clock of trio begins at a random time."""
    parent = Service({"access_token": "t", "expires_in": "3600"})
    child = Service({"access_token": "of the child", "expires_in": "3600"})
    source = CredentialSource()
    await parent.find("azure", source=source)
    child.now = lambda: parent.now() - 1_000_000
    assert await child.find("azure", source=source) == {"azure": {"accessToken": "of the child"}}


async def test_gcp(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service({"access_token": "t"})
    assert await service.find("gcp") == {"gcp": {"accessToken": "t"}}
    monkeypatch.setenv("GCE_METADATA_HOST", "there:8080")
    await service.find("gcp")
    assert [address for address, _ in service.requests] == [("metadata", 80), ("there", 8080)]
    assert "Metadata-Flavor: Google" in service.requests[0][1]


async def test_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "i")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    expected = {"accessKeyId": "i", "secretAccessKey": "s", "sessionToken": "t"}
    service = Service({})
    async with service.background():
        assert await service.find("aws", "aws:named") == {"aws": expected}


def found_by_sdk(monkeypatch: pytest.MonkeyPatch, *access_keys: str) -> None:
    """Let the SDK find these, one after the other. What it has found stays as it is."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    left = [SimpleNamespace(get_frozen_credentials=partial(AwsCredentials, key, "s")) for key in access_keys]
    monkeypatch.setattr(aws_sdk, "find_credentials", lambda: left.pop(0))


async def test_a_slow_search_takes_one_thread_however_many_calls_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found_by_sdk(monkeypatch, "i")
    service, source = Service({}), CredentialSource()
    service.seconds = 10
    async with service.background():
        for _ in range(20):
            with pytest.raises(ExecutionTimeout):
                await service.find("aws", source=source, deadline=Deadline(service.now() + 0.1, inf, 0.1))
        assert service.most_threads == 1
        # Its result is not lost.
        found = await service.find("aws", source=source)
        assert found == {"aws": {"accessKeyId": "i", "secretAccessKey": "s"}}


@pytest.mark.parametrize(("error", "kept"), [(refusal("HTTP status=400"), False), (AutoReconnect("no"), True)])
async def test_credentials_that_a_service_refuses_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, error: Exception, *, kept: bool
) -> None:
    """A program may replace them, while the SDK's object stays as it is. Other errors say nothing about them."""
    found_by_sdk(monkeypatch, "old", "new")

    async def ask(*arguments: Any) -> None:
        raise error

    service: Any = Service({"access_token": "t", "expires_in": "3600"})
    kms: Any = SimpleNamespace(ask=ask)
    services = ClientServices(service, service, kms)
    async with service.background():
        for number in range(2):
            found = await services.credentials({"aws": {}, "azure": {}}, NO_DEADLINE)
            assert found["aws"]["accessKeyId"] == ("new" if number and not kept else "old")
            with pytest.raises(type(error)):
                await services.ask_kms(None, NO_DEADLINE)
        assert len(service.requests) == (1 if kept else 2)


async def test_own_credentials_are_kept() -> None:
    core: Any = Service({})
    given = {"gcp": {"email": "e"}, "local": {"key": b""}}
    assert await CredentialSource().find(given, core, Deadline(inf)) == {}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"access_token": "planted"}, 404, "status 404"),
        ("planted", 200, "not a JSON document"),
        ({"token": "planted"}, 200, "no access_token"),
        ({"access_token": "planted", "expires_in": "soon"}, 200, "how long"),
    ],
)
async def test_wrong_answers(body: object, status: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        await Service(body, status).find("azure")
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(("provider", "name"), [("azure", "the metadata service of Azure"), ("aws", "AWS")])
async def test_a_search_ends_with_the_client(monkeypatch: pytest.MonkeyPatch, provider: str, name: str) -> None:
    found_by_sdk(monkeypatch, "i")
    service: Any = Service({})
    service.seconds = 10

    async def silence(*_: object) -> None:
        await anyio.sleep(10)

    service._connect = silence
    async with service.background(), anyio.create_task_group() as group:

        async def end() -> None:
            await anyio.lowlevel.checkpoint()
            assert service.outside_requests.is_busy
            service.outside_requests.end()

        group.start_soon(end)
        with pytest.raises(InvalidOperation, match=f"closed before {name} answered"):
            await service.find(provider)
        assert not service.outside_requests.is_busy
        with pytest.raises(InvalidOperation, match="the client is closed"):
            await service.find(provider)
