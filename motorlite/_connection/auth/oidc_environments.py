"""Shell: the driver's built-in OIDC callbacks (mechanism property ENVIRONMENT)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from motorlite._connection.auth.conversation import violation
from motorlite._connection.auth.oidc import MONGODB_OIDC
from motorlite._net.host.files import read_text
from motorlite._net.host.platform_facts import read_environment
from motorlite._wire import http
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import AutoReconnect, ConfigurationError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Runtime

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
            stream = await self._connect(address, reader, until)
            try:
                data = await _exchange(stream, http.get(address[0], target, headers), until, reader)
            finally:
                stream.abort()
            response = http.parse(data)
        except PyMongoError as error:
            # Raised as a different error, because the MongoDB server did not cause it.
            raise violation(MONGODB_OIDC, f"{what} did not answer: {error}") from error
        if response.status != 200:
            # Shown as a literal: a terminal would execute control characters, and line breaks could forge log entries.
            raise violation(
                MONGODB_OIDC, f"{what} answered with status {response.status}: {response.body[:_MAX_SHOWN]!r}"
            )
        return response.body


async def _exchange(stream: Any, request: bytes, until: float, reader: http.ResponseReader) -> bytes | bytearray:
    try:
        answer: bytes | bytearray = await stream.exchange(request, until)
    except AutoReconnect as error:
        # The end of the stream may be the end of the response; a timeout is not.
        if error.timeout or reader.is_empty:
            raise
        return reader.so_far()
    return answer


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
