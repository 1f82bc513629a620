"""Shell: calls a client's OIDC callback, once for all requesters of a token; the built-in callbacks."""

from __future__ import annotations

import inspect
import json
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from motorlite._connection.auth.conversation import violation
from motorlite._connection.auth.oidc import (
    CALL_INTERVAL,
    CALLBACK_VERSION,
    HUMAN_TIMEOUT,
    MACHINE_TIMEOUT,
    MONGODB_OIDC,
    check_result,
)
from motorlite._connection.requests import ask
from motorlite._net.host import read_environment, read_text
from motorlite._net.runtime import WaitTimeout
from motorlite._wire import http
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import ConfigurationError, ExecutionTimeout, InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite._base.values import Address
    from motorlite._connection.auth.conversation import NeedToken
    from motorlite._connection.auth.oidc import TokenCache
    from motorlite._net.runtime import BackgroundTask, Connector, Host, Runtime, Waiter


# Calls a client's OIDC callback for all requesters of a token: one call at a time, with a pause in between.
#
# A call runs in the background, and all requesters wait for the same call. So an operation that times out or is
# cancelled does not close the login page of a user who is typing a password.


@dataclass(slots=True, eq=False)
class Limits:
    """How long the authentication of one connection may take; loop times."""

    # Limit for the messages. Postponed by the duration of a callback that is not subject to it.
    until: float
    # When the operation's timeoutMS expires; None: not set.
    operation_until: float | None = None
    _: KW_ONLY
    # The authentication is part of the operation (a reauthentication), not of a background task.
    is_operation: bool = False
    # Seconds for each command, if no operation waits for the connection.
    each: float = inf


@dataclass(slots=True, eq=False)
class _Call:
    """One call of the callback."""

    # Waiters wait until this loop time at most.
    until: float
    # The next call waits here if this one is cancelled.
    ended: Waiter
    waiters: list[Waiter] = field(default_factory=list)
    task: BackgroundTask = field(init=False)


class _Own(NamedTuple):
    """An error of the driver, not of the application."""

    error: PyMongoError


_Outcome: TypeAlias = OIDCCallbackResult | BaseException | _Own


class _Raised(NamedTuple):
    """What a callback raised that would end the client's background work."""

    error: BaseException


def _called(fetch: Callable[[OIDCCallbackContext], object], context: OIDCCallbackContext) -> object:
    """Call a synchronous callback. Return what it raises, unless that ends the program.

    Raised in the task that waits, the application's GeneratorExit or CancelledError would end the client's work.
    """
    try:
        return fetch(context)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return _Raised(error)


async def _awaited(result: Awaitable[object]) -> object:
    """Wait for what a callback promised. Return what it raises, unless that ends the program or this task."""
    import anyio

    try:
        return await result
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit, anyio.get_cancelled_exc_class()):
        raise
    except BaseException as error:
        return _Raised(error)


