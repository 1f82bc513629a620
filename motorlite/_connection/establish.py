"""Shell: opens connections: socket, TLS, handshake, authentication (pooling specification, "Establishing").

A network error before the end of hello may mean that the server is overloaded, so it carries the labels
SystemOverloadedError and RetryableError. Errors of name resolution, certificates, proxies and authentication do not.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._base.error_codes import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._base.values import format_address
from motorlite._connection.compressed_stream import CompressedStream
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._connection.handshake import AUTHENTICATING, AWAITING_HELLO, MAX_HELLO_SIZE, hello_document, parse_hello
from motorlite._wire.frames import FrameReader
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    NameResolutionError,
    NotPrimaryError,
    ProxyError,
    PyMongoError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bson.objectid import ObjectId

    from motorlite._base.values import Address, Document
    from motorlite._connection.auth.mechanisms import Authentication
    from motorlite._connection.authenticate import Authenticator
    from motorlite._net.runtime import Connector, Runtime
    from motorlite._wire.compression import Compressor
    from motorlite.server_api import ServerApi


_CLOSED: Final = "a server that requires TLS (tls=true) or is overloaded does so before it answers"


class HandshakeSettings:
    """The client's part of every handshake."""

    __slots__ = (
        "backpressure",
        "compressors",
        "is_plain",
        "load_balanced",
        "metadata",
        "server_api",
    )

    def __init__(
        self,
        metadata: Callable[[], Document],
        *,
        load_balanced: bool = False,
        compressors: Sequence[Compressor] = (),
        backpressure: bool | str = True,
        server_api: ServerApi | None = None,
        is_plain: bool = False,
    ) -> None:
        # Called for each handshake, because applications may append metadata.
        self.metadata: Callable[[], Document] = metadata
        self.load_balanced: bool = load_balanced
        # In order of preference. Monitors do not use them, because they send nothing that may be compressed.
        self.compressors: Sequence[Compressor] = compressors
        # True, or "2" for the preset of the later revision of the specification (client backpressure, "Handshake
        # changes").
        self.backpressure: bool | str = backpressure
        self.server_api: ServerApi | None = server_api
        # Whether connections are without TLS, for messages.
        self.is_plain: bool = is_plain


