"""The server's side of MONGODB-OIDC, and a client's machinery that authenticates on a scripted server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import bson

from motorlite._connection.auth.conversation import (
    Compute,
    NeedAwsCredentials,
    NeedDate,
    NeedSecurityContext,
    NeedToken,
)
from motorlite._net.current import current_runtime
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure
from tests.support.core import driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite._connection.auth.conversation import Conversation
    from motorlite._net.runtime import Runtime
    from tests.support.core import Driver

REFUSED = failure(18, message="Authentication failed.")
REAUTHENTICATE = failure(391, message="reauthentication is required")
DONE = {"conversationId": 1, "done": True, "payload": b"", "ok": 1}
IDP = {"issuer": "https://issuer", "clientId": "abcd", "requestScopes": ["a", "b"]}


class OIDCServer:
    """Accepts the tokens in `valid`; with `speculates`, it answers speculative authentication in the handshake."""

    def __init__(self, *valid: str, idp: dict[str, Any] | None = None) -> None:
        self.valid = set(valid)
        self.idp: dict[str, Any] = IDP if idp is None else idp
        # All received tokens and names, in order.
        self.shown: list[str] = []
        self.names: list[str | None] = []
        self.speculative: list[str] = []

    def attach(self, deployment: ScriptedDeployment, *, speculates: bool = True) -> None:
        for server in deployment.servers.values():
            server.on("saslStart", self.answer)
            server.on("saslContinue", self.answer)
            if speculates:
                server.on("isMaster", partial(self._hello, deployment, server))

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if "saslStart" in command:
            assert command["mechanism"] == "MONGODB-OIDC"
        else:
            assert command["conversationId"] == 1
        assert command.get("$db", "$external") == "$external"
        payload = bson.decode(command["payload"])
        if "jwt" not in payload:
            self.names.append(payload.get("n"))
            return {"conversationId": 1, "done": False, "payload": bson.encode(self.idp), "ok": 1}
        self.shown.append(payload["jwt"])
        return DONE if payload["jwt"] in self.valid else REFUSED

    def _hello(self, deployment: ScriptedDeployment, server: Any, command: dict[str, Any]) -> Reply:
        reply = deployment._hello_reply(server)
        speculative = command.get("speculativeAuthenticate")
        if speculative is not None:
            assert speculative["db"] == "$external"
            token = bson.decode(speculative["payload"])["jwt"]
            self.speculative.append(token)
            if token in self.valid:
                reply["speculativeAuthenticate"] = {name: DONE[name] for name in ("conversationId", "done", "payload")}
        return Reply(reply)


class Callback(OIDCCallback):
    """Returns the results one by one, repeating the last; raises those that are exceptions."""

    def __init__(self, *results: Any, seconds: float = 0.0) -> None:
        self.results = list(results)
        self.seconds = seconds
        self.contexts: list[OIDCCallbackContext] = []
        self.times: list[float] = []
        # The number of concurrent calls now, and its maximum.
        self.running = 0
        self.most_running = 0

    async def fetch(self, context: OIDCCallbackContext) -> Any:
        runtime = current_runtime()
        self.contexts.append(context)
        self.times.append(runtime.now())
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await runtime.sleep(self.seconds)
        finally:
            self.running -= 1
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return OIDCCallbackResult(result) if isinstance(result, str) else result


class BlockingCallback(OIDCCallback):
    """A synchronous callback, as in applications written for PyMongo."""

    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        return OIDCCallbackResult("token")


def play(
    conversation: Conversation,
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    token: Callable[[NeedToken], tuple[str, bool]] | None = None,
    aws: Any = None,
    date: str = "20191107T002607Z",
) -> None:
    """Run a conversation to its end in place of the shell."""
    value: object = None
    while True:
        try:
            request = conversation.send(value)
        except StopIteration:
            return
        assert not isinstance(request, Compute | NeedSecurityContext)
        if isinstance(request, NeedToken):
            assert token is not None
            value = token(request)
        elif isinstance(request, NeedAwsCredentials):
            value = aws
        elif isinstance(request, NeedDate):
            value = date
        else:
            assert request.database == "$external"
            value = answer(request.document)


def threadless() -> Runtime:
    """The running loop, with thread work executed inline: in virtual time, waiting for a thread would never end."""
    runtime: Any = current_runtime()

    async def at_once(function: Callable[[], Any], until: float = inf) -> Any:
        return function()

    runtime.run_in_thread = at_once
    return runtime  # type: ignore[no-any-return]  # with one method replaced


def oidc_options(callback: OIDCCallback | None = None, *, human: bool = False, **properties: Any) -> dict[str, Any]:
    """The options of a client that authenticates with MONGODB-OIDC."""
    if callback is not None:
        properties["OIDC_HUMAN_CALLBACK" if human else "OIDC_CALLBACK"] = callback
    if human:
        properties.setdefault("ALLOWED_HOSTS", ["a", "b"])
    return {"authMechanism": "MONGODB-OIDC", "authMechanismProperties": properties, "tls": True}


@asynccontextmanager
async def authenticating_driver(
    deployment: ScriptedDeployment, *, world: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Driver]:
    """A client that has not connected yet, with retries off unless enabled in `options`."""
    settings = {"retryReads": False, "retryWrites": False, **options}
    parts = {"runtime": threadless, **(world or {})}
    async with driver(deployment, connect=False, world=parts, **settings) as client:
        yield client
