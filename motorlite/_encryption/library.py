"""Shell: `pymongocrypt`, which has the cryptography and decides what is needed next (libmongocrypt).

Everything of it is reached from here. It does no I/O: `run` performs what it asks for.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

import bson
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.errors import BSONError

from motorlite.errors import ConfigurationError, EncryptionError, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from motorlite._base.deadline import Deadline


# The ids of data keys, in schemas and filters, may be native UUIDs.
_STANDARD: Final[CodecOptions[Any]] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a document of the application for the library, encoded."""
    return bson.encode(document, codec_options=_STANDARD)


class Services(Protocol):
    """What the library asks for while it encrypts or decrypts."""

    async def collections(self, database: str, filter: bytes, deadline: Deadline) -> list[bytes]:
        """Return the descriptions of collections, encoded."""

    async def mark(self, database: str, command: bytes, deadline: Deadline) -> bytes:
        """Return the command with marks where it needs encryption."""

    async def keys(self, filter: bytes, deadline: Deadline) -> list[bytes]:
        """Return the data keys, encoded."""

    async def ask_kms(self, request: Any, deadline: Deadline) -> None:
        """Send a request to a key management service and feed it with the response."""

    async def credentials(self, providers: Mapping[str, Any], deadline: Deadline) -> Mapping[str, Any]:
        """Return the credentials of the providers that have none yet."""


class _Encoder:
    """What the library needs to encode its own options."""

    def bson_encode(self, document: Mapping[str, Any]) -> bytes:
        """Encode a document."""
        return encoded(document)


def check_installed() -> None:
    """Raise ConfigurationError if the library is not installed."""
    if find_spec("pymongocrypt") is None:
        raise ConfigurationError("client-side encryption needs pymongocrypt: pip install 'motorlite[encryption]'")


@contextmanager
def failures() -> Iterator[None]:
    """Raise what fails in a ``with`` block as EncryptionError, but for errors of `bson` about a value."""
    try:
        yield
    except (BSONError, EncryptionError):
        raise
    except Exception as error:
        raise EncryptionError(error) from error


def is_from_library(error: BaseException) -> bool:
    """Whether the library itself raised the error."""
    return isinstance(error, import_module("pymongocrypt.errors").MongoCryptError)


class Library:
    """The library with the options of one client. It keeps the data keys in memory until they expire.

    Raises:
        ConfigurationError: It is not installed.
        EncryptionError: It refuses the options.
    """

    def __init__(self, kms_providers: Mapping[str, Any], **options: Any) -> None:
        check_installed()
        machine, binding = import_module("pymongocrypt.mongocrypt"), import_module("pymongocrypt.binding")
        self._options = import_module("pymongocrypt.options")
        import_module("pymongocrypt.asynchronous.state_machine").AsyncMongoCryptCallback.register(_Encoder)
        self._states: Any = binding.lib
        # Calls that have a context.
        self._running = 0
        self._is_closed = False
        given = {name: value for name, value in options.items() if value is not None}
        with failures():
            made = self._options.MongoCryptOptions(dict(kms_providers), **given, enable_multiple_collinfo=True)
            # Its contexts belong to one call each.
            self.contexts: Any = machine.MongoCrypt(made, _Encoder())

    def __repr__(self) -> str:
        return "<Library>"

    @property
    def has_query_analysis(self) -> bool:
        """Whether the crypt_shared library was found, which marks commands in this process."""
        return self.contexts.crypt_shared_lib_version is not None

    def data_key(self, provider: str, master_key: Mapping[str, Any] | None, names: Any, material: bytes | None) -> Any:
        """Begin to create a data key."""
        alternative = [bson.encode({"keyAltName": name}) for name in names or ()]
        key = None if material is None else bson.encode({"keyMaterial": material})
        master = None if master_key is None else dict(master_key)
        return self.contexts.data_key_context(provider, self._options.DataKeyOpts(master, alternative, key))

    def explicit(self, value: bytes, *, key_alt_name: str | None, **options: Any) -> Any:
        """Begin to encrypt a value, encoded as ``{"v": value}``."""
        name = None if key_alt_name is None else bson.encode({"keyAltName": key_alt_name})
        chosen = self._options.ExplicitEncryptOpts(key_alt_name=name, **options)
        return self.contexts.explicit_encryption_context(value, chosen)

    async def run(self, begin: Callable[[], Any], services: Services, deadline: Deadline) -> bytes | None:
        """Perform what a context of the library asks for until it is done.

        Args:
            begin: Makes the context.
            services: Perform it.
            deadline: When everything must have ended.

        Raises:
            EncryptionError: Something failed; the cause says what.
            InvalidOperation: It is closed.
        """
        if self._is_closed:
            raise InvalidOperation("the client is closed, and with it its data keys are gone")
        self._running += 1
        try:
            with failures(), begin() as context:
                while True:
                    state, states = context.state, self._states
                    if state == states.MONGOCRYPT_CTX_READY:
                        result: bytes = context.finish()
                        return result
                    if state == states.MONGOCRYPT_CTX_DONE:
                        return None
                    await self._step(state, context, services, deadline)
        finally:
            self._running -= 1
            self._erase()

    async def _step(self, state: int, context: Any, services: Services, deadline: Deadline) -> None:
        states = self._states
        if state == states.MONGOCRYPT_CTX_NEED_KMS:
            for request in context.kms_contexts():
                with request:
                    await services.ask_kms(request, deadline)
            context.complete_kms()
        elif state == states.MONGOCRYPT_CTX_NEED_KMS_CREDENTIALS:
            found = await services.credentials(context.kms_providers, deadline)
            context.provide_kms_providers(bson.encode(found))
        elif state == states.MONGOCRYPT_CTX_NEED_MONGO_KEYS:
            self._answer(context, await services.keys(context.mongo_operation(), deadline))
        elif state == states.MONGOCRYPT_CTX_NEED_MONGO_COLLINFO:
            self._answer(context, await services.collections(context.database, context.mongo_operation(), deadline))
        elif state == states.MONGOCRYPT_CTX_NEED_MONGO_MARKINGS:
            marked = await services.mark(context.database, context.mongo_operation(), deadline)
            self._answer(context, [marked])
        else:
            context._raise_from_status()

    @staticmethod
    def _answer(context: Any, documents: list[bytes]) -> None:
        for document in documents:
            context.add_mongo_operation_result(document)
        context.complete_mongo_operation()

    def close(self) -> None:
        """Erase the data keys from memory, as soon as no call uses them. Further calls have no effect."""
        self._is_closed = True
        self._erase()

    def _erase(self) -> None:
        # A context refers to the memory of the library's object, which does not know of it.
        if self._is_closed and not self._running:
            self.contexts.close()
