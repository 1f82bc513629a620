"""Pure: what the authentication mechanisms require (authentication specification, "Connection String Options")."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

_EXTERNAL: Final = "$external"


class Rules(NamedTuple):
    """The requirements of a mechanism."""

    username: Literal["required", "optional", "forbidden"] = "required"
    password: Literal["required", "optional", "forbidden"] = "required"
    # The default source, without authSource or a database.
    source: str = "admin"
    # Whether the source above is the only one allowed; the database is then not used as the source.
    is_source_fixed: bool = False
    properties: tuple[str, ...] = ()


RULES: Final = {
    "SCRAM": Rules(),
    "SCRAM-SHA-1": Rules(),
    "SCRAM-SHA-256": Rules(),
    "PLAIN": Rules(source=_EXTERNAL),
    "MONGODB-X509": Rules("optional", "forbidden", _EXTERNAL, is_source_fixed=True),
    "GSSAPI": Rules(
        "required",
        "optional",
        _EXTERNAL,
        is_source_fixed=True,
        properties=("SERVICE_NAME", "CANONICALIZE_HOST_NAME", "SERVICE_REALM", "SERVICE_HOST"),
    ),
    # Since 2025-09-30 the specification allows credentials only from the environment or a provider.
    "MONGODB-AWS": Rules(
        "forbidden", "forbidden", _EXTERNAL, is_source_fixed=True, properties=("AWS_CREDENTIAL_PROVIDER",)
    ),
    "MONGODB-OIDC": Rules(
        "optional",
        "forbidden",
        _EXTERNAL,
        is_source_fixed=True,
        properties=("ENVIRONMENT", "TOKEN_RESOURCE", "OIDC_CALLBACK", "OIDC_HUMAN_CALLBACK", "ALLOWED_HOSTS"),
    ),
}
