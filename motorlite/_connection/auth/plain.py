"""Pure: PLAIN (RFC 4616), which MongoDB uses for LDAP; the password is sent in plain text, so only use it with TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from motorlite._connection.auth.conversation import SaslReply, encode, run, violation
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._connection.auth.conversation import Conversation

PLAIN: Final = "PLAIN"


def converse(username: str, password: str, source: str) -> Conversation:
    """Authenticate in one message."""
    if "\0" in username or "\0" in password:
        raise ConfigurationError("PLAIN: username and password must not contain NUL (RFC 4616)")
    payload = b"\0%s\0%s" % (encode(username, "the username"), encode(password, "the password"))
    command = {"saslStart": 1, "mechanism": PLAIN, "payload": payload, "autoAuthorize": 1}
    reply = yield from run(source, command, (password,))
    if not SaslReply(PLAIN, reply).is_done:
        raise violation(PLAIN, "the server did not end the conversation")
