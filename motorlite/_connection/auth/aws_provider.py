"""Pure: looks up and caches the credentials of MONGODB-AWS ("Credential Fetching Order").

Everything here may block and is called in a thread. Mutable values are replaced as a whole, so no lock is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import is_encodable
from motorlite._connection.auth.aws import MONGODB_AWS, AwsCredentials
from motorlite._connection.auth.conversation import violation
from motorlite.errors import ConfigurationError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class AwsProvider:
    """The credentials of one client.

    `custom` is the mechanism property AWS_CREDENTIAL_PROVIDER: a provider of botocore (with `load`), or a function.
    Either one returns an object with `access_key`, `secret_key` and `token`.
    """

    __slots__ = ("_custom", "_environment", "_found", "_sdk")

    def __init__(
        self, custom: Any | None, environment: Callable[[], Mapping[str, str]], sdk: Callable[[], Any | None]
    ) -> None:
        self._custom = custom
        # Read again each time, because another part of the application may have refreshed the credentials.
        self._environment = environment
        self._sdk = sdk
        # A credentials object of botocore, which refreshes itself in time.
        self._found: Any | None = None

    def __repr__(self) -> str:
        return "<AwsProvider>"

    def look_up(self) -> AwsCredentials:
        """Return the current credentials for signing.

        Raises:
            PyMongoError: there are no credentials; the message says why.
        """
        try:
            return self._look_up()
        except PyMongoError:
            raise
        except Exception as error:
            # An error of the SDK or of the application; its text may contain secrets.
            raise violation(MONGODB_AWS, f"looking for credentials failed with {type(error).__name__}") from error

    def forget(self) -> None:
        """Drop the cached credentials after a failed authentication, so that all sources are consulted again."""
        self._found = None

    def _look_up(self) -> AwsCredentials:
        # Once credentials came from another source, the environment is ignored ("Environment variables").
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
        raise ConfigurationError("MONGODB-AWS needs an access key, a secret key and optionally a session token")
    if not all(map(is_encodable, (access_key, secret_key, token or ""))):
        # Happens when an environment variable contains a byte that is not UTF-8. The message reveals nothing more.
        raise ConfigurationError("MONGODB-AWS: the credentials cannot be encoded as UTF-8")
    return AwsCredentials(access_key, secret_key, token)
