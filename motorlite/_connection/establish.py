"""Shell: opens connections: socket, TLS, handshake, authentication (pooling specification, "Establishing").

A network error before the end of hello may mean that the server is overloaded, so it carries the labels
SystemOverloadedError and RetryableError. Errors of name resolution, certificates, proxies and authentication do not.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._base.values import format_address
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._connection.handshake import AUTHENTICATING, AWAITING_HELLO, MAX_HELLO_SIZE, hello_document, parse_hello
from motorlite._wire.frames import FrameReader, ReceiveBuffer
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


@dataclass(slots=True, eq=False, repr=False)
class HandshakeSettings:
    """The client's part of every handshake."""

    # Called for each handshake, because applications may append metadata.
    metadata: Callable[[], Document]
    _: KW_ONLY
    load_balanced: bool = False
    # In order of preference. Monitors do not use them, because they send nothing that may be compressed.
    compressors: Sequence[Compressor] = ()
    # True, or "2" for the preset of the later revision of the specification (client backpressure, "Handshake changes").
    backpressure: bool | str = True
    server_api: ServerApi | None = None
    # Whether connections are without TLS, for messages.
    is_plain: bool = False


class EstablishmentError(Exception):
    """Why establishing a connection failed, and how far it got. Never leaves the shells."""

    def __init__(self, error: PyMongoError, generation: int, greeted: Connection | None) -> None:
        super().__init__(str(error))
        self.error = error
        # Hello had succeeded.
        self.during_authentication: bool = greeted is not None
        self.max_wire_version: int = 0 if greeted is None else greeted.facts.max_wire_version
        # The generation that the connection would have had.
        self.generation: int = generation if greeted is None else greeted.generation
        # Behind a load balancer, once hello has reported it.
        self.service_id: ObjectId | None = None if greeted is None else greeted.service_id


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
        # Of all connections.
        self._received = runtime.shared(ReceiveBuffer)

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
        framer = FrameReader(MAX_HELLO_SIZE, self._received)
        connection: Connection | None = None
        greeted: Connection | None = None
        authentication: Authentication | None = None
        authenticator = self._authenticator if authenticate else None
        try:
            if authenticator is not None:
                authentication = authenticator.begin(address)
            stream = await self._connect(address, framer, until)
            connection = Connection(address, connection_id, generation, stream, framer, self._decoder)
            on_step(AWAITING_HELLO)
            await self._hello(connection, authentication, until, is_monitor=not authenticate)
            greeted = connection
            service_id = connection.service_id = connection.handshake.service_id
            if service_id is not None and join is not None:
                connection.generation = join(service_id)
            if authenticator is not None and authentication is not None:
                from motorlite._connection.auth.oidc_callbacks import Limits

                on_step(AUTHENTICATING)
                limits = Limits(until, operation_until, each=each)
                await authenticator.authenticate(connection, authentication, limits)
                _check_open(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if not isinstance(error, PyMongoError):
                raise
            error.address = address
            if greeted is None and _may_be_overload(error):
                # A server that disconnects before it replies to hello may be overloaded (client backpressure).
                error._add_error_label(SYSTEM_OVERLOADED)
                error._add_error_label(RETRYABLE)
                if connection is not None and self._settings.is_plain and type(error) is AutoReconnect:
                    error._explain(_CLOSED)
            raise EstablishmentError(error, generation, greeted) from error
        if authenticate:
            connection.expect_replies()
        return connection

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
            from motorlite._connection.compressed_stream import CompressedStream

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


def _may_be_overload(error: PyMongoError) -> bool:
    """Whether the socket failed without a reply: the server may have refused for lack of capacity."""
    return isinstance(error, AutoReconnect) and not isinstance(
        error, (NameResolutionError, CertificateError, ProxyError, NotPrimaryError)
    )


def _check_open(connection: Connection) -> None:
    """Check that the connection is still usable.

    The pool cannot do this: it would close the broken connection and open another one, in an endless loop.

    Raises:
        AutoReconnect: the server closed the connection after its last reply, or sent unsolicited bytes.
    """
    if not connection.stream.is_healthy():
        where = format_address(connection.address)
        raise AutoReconnect(f"{where}: the server closed the connection or sent unsolicited data after the handshake")
