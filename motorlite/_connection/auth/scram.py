"""Pure: SCRAM-SHA-1 and SCRAM-SHA-256 (RFC 5802, RFC 7677, authentication specification)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import stringprep
from base64 import b64decode, b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unicodedata import ucd_3_2_0

from motorlite._connection.auth.conversation import Compute, SaslReply, encode, run, violation
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from motorlite._base.values import Document
    from motorlite._connection.auth.conversation import Conversation, Request


# SASLprep, which prepares passwords for SCRAM-SHA-256 (RFC 4013, a profile of RFC 3454).

# RFC 4013 section 2.3, and section 2.5 for unassigned code points, because RFC 5802 prepares "stored strings".
_PROHIBITED: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (stringprep.in_table_c12, "a space other than U+0020"),
    (stringprep.in_table_c21_c22, "a control character"),
    (stringprep.in_table_c3, "a private use character"),
    (stringprep.in_table_c4, "a non-character code point"),
    (stringprep.in_table_c5, "a surrogate"),
    (stringprep.in_table_c6, "a character that is unfit for plain text"),
    (stringprep.in_table_c7, "a character that is unfit for canonical representation"),
    (stringprep.in_table_c8, "a character that changes display properties, or a deprecated one"),
    (stringprep.in_table_c9, "a tagging character"),
    (stringprep.in_table_a1, "a code point that Unicode 3.2 does not assign"),
)


def saslprep(text: str) -> str:
    """Prepare `text` for key derivation.

    Raises:
        ConfigurationError: The text contains a prohibited character. The error names the rule but never the text.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    # stringprep is defined on Unicode 3.2. A newer normalization would derive keys that differ from the server's.
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    for is_prohibited, name in _PROHIBITED:
        if any(map(is_prohibited, prepared)):
            raise ConfigurationError(f"SASLprep: the password contains {name} (RFC 4013)")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """Check RFC 3454 section 6: right-to-left text has no left-to-right characters, and begins and ends as such."""
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ConfigurationError("SASLprep: the password mixes right-to-left and left-to-right text (RFC 4013)")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ConfigurationError(
            "SASLprep: a right-to-left password must begin and end with a right-to-left character (RFC 4013)"
        )


SCRAM_SHA_1: Final = "SCRAM-SHA-1"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
DIGESTS: Final = {SCRAM_SHA_1: "sha1", SCRAM_SHA_256: "sha256"}

# A lower count is a downgrade attack (authentication specification).
MIN_ITERATIONS: Final = 4096
_ITERATIONS: Final = re.compile(rb"i=([1-9][0-9]{0,9})")

# Maximum number of bytes of the server's text that an error repeats.
_MAX_SHOWN: Final = 200

Keys: TypeAlias = tuple[bytes, bytes]
"""ClientKey and ServerKey."""
_CacheKey: TypeAlias = tuple[str, bytes, bytes, int]


class KeyCache:
    """Derived keys by mechanism, digest of the password, salt and iterations; owned by the client.

    A server may request at most `max_iterations`.
    """

    __slots__ = ("_keys", "max_iterations")

    # A user has one salt per mechanism. A server that makes up new salts must not make the cache grow.
    CAPACITY: Final = 32

    def __init__(self, max_iterations: int) -> None:
        self.max_iterations: int = max_iterations
        self._keys: dict[_CacheKey, Keys] = {}

    def __repr__(self) -> str:
        return f"<KeyCache with {len(self._keys)} entries>"

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: _CacheKey) -> Keys | None:
        return self._keys.get(key)

    def put(self, key: _CacheKey, keys: Keys) -> None:
        if key not in self._keys and len(self._keys) >= self.CAPACITY:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = keys


class ScramUser:
    """The user to authenticate, and the nonce of a single attempt."""

    __slots__ = ("nonce", "password", "source", "username")

    def __init__(self, username: str, password: str, source: str, nonce: bytes) -> None:
        self.username = username
        self.password = password
        self.source = source
        # Base64 contains neither commas nor control characters, which RFC 5802 forbids in a nonce.
        self.nonce = b64encode(nonce)

    def __repr__(self) -> str:
        return "<ScramUser>"

    def first_bare(self) -> bytes:
        # Deliberately not prepared with SASLprep (authentication specification).
        escaped = self.username.replace("=", "=3D").replace(",", "=2C")
        return b"n=%s,r=%s" % (encode(escaped, "the username"), self.nonce)


def start_command(mechanism: str, user: ScramUser) -> Document:
    """Return the first message, to be sent as its own command or as `speculativeAuthenticate`."""
    return {
        "saslStart": 1,
        "mechanism": mechanism,
        # "n": no channel binding; the server does not support any.
        "payload": b"n,," + user.first_bare(),
        "autoAuthorize": 1,
        "options": {"skipEmptyExchange": True},
    }