class EstablishmentError(Exception):
    """Why establishing a connection failed, and how far it got. Never leaves the shells."""

    def __init__(
        self,
        error: PyMongoError,
        *,
        during_authentication: bool,
        max_wire_version: int,
        generation: int,
        service_id: ObjectId | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.during_authentication = during_authentication
        self.max_wire_version = max_wire_version
        # The generation that the connection would have had.
        self.generation = generation
        # Behind a load balancer, once hello has reported it.
        self.service_id = service_id


class Establisher:
    """Opens the connections of one client."""

    def __init__(
        self,
        runtime: Runtime,
        connect: Connector,
        settings: HandshakeSettings,
        authenticator: Authenticator | None = None,
        *,
        pauses_collector: bool = True,
    ) -> None:
        self._runtime = runtime
        self._connect = connect
        self._settings = settings
        self._decoder = Decoder(runtime.sleep, pauses_collector=pauses_collector)
        # None if the client has no credentials.
        self._authenticator = authenticator

    async def open(
        self,
        address: Address,
        connection_id: int,
        generation: int,
        until: float,
        *,
        authenticate: bool,
        operation_until: float | None = None,
        each: float = inf,
        join: Callable[[ObjectId], int] | None = None,
        on_step: Callable[[str], None] = lambda _step: None,
    ) -> Connection:
        """Open a connection that is ready for commands, or for a monitor if `authenticate` is False.

        `operation_until` is the loop time at which the requesting operation's timeoutMS expires, or None if it is not
        set. It bounds nothing here and is only passed on to an OIDC callback. `each` is how many seconds each command
        of the authentication may take, for a connection that no operation waits for. Behind a load balancer, `join` is
        called with the service of the connection as soon as it is known and returns the generation of the connection.
        `on_step` is called when the connection gets to `AWAITING_HELLO` and to `AUTHENTICATING`.

        Raises:
            EstablishmentError: establishing failed; carries the error for the requesting operation.
        """
        framer = FrameReader(MAX_HELLO_SIZE)
        connection: Connection | None = None
        authentication: Authentication | None = None
        authenticator = self._authenticator if authenticate else None
        try:
            if authenticator is not None:
                authentication = authenticator.begin(address)
            stream = await self._connect(address, framer, until)
            connection = Connection(address, connection_id, generation, stream, framer, self._decoder)
            on_step(AWAITING_HELLO)
            await self._hello(connection, authentication, until, is_monitor=not authenticate)
        except PyMongoError as error:
            _close(connection)
            error.address = address
            if _may_be_overload(error):
                _label_as_overload(error)
                self._explain(error, connection)
            raise EstablishmentError(
                error, during_authentication=False, max_wire_version=0, generation=generation
            ) from error
        except BaseException:
            _close(connection)
            raise
        service_id = connection.service_id = connection.handshake.service_id
        if service_id is not None and join is not None:
            connection.generation = join(service_id)
        try:
            if authenticator is not None and authentication is not None:
                on_step(AUTHENTICATING)
                await _authenticate(connection, authenticator, authentication, until, operation_until, each)
        except PyMongoError as error:
            connection.close()
            error.address = address
            raise EstablishmentError(
                error,
                during_authentication=True,
                max_wire_version=connection.facts.max_wire_version,
                generation=connection.generation,
                service_id=service_id,
            ) from error
        except BaseException:
            connection.close()
            raise
        if authenticate:
            connection.expect_replies()
        return connection

    def _explain(self, error: PyMongoError, connection: Connection | None) -> None:
        """Say that the server may require TLS, if it closed a connection without it."""
        if connection is not None and self._settings.is_plain and type(error) is AutoReconnect:
            error._explain(_CLOSED)

    async def _hello(
        self, connection: Connection, authentication: Authentication | None, until: float, *, is_monitor: bool
    ) -> None:
        settings = self._settings
        document = hello_document(
            metadata=settings.metadata(),
            load_balanced=settings.load_balanced,
            compressors=[] if is_monitor else [compressor.name for compressor in settings.compressors],
            backpressure=settings.backpressure,
            server_api=settings.server_api,
            sasl_supported_mechs=authentication.sasl_supported_mechs() if authentication else None,
            speculative_authenticate=authentication.speculative_document() if authentication else None,
        )
        stream = None
        if settings.compressors and not is_monitor:
            connection.stream = stream = CompressedStream(
                connection.stream, connection.framer, settings.compressors, self._runtime
            )
        started = self._runtime.now()
        reply = await connection.command("admin", document, until)
        connection.hello_duration = self._runtime.now() - started
        if authentication is not None and reply.get("ok") != 1:
            reply = authentication.redacted(reply)
        handshake = parse_hello(connection.address, reply, settings.load_balanced, check_versions=not is_monitor)
        connection.learn(handshake)
        if stream is not None:
            connection.stream = stream.agree(handshake.compression)
        if not is_monitor:
            _check_open(connection)


def _label_as_overload(error: PyMongoError) -> None:
    """Label `error`: a server that disconnects before it replies to hello may be overloaded (client backpressure)."""
    error._add_error_label(SYSTEM_OVERLOADED)
    error._add_error_label(RETRYABLE)


def _may_be_overload(error: PyMongoError) -> bool:
    """Whether the socket failed without a reply: the server may have refused for lack of capacity."""
    return isinstance(error, AutoReconnect) and not isinstance(
        error, (NameResolutionError, CertificateError, ProxyError, NotPrimaryError)
    )


async def _authenticate(
    connection: Connection,
    authenticator: Authenticator,
    authentication: Authentication,
    until: float,
    operation_until: float | None,
    each: float,
) -> None:
    from motorlite._connection.auth.oidc_callbacks import Limits

    await authenticator.authenticate(connection, authentication, Limits(until, operation_until, each=each))
    _check_open(connection)


def _check_open(connection: Connection) -> None:
    """Check that the connection is still usable.

    The pool cannot do this: it would close the broken connection and open another one, in an endless loop.

    Raises:
        AutoReconnect: the server closed the connection after its last reply, or sent unsolicited bytes.
    """
    if not connection.stream.is_healthy():
        where = format_address(connection.address)
        raise AutoReconnect(f"{where}: the server closed the connection or sent unsolicited data after the handshake")


def _close(connection: Connection | None) -> None:
    if connection is not None:
        connection.close()
