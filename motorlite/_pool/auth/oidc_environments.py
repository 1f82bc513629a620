"""Shell: the OIDC callbacks that the driver brings along (mechanism property ENVIRONMENT)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from motorlite._net.host_files import read_text
from motorlite._net.platform_facts import read_environment
from motorlite._pool.auth.conversation import violation
from motorlite._pool.auth.oidc import MONGODB_OIDC
from motorlite._wire import http
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import AutoReconnect, ConfigurationError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._net.runtime import Connector, Runtime
    from motorlite.values import Address

AZURE: Final[Address] = ("169.254.169.254", 80)
GCP: Final[Address] = ("metadata", 80)
KUBERNETES_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
# Characters of an answer that is an error, as much of it as an error of ours repeats.
_MAX_SHOWN: Final = 500
# Where the clouds tell of another file, in the order in which they are asked.
_KUBERNETES_VARIABLES: Final = ("AZURE_FEDERATED_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")


def environment_callback(properties: Mapping[str, Any], runtime: Runtime, connect: Connector) -> OIDCCallback:
    """The callback for the environment that `properties` name."""
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
    """Asks the metadata service of a cloud."""

    def __init__(self, resource: str, runtime: Runtime, connect: Connector) -> None:
        self._resource = quote(resource, safe="")
        self._runtime = runtime
        self._connect = connect

    async def _get(self, address: Address, target: str, headers: Mapping[str, str], seconds: float) -> str:
        """The body of a successful response."""
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
            # Not as it is: the server that is being authenticated to has no part in it.
            raise violation(MONGODB_OIDC, f"{what} gave no answer: {error}") from error
        if response.status != 200:
            # As a literal: control characters would be carried out by a terminal, and line breaks forge log entries.
            raise violation(
                MONGODB_OIDC, f"{what} answered with status {response.status}: {response.body[:_MAX_SHOWN]!r}"
            )
        return response.body


async def _exchange(stream: Any, request: bytes, until: float, reader: http.ResponseReader) -> bytes | bytearray:
    try:
        answer: bytes | bytearray = await stream.exchange(request, until)
    except AutoReconnect as error:
        # The end of the stream may be the end of the response; a time-out is not.
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
            # The body is not shown: it may hold a token.
            problem = "the metadata service of Azure answered with something that holds no access_token"
            raise violation(MONGODB_OIDC, problem) from None


class GCPCallback(_MetadataCallback):
    """The identity of a virtual machine's service account."""

    async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        target = f"/computeMetadata/v1/instance/service-accounts/default/identity?audience={self._resource}"
        body = await self._get(GCP, target, {"Metadata-Flavor": "Google"}, context.timeout_seconds)
        return OIDCCallbackResult(body.strip())
