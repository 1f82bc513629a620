"""An overloaded server hangs up during the TLS handshake: what each event loop makes of that, on real sockets."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite._base.error_codes import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._connection.establish import Establisher, EstablishmentError, HandshakeSettings
from motorlite._net.current import current_runtime
from motorlite._net.tls import make_context
from motorlite._options.options import TLSOptions
from motorlite.errors import AutoReconnect, CertificateError, NetworkTimeout
from motorlite.testing.server.certificates import Certificates, make_certificates
from tests.support.peers import listening, server_context, serving

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._net.runtime import FrameStream

pytestmark = [pytest.mark.anyio, pytest.mark.real_time]

BACKENDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}
OVERLOAD: Final = frozenset({SYSTEM_OVERLOADED, RETRYABLE})
# Closing sends RST instead of FIN.
RESET: Final = b"\1\0\0\0\0\0\0\0"


@pytest.fixture(params=BACKENDS.values(), ids=list(BACKENDS))
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


async def failure_to_open(address: Address, certificates: Certificates, seconds: float = 30) -> EstablishmentError:
    runtime = current_runtime()
    tls = make_context(TLSOptions(ca_file=str(certificates.ca_file)))

    async def connect(address: Address, framer: Any, until: float) -> FrameStream:
        return await runtime.connect(address, framer, until, tls)

    establisher = Establisher(runtime, connect, HandshakeSettings(dict))
    with pytest.raises(EstablishmentError) as caught:
        await establisher.open(address, 1, 1, runtime.now() + seconds, authenticate=True)
    assert caught.value.error.address == address
    return caught.value


def server_flight(certificates: Certificates, hello: bytes, version: ssl.TLSVersion) -> bytes:
    """What a TLS server answers to the client's first message."""
    context = server_context(certificates)
    context.maximum_version = version
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(hello)
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("answered", ["nothing read", "nothing", "five bytes", "half", "everything"])
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_hanging_up_is_a_sign_of_overload(
    certificates: Certificates, version: ssl.TLSVersion, answered: str, is_reset: bool
) -> None:
    def hang_up(connection: socket.socket) -> None:
        if answered != "nothing read":
            flight = server_flight(certificates, connection.recv(10_000), version)
            lengths = {"nothing": 0, "five bytes": 5, "half": len(flight) // 2, "everything": len(flight)}
            connection.sendall(flight[: lengths[answered]])
        if is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    async with serving(hang_up) as address:
        failed = await failure_to_open(address, certificates)
    assert type(failed.error) is AutoReconnect
    assert failed.error.error_labels == OVERLOAD
    assert not failed.during_authentication
    assert not failed.error.reached_server, "the operation was not sent"


async def test_not_answering_is_a_sign_of_overload(certificates: Certificates) -> None:
    # The server queues connections while it is overloaded.
    async with listening("tcp") as (_, address):
        failed = await failure_to_open(address, certificates, 0.05)
    assert type(failed.error) is NetworkTimeout
    assert failed.error.error_labels == OVERLOAD


async def test_a_certificate_that_is_refused_is_not(certificates: Certificates, tmp_path: Any) -> None:
    others = make_certificates(tmp_path)

    def shake_hands(connection: socket.socket) -> None:
        server_context(certificates).wrap_socket(connection, server_side=True)

    async with serving(shake_hands) as address:
        failed = await failure_to_open(address, others)
    assert type(failed.error) is CertificateError
    assert not failed.error.error_labels