class TokenSource:
    """The callback of one client."""

    def __init__(
        self,
        runtime: Runtime,
        host: Host,
        cache: TokenCache,
        callback: OIDCCallback,
        username: str | None,
        *,
        is_human: bool,
        is_built_in: bool = False,
    ) -> None:
        self._runtime = runtime
        self._host = host
        self._cache = cache
        self._callback = callback
        self._username = username or ""
        self._timeout = HUMAN_TIMEOUT if is_human else MACHINE_TIMEOUT
        self._is_human = is_human
        # The callback is the driver's own, so its errors contain no secrets of the application.
        self._is_built_in = is_built_in
        # The call in progress.
        self._call: _Call | None = None
        # The most recently cancelled call; the next call starts when this one has ended.
        self._cancelled: _Call | None = None

    async def get(self, request: NeedToken, limits: Limits) -> tuple[str, bool]:
        """Return an access token, and whether it was cached or requested by another caller.

        Raises:
            OperationFailure: the callback failed, or did not return a token.
            ConfigurationError: the driver's own callback lacks a setting.
            ExecutionTimeout: the callback took too long.
            InvalidOperation: the client is closed.
        """
        cache, now = self._cache, self._runtime.now()
        if cache.access_token is not None:
            return cache.access_token, True
        call, is_cached = self._call, True
        if call is None or now >= call.until:
            if self._host.is_closed:
                raise InvalidOperation("the client is closed")
            call, is_cached = self._begin(request, limits), False
        result = await self._wait(call, limits)
        if not self._is_limited(limits):
            # The callback's duration does not count against the limit.
            limits.until += self._runtime.now() - now
        if isinstance(result, _Own):
            # Each waiter gets a new exception. The reason is the driver's own, so it contains no secret.
            raise type(result.error)(str(result.error)) from result.error
        if isinstance(result, BaseException):
            raise violation(MONGODB_OIDC, f"the callback raised {type(result).__name__}") from result
        return result.access_token, is_cached

    def _is_limited(self, limits: Limits) -> bool:
        """Whether `limits.until` bounds the wait; timeoutMS applies to the operation but not to a human callback."""
        return limits.operation_until is not None and (limits.is_operation or not self._is_human)

    async def _wait(self, call: _Call, limits: Limits) -> _Outcome:
        until = call.until
        if self._is_limited(limits):
            until = min(until, limits.until)
        waiter = self._runtime.waiter()
        call.waiters.append(waiter)
        try:
            outcome: _Outcome = await waiter.wait(until)
        except WaitTimeout:
            if until == call.until and call is self._call:
                self._end(call)
            raise ExecutionTimeout(f"{MONGODB_OIDC}: the callback returned no token in time") from None
        return outcome

    def _begin(self, request: NeedToken, limits: Limits) -> _Call:
        if self._call is not None:
            self._end(self._call)
        now, last = self._runtime.now(), self._cache.last_call
        starts = now if last is None else max(now, last + CALL_INTERVAL)
        call = self._call = _Call(starts + self._timeout, self._runtime.waiter())
        self._cache.last_call = starts
        context = OIDCCallbackContext(
            self._seconds(starts, limits), self._username, CALLBACK_VERSION, request.refresh_token, request.idp_info
        )
        call.task = self._host.spawn(self._run, call, context, starts, name="OIDC callback")
        return call

    def _seconds(self, starts: float, limits: Limits) -> float:
        """Return the callback's timeout.

        With timeoutMS set, it is min(remaining connectTimeoutMS, remaining timeoutMS) for machine callbacks.
        """
        if self._is_human or limits.operation_until is None:
            return self._timeout
        remaining = min(limits.until, limits.operation_until) - starts
        return self._timeout if remaining == inf else max(remaining, 0.0)

    def _end(self, call: _Call) -> None:
        self._call, self._cancelled = None, call
        call.task.cancel()

    async def _run(self, call: _Call, context: OIDCCallbackContext, starts: float) -> None:
        outcome: _Outcome
        previous, self._cancelled = self._cancelled, None
        try:
            if previous is not None:
                await previous.ended.wait(call.until)
            if starts > self._runtime.now():
                await self._runtime.sleep(starts - self._runtime.now())
            outcome = await self._result(context)
            if call is self._call and isinstance(outcome, OIDCCallbackResult):
                # A call that was cancelled but returned regardless is not stored.
                self._cache.store(outcome, context.idp_info)
        except Exception as error:
            # Every exception of the application is passed to the waiters.
            outcome = _Own(error) if self._is_built_in and isinstance(error, PyMongoError) else error
        except BaseException as error:
            # A cancellation, either ours or raised by the callback itself.
            closed = violation(MONGODB_OIDC, "the client was closed before the callback returned")
            outcome = _Own(closed) if self._host.is_closed else error
            raise
        finally:
            if call is self._call:
                self._call = None
            for waiter in (*call.waiters, call.ended):
                waiter.offer(outcome)
            del outcome  # the callback's exception references this frame in its traceback

    async def _result(self, context: OIDCCallbackContext) -> _Outcome:
        result = await self._fetch(context)
        if isinstance(result, _Raised):
            return result.error
        try:
            return check_result(result)
        except PyMongoError as error:
            return _Own(error)

    async def _fetch(self, context: OIDCCallbackContext) -> object:
        fetch: Any = self._callback.fetch
        if inspect.iscoroutinefunction(fetch):
            return await _awaited(fetch(context))
        # A synchronous callback may block.
        result = await self._runtime.run_in_thread(partial(_called, fetch, context))
        return await _awaited(result) if inspect.isawaitable(result) else result


