"""Shell: authenticates connections by the conversations of `auth`, and reauthenticates on request of a server."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._connection.auth import aws, mechanisms, oidc
from motorlite._connection.auth.aws import MONGODB_AWS
from motorlite._connection.auth.conversation import (
    Compute,
    NeedAwsCredentials,
    NeedDate,
    NeedSecurityContext,
    NeedToken,
    RunCommand,
    violation,
)
from motorlite._connection.auth.oidc_callbacks import Limits, TokenSource, environment_callback
from motorlite._connection.auth.scram import KeyCache
from motorlite._connection.auth.thread_work import ThreadWork
from motorlite._connection.handshake import server_api_fields
from motorlite._net import aws_sdk, kerberos
from motorlite._net.host import read_environment
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import ExecutionTimeout, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from motorlite._base.values import Address
    from motorlite._connection.auth.conversation import Conversation, Request
    from motorlite._connection.auth.mechanisms import Authentication
    from motorlite._connection.connection import Connection
    from motorlite._net.runtime import Connector, Host, Runtime
    from motorlite._options.credentials import Credentials
    from motorlite.server_api import ServerApi


class Authenticator:
    """Authenticates the connections of one client and holds their shared state: derived keys, tokens, credentials.

    `http` opens plain connections to the metadata services of clouds; `nonce` returns 32 fresh random bytes.
    """

    def __init__(
        self,
        credentials: Credentials,
        nonce: Callable[[], bytes],
        *,
        runtime: Runtime,
        host: Host,
        http: Connector,
        server_api: ServerApi | None,
        connect_timeout: float,
        max_iterations: int,
        date: Callable[[], str],
    ) -> None:
        self._credentials = credentials
        self._mechanism = credentials.mechanism or "SCRAM"
        self._nonce = nonce
        self._runtime = runtime
        self._host = host
        self._server_api = server_api
        # Timeout in seconds of a conversation's command that has no other limit; 0: no timeout.
        self._connect_timeout = connect_timeout
        self._date = date
        properties = credentials.mechanism_properties
        self.keys: KeyCache = KeyCache(max_iterations)
        self._threads = ThreadWork(runtime, host)
        self.tokens: oidc.TokenCache = oidc.TokenCache()
        self._token_source: TokenSource | None = None
        if credentials.mechanism == oidc.MONGODB_OIDC:
            is_human = "OIDC_HUMAN_CALLBACK" in properties
            callback = properties.get("OIDC_CALLBACK") or properties.get("OIDC_HUMAN_CALLBACK")
            self._token_source = TokenSource(
                runtime,
                host,
                self.tokens,
                callback or environment_callback(properties, runtime, http),
                credentials.username,
                is_human=is_human,
                is_built_in=callback is None,
            )
        self._aws: aws.AwsProvider | None = None
        if credentials.mechanism == MONGODB_AWS:
            self._aws = aws.AwsProvider(
                properties.get("AWS_CREDENTIAL_PROVIDER"),
                partial(read_environment, aws.VARIABLES),
                aws_sdk.find_credentials,
            )

    def begin(self, address: Address) -> Authentication:
        """Prepare to authenticate a connection to `address`.

        Raises:
            ConfigurationError: the mechanism is not supported, the token must not be sent to this address, or no
                ticket can be for it.
        """
        return mechanisms.start(self._credentials, address, self._nonce(), self.keys, self.tokens)

    async def authenticate(self, connection: Connection, authentication: Authentication, limits: Limits) -> None:
        """Run the rest of the conversation after the handshake.

        Raises:
            PyMongoError: the server or the client rejected the authentication.
        """
        conversation = authentication.conversation(connection.handshake)
        try:
            await self._perform(connection, conversation, limits)
        except OperationFailure as error:
            error._explain(authentication.description)
            raise
        connection.renew = partial(self.reauthenticate, authentication)

    async def reauthenticate(
        self, authentication: Authentication, connection: Connection, until: float, operation_until: float | None
    ) -> None:
        """Reauthenticate a connection within an operation, because the server requires it.

        Raises:
            PyMongoError: the server or the client rejected the authentication; the connection is closed.
        """
        limits = Limits(until, operation_until, is_operation=True)
        try:
            await self._perform(connection, authentication.again(self._nonce()), limits)
        except BaseException as error:
            # The authentication state is now unknown.
            connection.close()
            if isinstance(error, OperationFailure):
                error._explain(authentication.description)
            raise

    async def _perform(self, connection: Connection, conversation: Conversation, limits: Limits) -> None:
        answer: Any = None
        try:
            while True:
                request = self._next_request(conversation, answer)
                if request is None:
                    return
                answer = await self._answer(connection, request, limits)
        # "If AWS authentication fails for any reason, the cache MUST be cleared" (authentication specification).
        except BaseException:
            if self._aws is not None:
                self._aws.forget()
            raise
        finally:
            conversation.close()

    def _next_request(self, conversation: Conversation, answer: Any) -> Request | None:
        """Pass `answer` to the conversation and return its next request; None at its end."""
        try:
            return conversation.send(answer)
        except StopIteration:
            return None
        except PyMongoError:
            raise
        except Exception as error:
            problem = type(error).__name__
        # Neither the text nor the error is passed on: both may contain a secret.
        raise violation(self._mechanism, problem)

    async def _answer(self, connection: Connection, request: Request, limits: Limits) -> Any:
        if isinstance(request, RunCommand):
            document = {**request.document, **server_api_fields(self._server_api)}
            until = min(self._until(limits), self._runtime.now() + limits.each)
            return await connection.command(request.database, document, until)
        if isinstance(request, Compute):
            problem = "the key was not derived from the password"
            return await self._in_thread(request.key, request.function, limits, problem, request.keep)
        if isinstance(request, NeedDate):
            return self._date()
        if isinstance(request, NeedToken):
            assert self._token_source is not None
            return await self._token_source.get(request, limits)
        if isinstance(request, NeedSecurityContext):
            open_context = partial(kerberos.open_context, *request.service, request.username, request.password)
            # Each connection needs a context of its own.
            return await self._in_thread(object(), open_context, limits, "Kerberos gave no ticket for the service")
        assert isinstance(request, NeedAwsCredentials)
        assert self._aws is not None
        return await self._in_thread(MONGODB_AWS, self._aws.look_up, limits, "no credentials were found")

    def _until(self, limits: Limits) -> float:
        if limits.until == inf and self._connect_timeout:
            return self._runtime.now() + self._connect_timeout
        return limits.until

    async def _in_thread(
        self,
        key: Hashable,
        function: Callable[[], object],
        limits: Limits,
        problem: str,
        keep: Callable[[Any], None] | None = None,
    ) -> object:
        """Run `function` in a thread and wait for its result within `limits`."""
        try:
            return await self._threads.result(key, function, self._until(limits), keep)
        except WaitTimeout:
            raise ExecutionTimeout(f"{self._mechanism}: {problem} in time") from None
