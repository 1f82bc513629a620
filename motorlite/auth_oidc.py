"""Pure: what an application writes to authenticate with MONGODB-OIDC; the names are those of `pymongo.auth_oidc`."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["OIDCCallback", "OIDCCallbackContext", "OIDCCallbackResult", "OIDCIdPInfo"]


@dataclass
class OIDCIdPInfo:
    """What the server says of the identity provider; for human callbacks.

    Attributes:
        issuer: A URL of the authentication server, as in the claim ``iss`` of its tokens.
        clientId: This client's id there, or None.
        requestScopes: More scopes to ask for, or None.
    """

    issuer: str
    clientId: str | None = None
    requestScopes: list[str] | None = None


@dataclass
class OIDCCallbackContext:
    """What a callback is given. Later versions may add attributes.

    Attributes:
        timeout_seconds: How long the callback may take.
        username: The username of the client, or the empty string.
        version: Of this interface; grows with every change that callbacks may want to know of.
        refresh_token: What an earlier call of a human callback returned as such, or None.
        idp_info: The identity provider; None for machine callbacks.
    """

    timeout_seconds: float
    username: str
    version: int
    refresh_token: str | None = field(default=None, repr=False)
    idp_info: OIDCIdPInfo | None = None


@dataclass
class OIDCCallbackResult:
    """What a callback returns. The tokens are not in the repr.

    Attributes:
        access_token: The token to authenticate with.
        expires_in_seconds: How long it is valid, or None; not used yet.
        refresh_token: What the next call of a human callback is given as such, or None.
    """

    access_token: str = field(repr=False)
    expires_in_seconds: float | None = None
    refresh_token: str | None = field(default=None, repr=False)


class OIDCCallback(abc.ABC):
    """Gets access tokens from an identity provider: the mechanism property `OIDC_CALLBACK` or `OIDC_HUMAN_CALLBACK`."""

    @abc.abstractmethod
    def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult | Awaitable[OIDCCallbackResult]:
        """A new token.

        Write it with ``async def``, and it runs on the client's event loop, in a background task with an empty
        context; with ``def`` it runs in a thread. The driver keeps tokens and calls it only when it needs another
        one, one call at a time, and at most ten times per second. It waits for one minute (five for
        `OIDC_HUMAN_CALLBACK`). Then it cancels an asynchronous callback; a synchronous one cannot be cancelled, so
        the next call does not wait for it.

        Args:
            context: Who asks, and how long it may take.

        Raises:
            Exception: Whatever you raise becomes the cause of the `OperationFailure` that the operation raises.
        """
