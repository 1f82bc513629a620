"""Pure: MONGODB-AWS: proves the caller's identity with a signed AWS request.

The client signs the request (GetCallerIdentity) with Signature Version 4 but never sends it. The server sends it to AWS
to find out whose signature it is.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson
from bson.binary import Binary
from bson.errors import BSONError

from motorlite._base.hosts import is_dns_name
from motorlite._base.values import is_encodable
from motorlite._connection.auth.conversation import EXTERNAL, NeedAwsCredentials, NeedDate, SaslReply, run, violation
from motorlite.errors import ConfigurationError, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._connection.auth.conversation import Conversation


MONGODB_AWS: Final = "MONGODB-AWS"
NONCE_BYTES: Final = 32
DEFAULT_REGION: Final = "us-east-1"
_GLOBAL_HOSTS: Final = ("sts.amazonaws.com", "aws.amazonaws.com")
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_BODY: Final = b"Action=GetCallerIdentity&Version=2011-06-15"


class AwsCredentials(NamedTuple):
    """The credentials that sign a request to AWS."""

    access_key: str
    secret_key: str
    # The session token of temporary credentials.
    token: str | None = None

    def __repr__(self) -> str:
        return "<AwsCredentials>"


def converse(nonce: bytes) -> Conversation:
    """Authenticate with `nonce`, 32 fresh random bytes."""
    credentials: AwsCredentials = yield NeedAwsCredentials()
    # 110 is "n": no channel binding; the server does not support any.
    first = Binary(bson.encode({"r": Binary(nonce), "p": ord("n")}))
    reply = yield from run(EXTERNAL, {"saslStart": 1, "mechanism": MONGODB_AWS, "payload": first})
    server_first = SaslReply(MONGODB_AWS, reply)
    if server_first.is_done:
        raise violation(MONGODB_AWS, "the server ended the conversation before it got a signature")
    server_nonce, host = parse_server_first(server_first.payload, nonce)
    date: str = yield NeedDate()
    second: dict[str, Any] = {"a": authorization(credentials, host, server_nonce, date), "d": date}
    if credentials.token is not None:
        second["t"] = credentials.token
    command = {
        "saslContinue": 1,
        "conversationId": server_first.conversation_id,
        "payload": Binary(bson.encode(second)),
    }
    secrets = (credentials.token, credentials.secret_key)
    if not SaslReply(MONGODB_AWS, (yield from run(EXTERNAL, command, secrets))).is_done:
        raise violation(MONGODB_AWS, "the server did not end the conversation")


def parse_server_first(payload: bytes, nonce: bytes) -> tuple[bytes, str]:
    """Return the server's nonce and the host of the AWS Security Token Service."""
    try:
        document: dict[str, Any] = bson.decode(payload)
    except BSONError:
        document = {}
    server_nonce, host = document.get("s"), document.get("h")
    if not isinstance(server_nonce, bytes) or not isinstance(host, str):
        raise violation(MONGODB_AWS, "the server's first message is malformed")
    if len(server_nonce) != 2 * NONCE_BYTES or not hmac.compare_digest(server_nonce[:NONCE_BYTES], nonce):
        raise violation(MONGODB_AWS, "the server's nonce does not extend the client's to 64 bytes")
    # The host is part of the signed text, where a line break would start another header.
    if not is_dns_name(host):
        raise violation(MONGODB_AWS, f"the server names {host[:100]!r} as the STS host, which is not a host name")
    return bytes(server_nonce), host


def region(host: str) -> str:
    """Return the region of a valid STS host name ("Region Calculation")."""
    if host in _GLOBAL_HOSTS or "." not in host:
        return DEFAULT_REGION
    return host.split(".")[1]


def authorization(credentials: AwsCredentials, host: str, server_nonce: bytes, date: str) -> str:
    """Return the header `Authorization`; `date` is UTC as ``YYYYMMDDTHHMMSSZ``."""
    headers = {
        "content-length": str(len(_BODY)),
        "content-type": "application/x-www-form-urlencoded",
        "host": host,
        "x-amz-date": date,
        "x-mongodb-gs2-cb-flag": "n",
        "x-mongodb-server-nonce": b64encode(server_nonce).decode(),
    }
    if credentials.token is not None:
        headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    # Method, path, an empty query, headers, their names, and the body.
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(_BODY).hexdigest()}"
    day, where = date[:8], region(host)
    scope = f"{day}/{where}/sts/aws4_request"
    to_sign = f"{_ALGORITHM}\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = signing_key(credentials.secret_key, day, where, "sts")
    signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    return f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"


def signing_key(secret_key: str, day: str, where: str, service: str) -> bytes:
    """Derive the signing key for one day, region and service."""
    key = f"AWS4{secret_key}".encode()
    for part in (day, where, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


# Looks up and caches the credentials of MONGODB-AWS ("Credential Fetching Order").
#
# Everything here may block and is called in a thread. Mutable values are replaced as a whole, so no lock is needed.

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
