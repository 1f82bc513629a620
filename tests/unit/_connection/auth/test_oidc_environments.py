"""The callbacks that the driver brings along: what they read, what they ask for and what they make of the answer."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._connection.auth import oidc_callbacks
from motorlite._connection.auth.oidc_callbacks import AZURE, GCP, environment_callback
from motorlite._net.current import current_runtime
from motorlite.auth_oidc import OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import AutoReconnect, ConfigurationError, OperationFailure
from motorlite.testing.memory_stream import MemoryStream
from tests.support.auth_servers import threadless

if TYPE_CHECKING:
    from pathlib import Path

    from motorlite._base.values import Address

pytestmark = pytest.mark.anyio


class Service:
    """A metadata service: answers each request with `response`; None: not at all."""

    def __init__(self, response: bytes | None = b"", *, closes: bool = False, refuses: bool = False) -> None:
        self.response = response
        self.closes = closes
        self.refuses = refuses
        self.addresses: list[Address] = []
        self.requests: list[str] = []
        self.open: set[MemoryStream] = set()

    async def connect(self, address: Address, framer: Any, until: float) -> MemoryStream:
        self.addresses.append(address)
        if self.refuses:
            raise AutoReconnect("connection refused")
        stream = MemoryStream(threadless(), address, framer, self)
        self.open.add(stream)
        return stream

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        self.requests.append(data.decode())
        if self.response is not None:
            stream.deliver(self.response)
        if self.closes:
            stream.close()
            self.open.discard(stream)

    def client_closed(self, stream: MemoryStream) -> None:
        self.open.discard(stream)


def ok(body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def fetch(service: Service | None = None, username: str = "", seconds: float = 60.0, **properties: str) -> Any:
    callback: Any = environment_callback(properties, threadless(), (service or Service()).connect)
    return await callback.fetch(OIDCCallbackContext(seconds, username, 1))


# --- files ---


async def test_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text("token\n")
    monkeypatch.setenv("OIDC_TOKEN_FILE", str(path))
    assert await fetch(ENVIRONMENT="test") == OIDCCallbackResult("token")
    path.write_text("another")
    assert await fetch(ENVIRONMENT="test") == OIDCCallbackResult("another"), "nothing is kept"


@pytest.mark.parametrize("value", [None, ""])
async def test_test_without_a_file(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OIDC_TOKEN_FILE", raising=False)
    if value is not None:
        monkeypatch.setenv("OIDC_TOKEN_FILE", value)
    with pytest.raises(ConfigurationError, match="OIDC_TOKEN_FILE"):
        await fetch(ENVIRONMENT="test")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (["AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"], "AZURE_FEDERATED_TOKEN_FILE"),
        (["AWS_WEB_IDENTITY_TOKEN_FILE"], "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ([], "default"),
    ],
)
async def test_kubernetes(variables: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "default"):
        (tmp_path / name).write_text(name)
        monkeypatch.delenv(name, raising=False)
        if name in variables:
            monkeypatch.setenv(name, str(tmp_path / name))
    assert oidc_callbacks.KUBERNETES_FILE == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    monkeypatch.setattr(oidc_callbacks, "KUBERNETES_FILE", str(tmp_path / "default"))
    assert await fetch(ENVIRONMENT="k8s") == OIDCCallbackResult(expected)


async def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(OperationFailure, match=r"the token file .*none' cannot be read"):
        await fetch(ENVIRONMENT="test")


# --- metadata services ---


@pytest.mark.parametrize(("username", "suffix"), [("", ""), ("a b", "&client_id=a%20b")])
async def test_azure(username: str, suffix: str) -> None:
    body = {"access_token": "token", "refresh_token": "", "expires_in": "3599", "token_type": "Bearer"}
    service = Service(ok(json.dumps(body)))
    found = await fetch(service, username, ENVIRONMENT="azure", TOKEN_RESOURCE="api://x?y=1&z")
    assert found == OIDCCallbackResult("token", 3599.0)
    assert service.addresses == [AZURE]
    assert service.requests == [
        "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=api%3A%2F%2Fx%3Fy%3D1%26z"
        f"{suffix} HTTP/1.1\r\nHost: 169.254.169.254\r\nAccept: application/json\r\nMetadata: true\r\n"
        "Connection: close\r\n\r\n"
    ]
    assert not service.open


async def test_gcp() -> None:
    service = Service(ok("token"))
    found = await fetch(service, ENVIRONMENT="gcp", TOKEN_RESOURCE="https://x")
    assert found == OIDCCallbackResult("token")
    assert service.addresses == [GCP]
    assert service.requests == [
        "GET /computeMetadata/v1/instance/service-accounts/default/identity?audience=https%3A%2F%2Fx HTTP/1.1\r\n"
        "Host: metadata\r\nMetadata-Flavor: Google\r\nConnection: close\r\n\r\n"
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"no such resource!", "status 400: 'no such resource!'$"),
        (b"\x1b[2J\r\nERROR forged \x07\x00\xe2\x80\xae", "ERROR forged"),
        (b"no such resource! " + b"x" * 10_000, "status 400: 'no such resource! x{450,600}'$"),
    ],
    ids=["short", "control characters", "long"],
)
async def test_errors_show_the_beginning_of_the_body(body: bytes, text: str) -> None:
    service = Service(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(OperationFailure, match=text) as caught:
        await fetch(service, ENVIRONMENT="gcp", TOKEN_RESOURCE="x")
    assert str(caught.value).isprintable()
    assert not service.open


@pytest.mark.parametrize(
    ("service", "text"),
    [
        (Service(refuses=True), "connection refused"),
        (Service(closes=True), "closed the connection"),
        (Service(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntok", closes=True), "ends too early"),
        (Service(b"nonsense\r\n\r\n"), "not HTTP"),
        (Service(None), "no reply in time"),
    ],
    ids=["refused", "closed", "cut off", "nonsense", "silent"],
)
async def test_no_answer(service: Service, text: str) -> None:
    begin = anyio.current_time()
    with pytest.raises(OperationFailure, match=f"169.254.169.254 did not answer: .*{text}"):
        await fetch(service, seconds=7.0, ENVIRONMENT="azure", TOKEN_RESOURCE="x")
    assert anyio.current_time() - begin == (7.0 if text == "no reply in time" else 0.0)
    assert not service.open


@pytest.mark.parametrize(
    "body",
    [
        "secret",
        "[]",
        "{}",
        '{"access_token": "secret", "expires_in": "soon"}',
        "null",
        "[" * 60_000,
        '{"access_token": "secret", "expires_in": 1' + "0" * 400 + "}",
        '{"access_token": "secret", "expires_in": 1' + "0" * 5000 + "}",
    ],
    ids=lambda body: body[:60],
)
async def test_an_answer_of_azure_that_holds_no_token(body: str) -> None:
    with pytest.raises(OperationFailure, match="contains no access_token") as caught:
        await fetch(Service(ok(body)), ENVIRONMENT="azure", TOKEN_RESOURCE="x")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.real_time
@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_on_a_real_socket(version: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = version

        def do_GET(self) -> None:  # the name is the library's
            assert self.headers["Metadata-Flavor"] == "Google"
            self.send_response(200)
            if version == "HTTP/1.1":
                self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"token")

        def log_message(self, *args: Any) -> None:
            """Not to the terminal."""

    runtime = current_runtime()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()

        async def connect(_: Address, framer: Any, until: float) -> Any:
            return await runtime.connect(("127.0.0.1", server.server_port), framer, until, None)

        callback: Any = environment_callback({"ENVIRONMENT": "gcp", "TOKEN_RESOURCE": "x"}, runtime, connect)
        assert await callback.fetch(OIDCCallbackContext(20.0, "", 1)) == OIDCCallbackResult("token")
        thread.join()
