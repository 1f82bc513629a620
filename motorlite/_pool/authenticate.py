"""Shell: authenticates connections: performs the conversations of `auth`, and repeats them when a server asks."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._net import aws_sdk
from motorlite._net.host_files import utc_date
from motorlite._net.platform_facts import read_environment
from motorlite._net.runtime import WaitTimeout
from motorlite._pool.auth import aws_provider, mechanisms, oidc
from motorlite._pool.auth.aws import MONGODB_AWS
from motorlite._pool.auth.conversation import Compute, NeedAwsCredentials, NeedDate, NeedToken, RunCommand, violation
from motorlite._pool.auth.oidc_environments import environment_callback
from motorlite._pool.auth.scram import KeyCache
from motorlite._pool.auth.thread_work import ThreadWork
from motorlite._pool.auth.token_source import Limits, TokenSource
from motorlite._pool.handshake import server_api_fields
from motorlite.errors import ExecutionTimeout, PyMongoError
from motorlite.options import DEFAULT_SCRAM_MAX_ITERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from motorlite._net.runtime import Connector, Host, Runtime
    from motorlite._pool.auth.conversation import Conversation, Request
    from motorlite._pool.auth.mechanisms import Authentication
    from motorlite._pool.connection import Connection
    from motorlite.credentials import Credentials
    from motorlite.server_api import ServerApi
    from motorlite.values import Address


class Authenticator:
    """Authenticates the connections of one client, and keeps what they share: derived keys, tokens, credentials.

    `http` opens plain connections to the metadata services of clouds; `nonce` makes 32 fresh random bytes.
    """

    def __init__(
        self,
        credentials: Credentials,
        nonce: Callable[[], bytes],
        *,
        runtime: Runtime,
        host: Host,
        http: Connector,
        server_api: ServerApi | None = None,
        connect_timeout: float = 0.0,
        max_iterations: int = DEFAULT_SCRAM_MAX_ITERATIONS,
        date: Callable[[], str] = utc_date,
    ) -> None:
        self._credentials = credentials
        self._mechanism = credentials.mechanism or "SCRAM"
        self._nonce = nonce
        self._runtime = runtime
        self._host = host
        self._server_api = server_api
        # What bounds a command of a conversation that nothing else bounds, seconds; 0: nothing does.
        self._connect_timeout = connect_timeout
        self._date = date
        properties = credentials.mechanism_properties
        self.keys = KeyCache(max_iterations)
        self._threads = ThreadWork(runtime, host)
        self.tokens = oidc.TokenCache()
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
        self._aws: aws_provider.AwsProvider | None = None
        if credentials.mechanism == MONGODB_AWS:
            self._aws = aws_provider.AwsProvider(
                properties.get("AWS_CREDENTIAL_PROVIDER"),
                partial(read_environment, aws_provider.VARIABLES),
                aws_sdk.find_credentials,
            )

    def begin(self, address: Address) -> Authentication:
        """Prepare to authenticate a connection to `address`.

        Raises:
            ConfigurationError: the mechanism is not supported, or the address is none that may see the token.
        """
        return mechanisms.start(self._credentials, address, self._nonce(), self.keys, self.tokens)

    async def authenticate(self, connection: Connection, authentication: Authentication, limits: Limits) -> None:
        """Say what is left to say after the handshake.

        Raises:
            PyMongoError: why the server, or the client, refuses.
        """
        await self._perform(connection, authentication.conversation(connection.handshake), limits)
        connection.renew = partial(self.reauthenticate, authentication)

    async def reauthenticate(
        self, authentication: Authentication, connection: Connection, until: float, operation_until: float | None
    ) -> None:
        """Authenticate a connection again, inside of an operation, because the server wants it.

        Raises:
            PyMongoError: why the server, or the client, refuses; the connection is closed then.
        """
        limits = Limits(until, operation_until, is_operation=True)
        try:
            await self._perform(connection, authentication.again(self._nonce()), limits)
        except BaseException:
            # Nobody can say as whom it is authenticated now.
            connection.close()
            raise

    async def _perform(self, connection: Connection, conversation: Conversation, limits: Limits) -> None:
        answer: Any = None
        try:
            while True:
                request = self._next_request(conversation, answer)
                if request is None:
                    return
                answer = await self._answer(connection, request, limits)
        except BaseException:
            if self._aws is not None:
                self._aws.forget()
            raise
        finally:
            conversation.close()

    def _next_request(self, conversation: Conversation, answer: Any) -> Request | None:
        """What the conversation asks for next, after `answer`; None at its end."""
        try:
            return conversation.send(answer)
        except StopIteration:
            return None
        except PyMongoError:
            raise
        except Exception as error:
            problem = type(error).__name__
        # Neither its text nor the error itself, which may hold a secret.
        raise violation(self._mechanism, problem)

    async def _answer(self, connection: Connection, request: Request, limits: Limits) -> Any:
        if isinstance(request, RunCommand):
            document = {**request.document, **server_api_fields(self._server_api)}
            return await connection.command(request.database, document, self._until(limits))
        if isinstance(request, Compute):
            problem = "the key was not derived from the password"
            return await self._in_thread(request.key, request.function, limits, problem, request.keep)
        if isinstance(request, NeedDate):
            return self._date()
        if isinstance(request, NeedToken):
            assert self._token_source is not None
            return await self._token_source.get(request, limits)
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
        """Wait no longer for `function` than the time that there is."""
        try:
            return await self._threads.result(key, function, self._until(limits), keep)
        except WaitTimeout:
            raise ExecutionTimeout(f"{self._mechanism}: {problem} in time") from None
