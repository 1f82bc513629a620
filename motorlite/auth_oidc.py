"""Pure: callbacks for authentication with MONGODB-OIDC, with the names of `pymongo.auth_oidc`."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["OIDCCallback", "OIDCCallbackContext", "OIDCCallbackResult", "OIDCIdPInfo"]


@dataclass
class OIDCIdPInfo:
    """The server's information about the identity provider, for human callbacks.

    Attributes:
        issuer: The URL of the authorization server, as in the ``iss`` claim of its tokens.
        clientId: The client id registered there, or None.
        requestScopes: Additional scopes to request, or None.
    """

    issuer: str
    clientId: str | None = None
    requestScopes: list[str] | None = None


@dataclass
class OIDCCallbackContext:
    """The argument of a callback. Later versions may add attributes.

    Attributes:
        timeout_seconds: The time limit of the callback.
        username: The username of the client, or the empty string.
        version: The version of this interface; incremented with every change relevant to callbacks.
        refresh_token: The refresh token that an earlier call of a human callback returned, or None.
        idp_info: The identity provider; None for machine callbacks.
    """

    timeout_seconds: float
    username: str
    version: int
    refresh_token: str | None = field(default=None, repr=False)
    idp_info: OIDCIdPInfo | None = None


@dataclass
class OIDCCallbackResult:
    """The result of a callback. The repr omits the tokens.

    Attributes:
        access_token: The token to authenticate with.
        expires_in_seconds: The token's lifetime, or None; not used yet.
        refresh_token: The refresh token for the next call of a human callback, or None.
    """

    access_token: str = field(repr=False)
    expires_in_seconds: float | None = None
    refresh_token: str | None = field(default=None, repr=False)


class OIDCCallback(abc.ABC):
    """Fetches access tokens from an identity provider, as the property `OIDC_CALLBACK` or `OIDC_HUMAN_CALLBACK`."""

    def __repr__(self) -> str:
        # Without attributes, which may be secrets.
        return f"<{type(self).__qualname__}>"

    @abc.abstractmethod
    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult | Awaitable[OIDCCallbackResult]:
        """Return a new token.

        An ``async def`` method runs on the client's event loop, in a background task with an empty context. A plain
        ``def`` method runs in a thread. The driver caches tokens and calls this method only when it needs a new one,
        one call at a time and at most ten times per second. It waits for one minute (five for `OIDC_HUMAN_CALLBACK`),
        then cancels an asynchronous callback. A synchronous callback cannot be cancelled, so the next call does not
        wait for it.

        Args:
            context: The client's username, the time limit and the identity provider.

        Raises:
            Exception: Any exception becomes the cause of the `OperationFailure` that the operation raises.
        """
