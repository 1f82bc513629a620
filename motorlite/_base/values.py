"""Pure: small values that every layer shares."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.raw_bson import RawBSONDocument

if TYPE_CHECKING:
    from dataclasses import Field

    from bson.codec_options import CodecOptions


Address: TypeAlias = tuple[str, int | None]
"""A server: lower-case host and port, or the path of a Unix domain socket and None."""

Document: TypeAlias = dict[str, Any]
"""A command or reply, as the codec returns it."""


def format_address(address: Address) -> str:
    """`address` as ``host:port`` (IPv6 hosts in brackets), or the socket's path."""
    host, port = address
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cut(text: str, limit: int) -> str:
    """Truncate `text` to `limit` characters, plus an ellipsis that does not count."""
    return text if len(text) <= limit else text[:limit] + "..."


def printable(text: str) -> str:
    """Return `text` with escapes for what a terminal would execute, and for line breaks, which could forge lines."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def is_encodable(text: str) -> bool:
    """Whether `text` can be encoded as UTF-8. A lone surrogate cannot.

    Returns a bool instead of raising: UnicodeEncodeError shows the whole text, which may be a secret.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def recognized(codec_options: CodecOptions[Any]) -> CodecOptions[Any]:
    """Return the default options themselves for equal ones, which saves a comparison for every command and reply."""
    return DEFAULT_CODEC_OPTIONS if codec_options == DEFAULT_CODEC_OPTIONS else codec_options


class ByFields:
    """A dataclass that is shown, compared and hashed by its fields, like others.

    Its decorator has ``eq=False, repr=False``: Python compiles the methods of each class anew, which takes longer than
    the import of most modules.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __repr__(self) -> str:
        shown = [name for name, each in self.__dataclass_fields__.items() if each.repr]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))


def _values(value: ByFields) -> tuple[object, ...]:
    return tuple([getattr(value, name) for name in value.__dataclass_fields__])


@dataclass(slots=True, eq=False, repr=False)
class ServerFacts:
    """The facts about a connection's server that operations may use, from the connection's handshake.

    The limits are the server's own (hello). The defaults come from the server discovery specification, for a server
    that announces none.
    """

    address: Address
    _: KW_ONLY
    min_wire_version: int = 0
    max_wire_version: int = 0
    # Bytes of one document, bytes of one message, and the number of writes in one command.
    max_bson_object_size: int = 16 * 1024 * 1024
    max_message_size: int = 48_000_000
    max_write_batch_size: int = 100_000
    # Bytes of the writes in one command, except for a single one. Automatic encryption lowers it.
    max_batch_bytes: int = 48_000_000
    is_standalone: bool = False
    is_mongos: bool = False
    is_load_balanced: bool = False
    # It is mongocryptd, which refuses maxTimeMS.
    is_cryptd: bool = False
    # None: the server does not support sessions (driver sessions specification).
    session_timeout_minutes: int | None = None
    supports_sessions: bool = field(init=False)
    # Retryable writes specification, "Supported Server Versions".
    supports_retryable_writes: bool = field(init=False)

    def __post_init__(self) -> None:
        self.supports_sessions = self.session_timeout_minutes is not None or self.is_load_balanced
        self.supports_retryable_writes = self.supports_sessions and not self.is_standalone


# How far an attempt of an operation got.


# Modules of the hot path bind the members of enumerations that they use to globals (`_NOT_SENT`): on Python 3.11,
# reading `Progress.NOT_SENT` takes 0.28 µs and a global 0.02 µs.


class Progress(enum.Enum):
    """What the server may have done with a command, as far as the client knows."""

    NOT_SENT = "not sent"
    """Nothing: the server never received the whole command. This includes a partly written command: its connection is
    closed before the rest follows."""
    IN_FLIGHT = "in flight"
    """Everything or nothing: the socket accepted the whole command, and no reply arrived."""
    ANSWERED = "answered"
    """What its reply says."""


class DocumentView(RawBSONDocument):
    """A document whose largest value, which is binary data, has not been copied out of its reply.

    As a document class for decoding it asks for such documents. Others of a reply, without such a value, are dicts.
    """

    __slots__ = ("fields",)

    # The document, with a memoryview of the reply's buffer as its largest value. It keeps all of the buffer alive.
    fields: Document

    @property
    def raw(self) -> bytes:
        """The document's bytes, copied: listeners may keep them."""
        return bytes(super().raw)


class RawBatch(RawBSONDocument):
    """As a document class for decoding, it asks for batches as `EncodedDocuments`."""

    __slots__ = ()


class EncodedDocuments(list[bytes]):
    """The documents of a batch as BSON. They are plain bytes because the garbage collector does not track these."""

    __slots__ = ()


# Estimates how large a document is once it is encoded.

# No message is larger, so it makes no difference by how much.
_LARGEST: Final = 48_000_000
# A length and the zero byte at the end.
_CONTAINER: Final = 5
# The type and the zero byte of a name.
_ELEMENT: Final = 2
# Numbers, times and ids.
_SCALAR: Final = 8


def estimated_size(value: Any, limit: int = _LARGEST) -> int:
    """Return about as many bytes as `value` has in BSON; beyond `limit`, some number above it.

    Text counts by its characters, and values of unknown types as numbers. Names of array elements do not count.
    """
    size, left = 0, [value]
    # A document that contains itself ends with the limit; `bson` refuses it later.
    while left and size < limit:
        value = left.pop()
        if isinstance(value, str | bytes):
            size += len(value) + _CONTAINER
        elif isinstance(value, RawBSONDocument):
            size += len(value.raw)
        elif isinstance(value, Mapping):
            size += _CONTAINER
            for name, item in value.items():
                size += _ELEMENT + (len(name) if isinstance(name, str) else 0)
                left.append(item)
                if size >= limit:
                    break
        elif isinstance(value, list | tuple):
            size += _CONTAINER + _ELEMENT * len(value)
            left.extend(value)
        else:
            size += _SCALAR
    return size
