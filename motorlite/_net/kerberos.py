"""Net: Kerberos by the package `gssapi` (libkrb5), which the extra `motorlite[gssapi]` installs."""

from __future__ import annotations

import re
import socket
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from motorlite.errors import ConfigurationError, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")

# Errors of libkrb5 are numbered from here (ERROR_TABLE_BASE_krb5, without its sign).
_FIRST_CODE: Final = 2**32 - 1765328384
_CLIENT_UNKNOWN: Final = 6
_SERVER_UNKNOWN: Final = 7
_PASSWORD_EXPIRED: Final = 23
# With and without preauthentication.
_WRONG_PASSWORD: Final = (24, 31)
_TICKET_EXPIRED: Final = 32
_CLOCK_SKEW: Final = 37
# The realm has no known KDC, and none of them answers.
_NO_KDC: Final = (154, 156)
# What the library says about errors that libkrb5 has not numbered.
_SAYS_NOTHING: Final = ("Success", "Unknown error")


def require() -> None:
    """Check that the package is installed.

    Raises:
        ConfigurationError: it is not.
    """
    if find_spec("gssapi") is None:
        raise ConfigurationError(
            "authMechanism=GSSAPI needs the package gssapi: pip install 'motorlite[gssapi]' (to build it, pip needs a "
            "C compiler and the headers of Kerberos, in Debian's package libkrb5-dev)"
        )


class SecurityContext:
    """The client's side of a security context, which has sent its first token."""

    __slots__ = ("_context", "_explain")

    def __init__(self, context: Any, explain: Callable[[Any], str]) -> None:
        self._context = context
        self._explain = explain

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        """Take the server's token and return the next one of the client; empty if there is none."""
        return _calling(lambda: self._context.step(token) or b"", self._explain)

    def unwrap(self, message: bytes) -> bytes:
        """Return what the server has wrapped."""
        return _calling(lambda: bytes(self._context.unwrap(message).message), self._explain)

    def wrap(self, message: bytes) -> bytes:
        """Protect a message against changes, without encrypting it."""
        return _calling(lambda: bytes(self._context.wrap(message, False).message), self._explain)


def open_context(
    name: str, host: str, realm: str | None, canonicalize: str, username: str, password: bytes | None
) -> tuple[SecurityContext, bytes]:
    """Get a ticket for the service `name` on `host`, and return a security context and its first token. Blocks.

    Raises:
        ConfigurationError: the package is not installed, or the name of the host cannot be resolved.
        OperationFailure: Kerberos gives the user no ticket for the service.
    """
    require()
    # Imported by name: it may be missing where this is type-checked.
    gssapi = import_module("gssapi")
    host = canonical(host, canonicalize)
    asked = f"{name}/{host}" + (f"@{realm}" if realm else "")

    without_ticket = (
        None if password is not None else f"there is no ticket for {username!r}: run kinit {username}, and see klist"
    )

    def explain(error: Any) -> str:
        is_missing = type(error).__name__ == "MissingCredentialsError"
        return explanation(error, username, asked, without_ticket if is_missing else None)

    def explain_reply(error: Any) -> str:
        return explanation(error, username, asked, f"the server has not proved that it is {asked!r}")

    def first() -> tuple[SecurityContext, bytes]:
        mechanism = gssapi.MechType.kerberos
        flags = gssapi.RequirementFlag
        context = gssapi.SecurityContext(
            name=_service(gssapi, name, host, realm),
            creds=_credentials(gssapi, username, password),
            mech=mechanism,
            flags=[flags.mutual_authentication, flags.integrity, flags.out_of_sequence_detection],
            usage="initiate",
        )
        return SecurityContext(context, explain_reply), context.step() or b""

    return _calling(first, explain)


def _service(gssapi: Any, name: str, host: str, realm: str | None) -> Any:
    if realm is None:
        # libkrb5 finds the realm by its configuration.
        return gssapi.Name(f"{name}@{host}", gssapi.NameType.hostbased_service)
    principal = "{}/{}@{}".format(*(re.sub(r"([\\/@])", r"\\\1", part) for part in (name, host, realm)))
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


def _credentials(gssapi: Any, username: str, password: bytes | None) -> Any:
    user, mechanisms = gssapi.Name(username, gssapi.NameType.user), [gssapi.MechType.kerberos]
    if password is None:
        return gssapi.Credentials(name=user, mechs=mechanisms, usage="initiate")
    return gssapi.raw.acquire_cred_with_password(user, password, mechs=mechanisms, usage="initiate").creds


def _calling(function: Callable[[], T], explain: Callable[[Any], str]) -> T:
    """Call a function of the library, and raise its errors as those of the driver."""
    gssapi_error: type[Exception] = import_module("gssapi").exceptions.GSSError
    try:
        return function()
    except gssapi_error as error:
        problem = explain(error)
    # Not as its context: the error has the token, and its frames have the password.
    raise OperationFailure(f"GSSAPI authentication failed: {problem}")


def explanation(error: Any, username: str, service: str, otherwise: str | None) -> str:
    """Say what the library's error means and what to do, or `otherwise` if that is not known."""
    minor = [said for said in error.get_all_statuses(error.min_code, False) if said not in _SAYS_NOTHING]
    said = "; ".join(minor or error.get_all_statuses(error.maj_code, True))
    is_expired = type(error).__name__ == "ExpiredCredentialsError"
    code = _TICKET_EXPIRED if is_expired else error.min_code - _FIRST_CODE
    advice = _advice(code, said, username, service) or otherwise
    return f"{advice} (Kerberos: {said})" if advice else said


def _advice(code: int, said: str, username: str, service: str) -> str | None:
    if code == _TICKET_EXPIRED:
        return f"the ticket of {username!r} has expired: run kinit {username}"
    if code in _WRONG_PASSWORD:
        return f"the password of {username!r} is wrong"
    if code == _PASSWORD_EXPIRED:
        return f"the password of {username!r} has expired: run kpasswd {username}"
    if code == _CLIENT_UNKNOWN:
        return f"the realm has no user {username!r}: write user@REALM, with the realm in capitals"
    if code == _SERVER_UNKNOWN and "krbtgt/" in said:
        return (
            f"{service!r} is in a realm that does not trust that of {username!r}: check SERVICE_REALM, "
            "and [domain_realm] in krb5.conf"
        )
    if code == _SERVER_UNKNOWN:
        return (
            f"the realm has no service {service!r}: check SERVICE_NAME and the host name, "
            "for which there are SERVICE_HOST and CANONICALIZE_HOST_NAME"
        )
    if code in _NO_KDC:
        return "no KDC of the realm could be asked: check the realm's name, [realms] in krb5.conf, and the network"
    if code == _CLOCK_SKEW:
        return "the clocks of this machine, the server and the KDC differ by minutes: synchronise them"
    return None


def canonical(host: str, how: str) -> str:
    """Return the name of `host` by CANONICALIZE_HOST_NAME (none, forward or forwardAndReverse). Blocks.

    Raises:
        ConfigurationError: the name cannot be resolved.
    """
    if how == "none":
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"GSSAPI: CANONICALIZE_HOST_NAME={how} cannot resolve {host!r} ({error}); set SERVICE_HOST, or none"
        ) from error
    *_, name, address = found[0]
    if how == "forwardAndReverse":
        try:
            return socket.getnameinfo(address, socket.NI_NAMEREQD)[0].lower()
        except OSError:
            # An address without a name: as with "forward".
            pass
    return (name or host).lower()
