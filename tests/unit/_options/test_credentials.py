"""Credentials: what the public suite does not ask."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._options.credentials import Credentials, build_credentials
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import ConfigurationError


class Callback(OIDCCallback):
    """Never called here."""

    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
        raise NotImplementedError


callback = Callback()


def build(username: str | None = None, password: str | None = None, **options: Any) -> Credentials | None:
    return build_credentials(username, password, None, options)


async def provider() -> None:
    """As of an application that takes the driver to await it."""


class Provider:
    async def load(self) -> None: ...


class CallableProvider:
    async def __call__(self) -> None: ...


def test_the_default_mechanism_is_negotiated() -> None:
    credentials = build("u", "p", authMechanism="DEFAULT")
    assert credentials == Credentials("u", "p", "admin")
    assert credentials is not None
    assert hash(credentials) == hash(Credentials("u", "p", "admin"))


def test_the_repr_shows_no_secret() -> None:
    credentials = build("u", "hunter2", authMechanism="GSSAPI", authMechanismProperties={"SERVICE_NAME": "s3"})
    assert repr(credentials) == "Credentials(username='u', source='$external', mechanism='GSSAPI')"


def test_objects_are_kept() -> None:
    properties = {"OIDC_HUMAN_CALLBACK": callback, "ALLOWED_HOSTS": ("*.example.com",)}
    credentials = build(authMechanism="MONGODB-OIDC", authMechanismProperties=properties)
    assert credentials is not None
    assert credentials.mechanism_properties == properties
    provider = build
    aws = build(authMechanism="MONGODB-AWS", authMechanismProperties={"AWS_CREDENTIAL_PROVIDER": provider})
    assert aws is not None
    assert aws.mechanism_properties == {"AWS_CREDENTIAL_PROVIDER": provider}


@pytest.mark.parametrize(
    ("username", "password", "mechanism", "properties", "text"),
    [
        (None, "p", None, {}, "a password is set without a username; set the option username too"),
        (None, None, "DEFAULT", {}, "SCRAM authentication needs a username"),
        (
            "u",
            None,
            "SCRAM-SHA-1",
            {},
            "SCRAM-SHA-1 .* needs a password for the user 'u': write mongodb://user:password@",
        ),
        ("u", "p", "MONGODB-X509", {}, "MONGODB-X509 authentication takes no password"),
        ("u", "p", None, {"SERVICE_NAME": "x"}, "mechanism properties SERVICE_NAME; allowed are: none"),
        ("", "p", None, {}, "SCRAM authentication needs a username"),
        ("", "p", "PLAIN", {}, "PLAIN authentication needs a username"),
        (None, None, "MONGODB-OIDC", {"OIDC_CALLBACK": build}, "OIDC_CALLBACK must be a motorlite.auth_oidc"),
        (None, None, "MONGODB-AWS", {"AWS_CREDENTIAL_PROVIDER": "me"}, "must be a provider of botocore"),
        (None, None, "MONGODB-AWS", {"AWS_CREDENTIAL_PROVIDER": provider}, "must not be an async function"),
        (None, None, "MONGODB-AWS", {"AWS_CREDENTIAL_PROVIDER": Provider()}, "must not be an async function"),
        (None, None, "MONGODB-AWS", {"AWS_CREDENTIAL_PROVIDER": CallableProvider()}, "must not be an async function"),
        ("AKIA", "secret", "MONGODB-AWS", {}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.*AWS_CREDENTIAL_PROVIDER"),
        (None, "secret", "MONGODB-AWS", {}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.*AWS_CREDENTIAL_PROVIDER"),
        ("u", "p", "GSSAPI", {"ENVIRONMENT": "x"}, "allowed are: SERVICE_NAME"),
        (None, None, "MONGODB-OIDC", {}, "got none of them"),
        (
            None,
            None,
            "MONGODB-OIDC",
            {"ENVIRONMENT": "k8s", "OIDC_CALLBACK": callback},
            "got ENVIRONMENT and OIDC_CALL",
        ),
        (None, None, "MONGODB-OIDC", {"ENVIRONMENT": "x"}, "one of test, azure, gcp, k8s, not 'x'"),
        ("u", None, "MONGODB-OIDC", {"ENVIRONMENT": "test"}, "takes no username"),
        (None, None, "MONGODB-OIDC", {"ENVIRONMENT": "k8s", "TOKEN_RESOURCE": "x"}, "TOKEN_RESOURCE goes with"),
        (None, None, "MONGODB-OIDC", {"ENVIRONMENT": "gcp"}, "TOKEN_RESOURCE goes with"),
        (None, None, "MONGODB-OIDC", {"OIDC_CALLBACK": callback, "ALLOWED_HOSTS": ("a",)}, "ALLOWED_HOSTS is only for"),
    ],
)
def test_what_does_not_fit(
    username: str | None, password: str | None, mechanism: str | None, properties: dict[str, Any], text: str
) -> None:
    options: dict[str, Any] = {"authMechanismProperties": properties}
    if mechanism is not None:
        options["authMechanism"] = mechanism
    with pytest.raises(ConfigurationError, match=text):
        build(username, password, **options)


def test_a_fixed_source() -> None:
    with pytest.raises(ConfigurationError, match="needs authSource=\\$external, not 'admin'"):
        build("u", authMechanism="MONGODB-X509", authSource="admin")
