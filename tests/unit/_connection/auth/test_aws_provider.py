"""Where AWS credentials come from, and how long they are kept (the specification's tests of caching among them)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from motorlite._connection.auth.aws import AwsCredentials, AwsProvider
from motorlite.errors import ConfigurationError, OperationFailure

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "env id", "AWS_SECRET_ACCESS_KEY": "env secret"}
FROM_ENVIRONMENT = AwsCredentials("env id", "env secret")


def plain(name: str, token: str | None = None) -> Any:
    return SimpleNamespace(access_key=f"{name} id", secret_key=f"{name} secret", token=token)


class Refreshable:
    """As botocore's credentials, which refresh themselves."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def get_frozen_credentials(self) -> Any:
        name = self.names.pop(0) if len(self.names) > 1 else self.names[0]
        return plain(name, "token")


class Sources:
    """A provider, and how often its sources were asked."""

    def __init__(self, custom: Any = None, sdk: Any = None) -> None:
        self.environment: dict[str, str] = {}
        self.sdk_calls = 0
        self.sdk = sdk
        self.provider = AwsProvider(custom, lambda: self.environment, self._sdk)

    def _sdk(self) -> Any:
        self.sdk_calls += 1
        if isinstance(self.sdk, Exception):
            raise self.sdk
        return self.sdk

    def look_up(self) -> AwsCredentials:
        return self.provider.look_up()


@pytest.mark.parametrize("token", [None, "session token"])
def test_environment(token: str | None) -> None:
    sources = Sources(sdk=plain("sdk"))
    sources.environment = {**ENVIRONMENT, **({"AWS_SESSION_TOKEN": token} if token else {})}
    assert sources.look_up() == AwsCredentials("env id", "env secret", token)
    assert sources.sdk_calls == 0


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("value", [None, ""])
def test_half_an_environment_is_an_error(missing: str, value: str | None) -> None:
    sources = Sources(sdk=plain("sdk"))
    sources.environment = {**ENVIRONMENT, "AWS_SESSION_TOKEN": "token"}
    if value is None:
        del sources.environment[missing]
    else:
        sources.environment[missing] = value
    with pytest.raises(ConfigurationError, match="a secret key and optionally a session token") as caught:
        sources.look_up()
    assert "env" not in str(caught.value)


def test_the_sdk_keeps_and_refreshes() -> None:
    sources = Sources(sdk=Refreshable("first", "second"))
    assert sources.look_up() == AwsCredentials("first id", "first secret", "token")
    assert sources.look_up() == AwsCredentials("second id", "second secret", "token")
    assert sources.sdk_calls == 1


def test_a_failure_clears_the_cache() -> None:
    sources = Sources(sdk=Refreshable("first"))
    sources.look_up()
    sources.provider.forget()
    sources.look_up()
    assert sources.sdk_calls == 2


def test_credentials_of_the_environment_are_not_kept() -> None:
    sources = Sources(sdk=Refreshable("sdk"))
    sources.environment = ENVIRONMENT
    sources.look_up()
    sources.environment = {}
    assert sources.look_up().access_key == "sdk id"


def test_the_environment_has_no_say_once_others_were_asked() -> None:
    sources = Sources(sdk=Refreshable("sdk"))
    sources.look_up()
    sources.environment = ENVIRONMENT
    assert sources.look_up().access_key == "sdk id"
    sources.provider.forget()
    assert sources.look_up() == FROM_ENVIRONMENT


@pytest.mark.parametrize(
    ("sdk", "text"),
    [(None, "no AWS credentials were found"), (ConfigurationError("install botocore"), "install botocore")],
)
def test_there_are_none(sdk: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Sources(sdk=sdk).look_up()


def test_errors_of_the_sdk_do_not_show_their_text() -> None:
    failure = RuntimeError("secret")
    with pytest.raises(OperationFailure, match="looking for credentials failed with RuntimeError") as caught:
        Sources(sdk=failure).look_up()
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is failure


class Provider:
    """As botocore's credential providers."""

    def __init__(self, result: Any) -> None:
        self.calls = 0
        self.result = result

    def load(self) -> Any:
        self.calls += 1
        return self.result


def test_a_custom_provider_comes_first() -> None:
    provider = Provider(Refreshable("custom"))
    sources = Sources(provider)
    sources.environment = ENVIRONMENT
    for _ in range(2):
        assert sources.look_up() == AwsCredentials("custom id", "custom secret", "token")
    assert (provider.calls, sources.sdk_calls) == (1, 0)


def test_a_function_is_a_provider_too_and_keeps_its_own() -> None:
    names = iter(["first", "second"])
    sources = Sources(lambda: plain(next(names)))
    assert sources.look_up() == AwsCredentials("first id", "first secret")
    assert sources.look_up() == AwsCredentials("second id", "second secret")


@pytest.mark.parametrize("result", [{"access_key": "a"}, plain("a", 7), SimpleNamespace(access_key="a")])  # type: ignore[arg-type]  # on purpose
def test_a_provider_that_returns_something_else(result: Any) -> None:
    with pytest.raises(ConfigurationError, match="an access key, a secret key"):
        Sources(lambda: result).look_up()


@pytest.mark.parametrize("field", ["access_key", "secret_key", "token"])
def test_credentials_that_no_request_can_hold(field: str) -> None:
    # As the environment has it where a byte is no UTF-8.
    text = b"secret\xe9".decode(errors="surrogateescape")
    credentials = plain("a", "token")
    setattr(credentials, field, text)
    variable = {"access_key": "AWS_ACCESS_KEY_ID", "secret_key": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"}
    environment = Sources()
    environment.environment = {**ENVIRONMENT, variable[field]: text}
    for sources in (Sources(lambda: credentials), environment):
        with pytest.raises(ConfigurationError, match="cannot be encoded as UTF-8") as caught:
            sources.look_up()
        assert caught.value.__context__ is None, "UnicodeEncodeError shows the text"


def test_the_reprs_are_redacted() -> None:
    assert repr(Sources(sdk=plain("x")).provider) == "<AwsProvider>"
    assert repr(FROM_ENVIRONMENT) == str(FROM_ENVIRONMENT) == "<AwsCredentials>"