# The driver's built-in OIDC callbacks (mechanism property ENVIRONMENT).

AZURE: Final[Address] = ("169.254.169.254", 80)
GCP: Final[Address] = ("metadata", 80)
KUBERNETES_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
# Maximum number of characters of an error response that our error repeats.
_MAX_SHOWN: Final = 500
# Environment variables that clouds set to the path of another file, in order of precedence.
_KUBERNETES_VARIABLES: Final = ("AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")


def environment_callback(properties: Mapping[str, Any], runtime: Runtime, connect: Connector) -> OIDCCallback:
    """Return the callback for the environment that `properties` name."""
    name = properties["ENVIRONMENT"]
    if name == "azure":
        return AzureCallback(properties["TOKEN_RESOURCE"], runtime, connect)
    if name == "gcp":
        return GCPCallback(properties["TOKEN_RESOURCE"], runtime, connect)
    return FileCallback(name, runtime)


class FileCallback(OIDCCallback):
    """Reads the token from a file: ``test`` and ``k8s``."""

    def __init__(self, environment: str, runtime: Runtime) -> None:
        self._environment = environment
        self._runtime = runtime

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        path = self._path()
        try:
            token = await self._runtime.run_in_thread(partial(read_text, path))
        except (OSError, UnicodeError) as error:
            raise violation(MONGODB_OIDC, f"the token file {path!r} cannot be read: {error}") from error
        return OIDCCallbackResult(token.strip())

    def _path(self) -> str:
        if self._environment == "test":
            path = read_environment(["OIDC_TOKEN_FILE"]).get("OIDC_TOKEN_FILE")
            if not path:
                raise ConfigurationError("MONGODB-OIDC with ENVIRONMENT test needs OIDC_TOKEN_FILE in the environment")
            return path
        return next(iter(read_environment(_KUBERNETES_VARIABLES).values()), KUBERNETES_FILE)


class _MetadataCallback(OIDCCallback):
    """Requests the token from the metadata service of a cloud."""

    def __init__(self, resource: str, runtime: Runtime, connect: Connector) -> None:
        self._resource = quote(resource, safe="")
        self._runtime = runtime
        self._connect = connect

    async def _get(self, address: Address, target: str, headers: Mapping[str, str], seconds: float) -> str:
        """Return the body of a successful response."""
        what = f"the metadata service at {address[0]}"
        reader = http.ResponseReader()
        until = self._runtime.now() + seconds
        try:
            await ask(self._connect, address, reader, http.get(address[0], target, headers), until)
            response = reader.response()
        except PyMongoError as error:
            # Raised as a different error, because the MongoDB server did not cause it.
            raise violation(MONGODB_OIDC, f"{what} did not answer: {error}") from error
        if response.status != 200:
            # Shown as a literal: a terminal would execute control characters, and line breaks could forge log entries.
            raise violation(
                MONGODB_OIDC, f"{what} answered with status {response.status}: {response.body[:_MAX_SHOWN]!r}"
            )
        return response.body


class AzureCallback(_MetadataCallback):
    """The managed identity of a virtual machine."""

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        target = f"/metadata/identity/oauth2/token?api-version=2018-02-01&resource={self._resource}"
        if context.username:
            target += f"&client_id={quote(context.username, safe='')}"
        headers = {"Accept": "application/json", "Metadata": "true"}
        body = await self._get(AZURE, target, headers, context.timeout_seconds)
        try:
            document = json.loads(body)
            token, expires_in = document["access_token"], document.get("expires_in")
            return OIDCCallbackResult(token, None if expires_in is None else float(expires_in))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            # The body is not shown, because it may contain a token.
            problem = "the response of the metadata service of Azure contains no access_token"
            raise violation(MONGODB_OIDC, problem) from None


class GCPCallback(_MetadataCallback):
    """The identity of a virtual machine's service account."""

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        target = f"/computeMetadata/v1/instance/service-accounts/default/identity?audience={self._resource}"
        body = await self._get(GCP, target, {"Metadata-Flavor": "Google"}, context.timeout_seconds)
        return OIDCCallbackResult(body.strip())