def converse(
    mechanism: str, user: ScramUser, cache: KeyCache, speculative_reply: Mapping[str, Any] | None = None
) -> Conversation:
    """Authenticate; `speculative_reply` is the reply to a first message that the handshake carried."""
    first = speculative_reply
    if first is None:
        first = yield from run(user.source, start_command(mechanism, user))
    server_first = SaslReply(mechanism, first)
    if server_first.is_done:
        raise violation(mechanism, "the server ended the conversation before it proved its identity")
    nonce, salt, iterations = parse_server_first(mechanism, server_first.payload, user.nonce, cache.max_iterations)
    keys = yield from _keys(mechanism, user, salt, iterations, cache)

    without_proof = b"c=%s,r=%s" % (b64encode(b"n,,"), nonce)
    auth_message = b",".join((user.first_bare(), server_first.payload, without_proof))
    proof, expected = sign(DIGESTS[mechanism], keys, auth_message)
    final = b"%s,p=%s" % (without_proof, b64encode(proof))
    reply = yield from _continue(mechanism, user, server_first, final)
    check_server_final(mechanism, reply.payload, expected)
    if not reply.is_done:
        # Servers older than 4.4 ignore skipEmptyExchange and expect one more, empty message.
        reply = yield from _continue(mechanism, user, server_first, b"")
        if not reply.is_done:
            raise violation(mechanism, "the server did not end the conversation")


def _continue(mechanism: str, user: ScramUser, first: SaslReply, payload: bytes) -> Generator[Request, Any, SaslReply]:
    command = {"saslContinue": 1, "conversationId": first.conversation_id, "payload": payload}
    reply = yield from run(user.source, command)
    return SaslReply(mechanism, reply)


def parse_server_first(
    mechanism: str, message: bytes, client_nonce: bytes, max_iterations: int
) -> tuple[bytes, bytes, int]:
    """Return nonce, salt and iteration count of ``r=...,s=...,i=...``; extensions are ignored (RFC 5802)."""
    fields = message.split(b",")
    if len(fields) < 3 or fields[0][:2] != b"r=" or fields[1][:2] != b"s=":
        raise violation(mechanism, "the server's first message is malformed")
    nonce = fields[0][2:]
    if not nonce.startswith(client_nonce) or len(nonce) == len(client_nonce):
        raise violation(mechanism, "the server's nonce does not extend the client's")
    salt = _unbase64(fields[1][2:])
    if not salt:
        raise violation(mechanism, "the server's salt is malformed")
    match = _ITERATIONS.fullmatch(fields[2])
    if match is None:
        raise violation(mechanism, "the server's iteration count is malformed")
    iterations = int(match[1])
    if not MIN_ITERATIONS <= iterations <= max_iterations:
        raise violation(
            mechanism,
            f"the server's iteration count is {iterations}, allowed are {MIN_ITERATIONS} to {max_iterations} "
            "(scramMaxIterations)",
        )
    return nonce, salt, iterations


def check_server_final(mechanism: str, message: bytes, expected: bytes) -> None:
    """Check the server's proof that it knows the user's keys too."""
    field = message.split(b",")[0]
    if field[:2] == b"e=":
        raise violation(mechanism, f"the server says {field[2:][:_MAX_SHOWN].decode(errors='replace')!r}")
    signature = _unbase64(field[2:]) if field[:2] == b"v=" else None
    if signature is None or not hmac.compare_digest(signature, expected):
        raise violation(mechanism, "the server's signature is wrong: it does not know this user's credentials")


def _keys(
    mechanism: str, user: ScramUser, salt: bytes, iterations: int, cache: KeyCache
) -> Generator[Request, Any, Keys]:
    password = _prepared_password(mechanism, user)
    cache_key = (mechanism, hashlib.sha256(password).digest(), salt, iterations)
    keys = cache.get(cache_key)
    if keys is None:
        derive = partial(derive_keys, DIGESTS[mechanism], password, salt, iterations)
        keys = yield Compute(cache_key, derive, partial(cache.put, cache_key))
    return keys


def derive_keys(digest: str, password: bytes, salt: bytes, iterations: int) -> Keys:
    """Derive ClientKey and ServerKey; takes milliseconds by design."""
    salted = hashlib.pbkdf2_hmac(digest, password, salt, iterations)
    return hmac.digest(salted, b"Client Key", digest), hmac.digest(salted, b"Server Key", digest)


def sign(digest: str, keys: Keys, auth_message: bytes) -> tuple[bytes, bytes]:
    """Return the ClientProof and the expected ServerSignature (RFC 5802 section 3)."""
    client_key, server_key = keys
    stored_key = hashlib.new(digest, client_key).digest()
    mask = hmac.digest(stored_key, auth_message, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
    return proof, hmac.digest(server_key, auth_message, digest)


def _prepared_password(mechanism: str, user: ScramUser) -> bytes:
    if mechanism == SCRAM_SHA_256:
        return encode(saslprep(user.password), "the password")
    # The server only ever stores this digest. Security does not depend on MD5.
    plain = encode(f"{user.username}:mongo:{user.password}", "the username or password")
    return hashlib.md5(plain, usedforsecurity=False).hexdigest().encode()


def _unbase64(text: bytes) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        return None
