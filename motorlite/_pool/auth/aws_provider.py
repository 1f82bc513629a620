"""Pure: where the credentials of MONGODB-AWS come from ("Credential Fetching Order"), and how long they are kept.

Everything here may block: it is called in a thread. What changes is replaced whole, so no lock is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._pool.auth.aws import MONGODB_AWS, AwsCredentials
from motorlite._pool.auth.conversation import violation
from motorlite.errors import ConfigurationError, PyMongoError
from motorlite.values import is_encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class AwsProvider:
    """The credentials of one client.

    `custom` is the mechanism property AWS_CREDENTIAL_PROVIDER: a provider of botocore (with `load`), or a function;
    what either returns has `access_key`, `secret_key` and `token`.
    """

    __slots__ = ("_custom", "_environment", "_found", "_sdk")

    def __init__(
        self, custom: Any | None, environment: Callable[[], Mapping[str, str]], sdk: Callable[[], Any | None]
    ) -> None:
        self._custom = custom
        # Read anew each time: another part of the application may have refreshed them.
        self._environment = environment
        self._sdk = sdk
        # An object of botocore's that keeps its credentials and refreshes them in time.
        self._found: Any | None = None

    def __repr__(self) -> str:
        return "<AwsProvider>"

    def look_up(self) -> AwsCredentials:
        """The credentials to sign with now.

        Raises:
            PyMongoError: there are none, and why.
        """
        try:
            return self._look_up()
        except PyMongoError:
            raise
        except Exception as error:
            # Of the SDK or of the application; its text may be about secrets.
            raise violation(MONGODB_AWS, f"looking for credentials failed with {type(error).__name__}") from error

    def forget(self) -> None:
        """Authentication failed: look everywhere again."""
        self._found = None

    def _look_up(self) -> AwsCredentials:
        # Once they came from elsewhere, the environment has no say any more ("Environment variables").
        found = self._found
        if found is None:
            if self._custom is None and (credentials := _from_environment(self._environment())):
                return credentials
            found = _load(self._custom) if self._custom is not None else self._sdk()
            if found is None:
                raise ConfigurationError("MONGODB-AWS: no AWS credentials were found")
            if hasattr(found, "get_frozen_credentials"):
                self._found = found
        if hasattr(found, "get_frozen_credentials"):
            found = found.get_frozen_credentials()
        return _checked(*(getattr(found, name, None) for name in ("access_key", "secret_key", "token")))


def _load(custom: Any) -> Any:
    return custom.load() if hasattr(custom, "load") else custom()


def _from_environment(environment: Mapping[str, str]) -> AwsCredentials | None:
    access_key, secret_key, token = (environment.get(name) or None for name in VARIABLES)
    if access_key is None and secret_key is None and token is None:
        return None
    return _checked(access_key, secret_key, token)


def _checked(access_key: object, secret_key: object, token: object) -> AwsCredentials:
    if not isinstance(access_key, str) or not isinstance(secret_key, str) or not isinstance(token, str | None):
        raise ConfigurationError("MONGODB-AWS: credentials are an access key, a secret key and perhaps a session token")
    if not all(map(is_encodable, (access_key, secret_key, token or ""))):
        # As the environment has them where a byte is no UTF-8. Which of them it is, and more, stays unsaid.
        raise ConfigurationError("MONGODB-AWS: the credentials cannot be encoded as UTF-8")
    return AwsCredentials(access_key, secret_key, token)
