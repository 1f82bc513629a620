"""Shell: requests to key management services, each over a TLS connection of its own.

The encryption library says whom to ask, after which delay, and whether to ask again after an error.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import wrong
from motorlite._connection.requests import ask
from motorlite._net.proxy import connected_socket
from motorlite._net.tls import make_context
from motorlite._options.options import client_options
from motorlite._options.uri import hosts_alone
from motorlite.encryption_options import KMSConnectContext
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    ConfigurationError,
    ExecutionTimeout,
    InvalidOperation,
    PyMongoError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._net.runtime import Dial
    from motorlite._net.tls import TLSContext

HTTPS_PORT: Final = 443
# Seconds for connection and response together (client-side encryption specification, "KMS").
_TIMEOUT: Final = 10.0
_CHUNK: Final = 16 * 1024
# Options that would make a connection to a key management service insecure.
_FORBIDDEN: Final = (
    "tlsinsecure",
    "tlsallowinvalidcertificates",
    "tlsallowinvalidhostnames",
    "tlsdisableocspendpointcheck",
    "tlsdisablecertificaterevocationcheck",
)


class ResponseFeed:
    """A framer whose only frame is the end of a response, which goes to the encryption library as it arrives."""

    __slots__ = ("_has_ended", "_request", "_space", "error", "is_empty")

    def __init__(self, request: Any) -> None:
        self._request = request
        self._space = bytearray(_CHUNK)
        # What the library says against the response.
        self.error: Exception | None = None
        self.is_empty: bool = True
        self._has_ended = False

    def buffer(self) -> memoryview:
        """The space for the next bytes."""
        return memoryview(self._space)

    def received(self, count: int) -> None:
        """Record that `count` bytes were written at the start of `buffer()`."""
        self._feed(bytes(self._space[:count]))

    def received_one(self, count: int) -> None:
        """Like `received`; `next_frame` returns the end."""
        self.received(count)

    def whole(self, data: bytes) -> None:
        """Consume `data`; `next_frame` returns the end."""
        self._feed(data)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]:
        """Consume all of `data`; return the end if this was it."""
        self._feed(bytes(data))
        frame = self.next_frame()
        return [] if frame is None else [frame]

    def _feed(self, data: bytes) -> None:
        self.is_empty = self.is_empty and not data
        try:
            while data and self.error is None and (needed := self._request.bytes_needed) > 0:
                self._request.feed(data[:needed])
                data = data[needed:]
        except Exception as error:  # the stream would take it for an error of its own
            self.error = error

    @property
    def is_complete(self) -> bool:
        """Whether the library needs no more bytes."""
        return self.error is not None or self._request.bytes_needed <= 0

    def next_frame(self) -> bytes | None:
        """Return the end of the response, once."""
        if self._has_ended or not self.is_complete:
            return None
        self._has_ended = True
        return b"end"


def tls_contexts(options: Mapping[str, Any] | None) -> dict[str, TLSContext]:
    """Return the TLS contexts by provider, from `kms_tls_options`.

    Raises:
        ConfigurationError: An option is unknown, wrong or insecure.
    """
    if options is not None and not hasattr(options, "items"):
        raise TypeError(f"kms_tls_options must be a mapping of providers to their TLS options, not {options!r}")
    return {provider: _context(provider, given) for provider, given in (options or {}).items()}


def _context(provider: str, given: Mapping[str, Any]) -> TLSContext:
    if not hasattr(given, "items"):
        raise TypeError(f"kms_tls_options[{provider!r}] must be a mapping of TLS options, not {given!r}")
    insecure = [name for name in given if name.lower() in _FORBIDDEN]
    if insecure:
        raise ConfigurationError(f"kms_tls_options[{provider!r}] must not have {insecure[0]}, which is insecure")
    tls = client_options(None, **{"tls": True, **given}).tls
    if tls is None:
        raise ConfigurationError(f"kms_tls_options[{provider!r}]: connections to a provider must use TLS")
    return make_context(tls)


def endpoint_address(endpoint: str) -> Address:
    """Return host and port of a key management service.

    Raises:
        ConfigurationError: It is neither.
    """
    addresses = hosts_alone(endpoint, HTTPS_PORT)
    if len(addresses) != 1 or addresses[0][1] is None:
        raise ConfigurationError(f"the endpoint {endpoint!r} of a key management service is not a host with a port")
    return addresses[0]


def _no_answer(request: Any, deadline: Deadline) -> ExecutionTimeout:
    error = ExecutionTimeout(f"the key management service at {request.endpoint} did not answer in time", 50)
    error.client_limit = deadline.timeout
    return error


class KeyServices:
    """The key management services of one client.

    Raises:
        ConfigurationError: An option is unknown, wrong or insecure.
    """

    def __init__(self, kms_tls_options: Mapping[str, Any] | None, connect_callback: Any = None) -> None:
        self._contexts = tls_contexts(kms_tls_options)
        if connect_callback is not None and not callable(connect_callback):
            raise TypeError(wrong("kms_connect_callback", connect_callback, "a coroutine function"))
        self._connect_callback = connect_callback

    async def ask(self, request: Any, core: Core, deadline: Deadline) -> None:
        """Send a request and feed the library with its response. Errors of the network are left to the library.

        Raises:
            ExecutionTimeout: The deadline passed.
            InvalidOperation: The client was closed meanwhile.
            AutoReconnect: The service did not answer, and the library does not want to ask again.
            MongoCryptError: The service answered with an error.
        """
        address, message = endpoint_address(request.endpoint), request.message
        context = self._contexts.get(request.kms_provider)
        if context is None:
            context = self._contexts[request.kms_provider] = _context(request.kms_provider, {})
        now = core.runtime.now
        delay = request.usleep / 1e6
        if now() + delay >= deadline.expires_at:
            raise _no_answer(request, deadline)
        if delay:
            await core.pause(now() + delay)
            core.enter()  # the client may have been closed meanwhile
        feed, until = ResponseFeed(request), min(now() + _TIMEOUT, deadline.expires_at)
        try:
            with core.outside_request(f"the key management service at {request.endpoint}"):
                await ask(core.connector(context, self._dial(now)), address, feed, message, until)
            if not feed.is_complete:
                raise AutoReconnect(f"the key management service at {request.endpoint} closed the connection")
        except (CertificateError, ConfigurationError, InvalidOperation):
            raise
        except PyMongoError as error:
            if now() >= deadline.expires_at:
                raise _no_answer(request, deadline) from error
            self._note_failure(request, error)
        if feed.error is not None:
            raise feed.error

    def _dial(self, now: Callable[[], float]) -> Dial | None:
        """Return what connects a socket with the application's callback, if there is one."""
        callback = self._connect_callback
        if callback is None:
            return None

        async def dial(address: Address, until: float) -> Any:
            host, port = address
            assert port is not None  # `endpoint_address` demands one
            if not (iscoroutinefunction(callback) or iscoroutinefunction(callback.__call__)):
                # To call it would block the event loop.
                raise ConfigurationError(wrong("kms_connect_callback", callback, "a coroutine function"))
            return connected_socket(
                await callback(KMSConnectContext(host, port, until - now())), "the socket of kms_connect_callback"
            )

        return dial

    @staticmethod
    def _note_failure(request: Any, error: PyMongoError) -> None:
        """Let the library ask again later; raise `error` if it does not want to."""
        try:
            request.fail()
        except Exception:
            # The library says only that it gives up.
            raise error from None
