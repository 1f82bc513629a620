"""Pure: the credentials of a client (authentication specification, "Connection String Options")."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from motorlite._base.arguments import is_like
from motorlite._options.mechanisms import RULES, Rules
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Credentials", "build_credentials"]

_OIDC_ENVIRONMENTS = ("test", "azure", "gcp", "k8s")
_OIDC_WITH_RESOURCE = ("azure", "gcp")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and an authentication mechanism. The repr omits the password and the properties' values.

    Attributes:
        username: The user; None if the mechanism gets it from elsewhere (a certificate, the environment).
        password: The password; None if the mechanism has none.
        source: The database that defines the user, ``$external`` for users of another system.
        mechanism: The mechanism; None: negotiated with the server (SCRAM-SHA-256 or SCRAM-SHA-1).
        mechanism_properties: The properties by their names in upper case; empty for most mechanisms.
    """

    username: str | None
    password: str | None = field(repr=False)
    source: str
    mechanism: str | None = None
    mechanism_properties: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)


Credentials.__module__ = "motorlite.client_options"


def build_credentials(
    username: str | None, password: str | None, database: str | None, options: Mapping[str, Any]
) -> Credentials | None:
    """Return the credentials of a client, or None if it does not authenticate.

    A username or `authMechanism` enables authentication; a database or `authSource` alone does not.

    Raises:
        ConfigurationError: The options do not match the mechanism.
    """
    mechanism: str | None = options.get("authMechanism")
    if username is None and mechanism is None:
        if password is not None:
            raise ConfigurationError("a password is set without a username; set the option username too")
        return None
    if mechanism == "DEFAULT":
        mechanism = None
    name = mechanism or "SCRAM"
    rules = RULES[name]
    properties = dict(options.get("authMechanismProperties") or {})
    for what, rule, value in (("username", rules.username, username), ("password", rules.password, password)):
        # A username must not be empty; a password may be.
        if rule == "required" and (value is None or (what == "username" and not value)):
            whose = f" for the user {username!r}" if username else ""
            raise ConfigurationError(
                f"{name} authentication needs a {what}{whose}: write mongodb://user:password@host, "
                f"or set the option {what}"
            )
        if rule == "forbidden" and value is not None:
            if name == "MONGODB-AWS":
                raise ConfigurationError(
                    f"{name} authentication takes no {what}: credentials come from AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY in the environment, or from the mechanism property AWS_CREDENTIAL_PROVIDER"
                )
            raise ConfigurationError(f"{name} authentication takes no {what}")
    unknown = sorted(properties.keys() - set(rules.properties))
    if unknown:
        allowed = ", ".join(rules.properties) or "none"
        raise ConfigurationError(
            f"{name} authentication does not take the mechanism properties {', '.join(unknown)}; allowed are: {allowed}"
        )
    if mechanism == "GSSAPI":
        properties.setdefault("SERVICE_NAME", "mongodb")
    elif mechanism == "MONGODB-OIDC":
        _check_oidc(username, properties)
    elif mechanism == "MONGODB-AWS":
        _check_aws_provider(properties.get("AWS_CREDENTIAL_PROVIDER"))
    return Credentials(username, password, _source(name, rules, database, options), mechanism, properties)


def _source(name: str, rules: Rules, database: str | None, options: Mapping[str, Any]) -> str:
    source: str | None = options.get("authSource")
    if not rules.is_source_fixed:
        return source or database or rules.source
    if source not in (None, rules.source):
        raise ConfigurationError(f"{name} authentication needs authSource={rules.source}, not {source!r}")
    return rules.source


def _check_aws_provider(provider: object) -> None:
    if provider is None:
        return
    load = getattr(provider, "load", provider)
    if not callable(load):
        raise ConfigurationError("AWS_CREDENTIAL_PROVIDER must be a provider of botocore (with load) or a function")
    if iscoroutinefunction(load) or iscoroutinefunction(getattr(load, "__call__", None)):  # noqa: B004  # an object
        raise ConfigurationError("AWS_CREDENTIAL_PROVIDER is called in a thread: it must not be an async function")


def _check_oidc(username: str | None, properties: Mapping[str, Any]) -> None:
    """Check the properties (authentication specification, "MONGODB-OIDC", "MongoCredential Properties")."""
    from motorlite.auth_oidc import OIDCCallback

    environment = properties.get("ENVIRONMENT")
    ways = [name for name in ("ENVIRONMENT", "OIDC_CALLBACK", "OIDC_HUMAN_CALLBACK") if name in properties]
    if len(ways) != 1:
        raise ConfigurationError(
            "MONGODB-OIDC authentication needs one of the mechanism properties ENVIRONMENT, OIDC_CALLBACK "
            f"and OIDC_HUMAN_CALLBACK, but got {' and '.join(ways) or 'none of them'}"
        )
    if environment is not None and environment not in _OIDC_ENVIRONMENTS:
        raise ConfigurationError(f"ENVIRONMENT must be one of {', '.join(_OIDC_ENVIRONMENTS)}, not {environment!r}")
    if environment == "test" and username is not None:
        raise ConfigurationError("MONGODB-OIDC with ENVIRONMENT test takes no username")
    if (environment in _OIDC_WITH_RESOURCE) != ("TOKEN_RESOURCE" in properties):
        raise ConfigurationError(
            f"TOKEN_RESOURCE goes with ENVIRONMENT {' and '.join(_OIDC_WITH_RESOURCE)}, which require it"
        )
    for name in ("OIDC_CALLBACK", "OIDC_HUMAN_CALLBACK"):
        if name in properties and not is_like(properties[name], OIDCCallback):
            raise ConfigurationError(f"{name} must be a motorlite.auth_oidc.OIDCCallback")
    if "ALLOWED_HOSTS" in properties and "OIDC_HUMAN_CALLBACK" not in properties:
        raise ConfigurationError("ALLOWED_HOSTS is only for OIDC_HUMAN_CALLBACK")
