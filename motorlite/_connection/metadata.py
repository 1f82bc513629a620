"""Pure: builds and shortens the client metadata document of the handshake (handshake specification)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import bson

from motorlite._base.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._base.values import Document
    from motorlite._net.host import PlatformFacts
    from motorlite.driver_info import DriverInfo

MAX_METADATA_BYTES: Final = 512
MAX_APP_NAME_BYTES: Final = 128
DRIVER_NAME: Final = "motorlite"
DELIMITER: Final = "|"

# Handshake specification, "FaaS": field, environment variable, whether it is an int32.
_FAAS_FIELDS: Final[dict[str, tuple[tuple[str, str, bool], ...]]] = {
    "aws.lambda": (
        ("region", "AWS_REGION", False),
        ("memory_mb", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", True),
    ),
    "azure.func": (),
    "gcp.func": (
        ("memory_mb", "FUNCTION_MEMORY_MB", True),
        ("timeout_sec", "FUNCTION_TIMEOUT_SEC", True),
        ("region", "FUNCTION_REGION", False),
    ),
    "vercel": (("region", "VERCEL_REGION", False),),
}
_FAAS_MARKS: Final = (
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_RUNTIME_API",
    "FUNCTIONS_WORKER_RUNTIME",
    "K_SERVICE",
    "FUNCTION_NAME",
    "VERCEL",
)
_KUBERNETES: Final = "KUBERNETES_SERVICE_HOST"
_INTEGER: Final = r"-?[0-9]{1,10}"

ENVIRONMENT_VARIABLES: Final = (
    *_FAAS_MARKS,
    *(variable for fields in _FAAS_FIELDS.values() for _, variable, _ in fields),
    _KUBERNETES,
)
"""The only environment variables that `client_metadata` reads."""


def client_metadata(
    *,
    app_name: str | None,
    environment: Mapping[str, str],
    platform: PlatformFacts,
    infos: Iterable[DriverInfo] = (),
) -> Document:
    """Build the `client` document of the handshake, at most 512 bytes of BSON.

    `infos` are the libraries on top of the driver, in the order in which they registered.
    """
    metadata: Document = {}
    if app_name:
        metadata["application"] = {"name": _cut(app_name, MAX_APP_NAME_BYTES)}
    metadata["driver"] = {"name": DRIVER_NAME, "version": __version__}
    facts = {
        "type": platform.os_type,
        "name": platform.os_name,
        "architecture": platform.architecture,
        "version": platform.os_version,
    }
    metadata["os"] = {field: value for field, value in facts.items() if value}
    metadata["platform"] = f"{platform.runtime} ({platform.backend})"
    env = _environment_document(environment, is_docker=platform.is_docker)
    if env:
        metadata["env"] = env
    for info in infos:
        _append(metadata["driver"], "name", info.name)
        _append(metadata["driver"], "version", info.version)
        _append(metadata, "platform", info.platform)
    _shorten(metadata)
    return metadata


def with_info(infos: tuple[DriverInfo, ...], info: DriverInfo) -> tuple[DriverInfo, ...]:
    """Return `infos` plus `info`; a duplicate adds nothing (handshake specification, "Appending metadata")."""
    return infos if any(_effect(known) == _effect(info) for known in infos) else (*infos, info)


def _effect(info: DriverInfo) -> tuple[str, ...]:
    # An empty string counts as unset.
    return tuple(field or "" for field in info)


def _append(document: Document, field: str, value: str | None) -> None:
    if value:
        document[field] = f"{document[field]}{DELIMITER}{value}"


def _environment_document(environment: Mapping[str, str], *, is_docker: bool) -> Document:
    env: Document = {}
    provider = faas_provider(environment)
    if provider is not None:
        env["name"] = provider
        for field, variable, is_integer in _FAAS_FIELDS[provider]:
            text = environment.get(variable)
            value: Any = _int32(text) if text and is_integer else text
            if value is not None and value != "":
                env[field] = value
    container = {}
    if is_docker:
        container["runtime"] = "docker"
    if environment.get(_KUBERNETES):
        container["orchestrator"] = "kubernetes"
    if container:
        env["container"] = container
    return env


def faas_provider(environment: Mapping[str, str]) -> str | None:
    """Return the name of the current function-as-a-service environment, or None."""
    found = set()
    on_lambda = environment.get("AWS_EXECUTION_ENV", "").startswith("AWS_Lambda_")
    if on_lambda or environment.get("AWS_LAMBDA_RUNTIME_API"):
        found.add("aws.lambda")
    if environment.get("FUNCTIONS_WORKER_RUNTIME"):
        found.add("azure.func")
    if environment.get("K_SERVICE") or environment.get("FUNCTION_NAME"):
        found.add("gcp.func")
    if environment.get("VERCEL"):
        found.add("vercel")
        # Vercel runs on Lambda, so both sets of variables are present.
        found.discard("aws.lambda")
    return found.pop() if len(found) == 1 else None


def _int32(text: str) -> int | None:
    if re.fullmatch(_INTEGER, text) is None:
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def _shorten(metadata: Document) -> None:
    """Shorten `metadata` by the four steps of "Limitations" (handshake specification), each only if still needed."""
    if _excess(metadata) > 0 and "env" in metadata:
        metadata["env"] = {field: value for field, value in metadata["env"].items() if field == "name"}
        if not metadata["env"]:
            del metadata["env"]
    if _excess(metadata) > 0:
        metadata["os"] = {"type": metadata["os"]["type"]}
    if _excess(metadata) > 0:
        metadata.pop("env", None)
    _truncate(metadata, "platform")
    if "platform" in metadata and not metadata["platform"]:
        del metadata["platform"]
    # Beyond the specification: strings of a wrapping library may exceed the limit on their own. Our own name and
    # version come first, so they survive.
    _truncate(metadata, "version", within="driver")
    _truncate(metadata, "name", within="driver")


def _truncate(metadata: Document, field: str, *, within: str | None = None) -> None:
    excess = _excess(metadata)
    if excess > 0:
        document = metadata if within is None else metadata[within]
        document[field] = _cut(document[field], max(0, len(document[field].encode()) - excess))


def _excess(metadata: Document) -> int:
    return len(bson.encode(metadata)) - MAX_METADATA_BYTES


def _cut(text: str, size: int) -> str:
    """Return the longest prefix of `text` that has at most `size` bytes of UTF-8."""
    return text.encode()[:size].decode(errors="ignore")
