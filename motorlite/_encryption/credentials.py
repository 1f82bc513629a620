"""Shell: credentials of key management services on demand, from the environment or a cloud's metadata service."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from motorlite._connection.auth.aws import VARIABLES, AwsProvider
from motorlite._connection.auth.oidc_callbacks import AZURE, GCP
from motorlite._connection.auth.thread_work import ThreadWork
from motorlite._connection.requests import ask
from motorlite._net import aws_sdk
from motorlite._net.host import read_environment
from motorlite._net.runtime import WaitTimeout
from motorlite._wire import http
from motorlite.errors import ConfigurationError, no_time_left

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._net.runtime import Runtime

# Seconds for the answer of a metadata service, which is near.
_TIMEOUT: Final = 10.0
# Seconds before its end at which a token is no longer used.
_MARGIN: Final = 60.0
_AZURE_TARGET: Final = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net"
_GCP_TARGET: Final = "/computeMetadata/v1/instance/service-accounts/default/token"
# Where Google's own libraries look for another host.
_GCP_VARIABLE: Final = "GCE_METADATA_HOST"
ON_DEMAND: Final = ("aws", "azure", "gcp")


class CredentialSource:
    """The credentials of one client that are looked up when a request needs them."""

    def __init__(self) -> None:
        self._aws = AwsProvider(None, partial(read_environment, VARIABLES), aws_sdk.find_credentials)
        # Azure's token, and the loop time until which it is used, on the clock of this runtime: a forked child has
        # another, which on trio begins anywhere.
        self._azure: tuple[str, float, Runtime] | None = None
        # What looks for credentials of AWS, and its runtime, as above.
        self._threads: tuple[ThreadWork, Runtime] | None = None

    def __repr__(self) -> str:
        return "<CredentialSource>"

    def forget(self) -> None:
        """Drop what is cached after a service has refused it: the credentials may have been replaced meanwhile."""
        self._aws.forget()
        self._azure = None

    async def find(self, providers: Mapping[str, Any], core: Core, deadline: Deadline) -> dict[str, Any]:
        """Return the credentials of the providers whose own are empty.

        Raises:
            PyMongoError: There are none; the message says why.
        """
        found: dict[str, Any] = {}
        for name in ON_DEMAND:
            if name in providers and not providers[name]:
                if name == "aws":
                    found[name] = await self._of_aws(core, deadline)
                else:
                    token = await (self._of_azure(core, deadline) if name == "azure" else self._of_gcp(core, deadline))
                    found[name] = {"accessToken": token}
        return found

    async def _of_aws(self, core: Core, deadline: Deadline) -> dict[str, str]:
        if self._threads is None or self._threads[1] is not core.runtime:
            self._threads = ThreadWork(core.runtime, core.host), core.runtime
        try:
            with core.outside_request("AWS"):
                found = await self._threads[0].result("aws", self._aws.look_up, deadline.expires_at)
        except WaitTimeout:
            raise no_time_left(deadline.timeout) from None
        credentials = {"accessKeyId": found.access_key, "secretAccessKey": found.secret_key}
        return credentials if found.token is None else {**credentials, "sessionToken": found.token}

    async def _of_azure(self, core: Core, deadline: Deadline) -> str:
        runtime, now = core.runtime, core.runtime.now()
        if self._azure is not None and runtime is self._azure[2] and now < self._azure[1]:
            return self._azure[0]
        self._azure = None
        headers = {"Accept": "application/json", "Metadata": "true"}
        document = await _document("Azure", core, AZURE, _AZURE_TARGET, headers, deadline)
        token = _token("Azure", document)
        try:
            self._azure = token, now + float(document["expires_in"]) - _MARGIN, runtime
        except (KeyError, ValueError, TypeError):
            raise ConfigurationError("the metadata service of Azure does not say how long its token lasts") from None
        return token

    async def _of_gcp(self, core: Core, deadline: Deadline) -> str:
        host, _, port = read_environment([_GCP_VARIABLE]).get(_GCP_VARIABLE, "").partition(":")
        address = (host, int(port) if port.isdigit() else 80) if host else GCP
        document = await _document("GCP", core, address, _GCP_TARGET, {"Metadata-Flavor": "Google"}, deadline)
        return _token("GCP", document)


async def _document(
    cloud: str, core: Core, address: Address, target: str, headers: Mapping[str, str], deadline: Deadline
) -> dict[str, Any]:
    """Return the answer of a metadata service. No error shows it, since it may contain a token."""
    reader, now = http.ResponseReader(), core.runtime.now()
    until = min(now + _TIMEOUT, deadline.expires_at)
    with core.outside_request(f"the metadata service of {cloud}"):
        await ask(core.connector(None), address, reader, http.get(address[0], target, headers), until)
    response = reader.response()
    if response.status != 200:
        raise ConfigurationError(f"the metadata service of {cloud} answered with status {response.status}")
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ConfigurationError(f"the answer of the metadata service of {cloud} is not a JSON document")
    return document


def _token(cloud: str, document: Mapping[str, Any]) -> str:
    token = document.get("access_token")
    if not isinstance(token, str) or not token:
        raise ConfigurationError(f"the answer of the metadata service of {cloud} has no access_token")
    return token
