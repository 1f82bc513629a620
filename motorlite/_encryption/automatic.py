"""Shell: automatic encryption of a client's commands, and decryption of their replies.

It has a client of its own for data keys and schemas. The commands that it encrypts hold connections of the
application's client, so with the same pool they could wait for one another.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from motorlite._encryption.inner import inner_client
from motorlite._encryption.kms import KeyServices
from motorlite._encryption.library import Library, encoded
from motorlite._encryption.mongocryptd import Mongocryptd
from motorlite._encryption.services import ClientServices, key_vault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.handles import AsyncMongoClient
    from motorlite._base.deadline import Deadline
    from motorlite._client.dependencies import Dependencies
    from motorlite._options.options import ClientOptions
    from motorlite.encryption_options import AutoEncryptionOpts


class AutomaticEncryption:
    """The automatic encryption of one client.

    Raises:
        ConfigurationError: An option is wrong, or `pymongocrypt` is not installed.
        EncryptionError: The encryption library refuses an option.
    """

    def __init__(self, options: ClientOptions, world: Dependencies) -> None:
        given = options.auto_encryption_opts
        assert given is not None
        self._given: AutoEncryptionOpts = given
        self._options = options
        self._world = world
        self.encrypts: bool = not given.bypass_auto_encryption
        self._library = Library(
            given.kms_providers,
            schema_map=_encoded_map(given.schema_map),
            encrypted_fields_map=_encoded_map(given.encrypted_fields_map),
            bypass_query_analysis=given.bypass_query_analysis,
            bypass_encryption=given.bypass_auto_encryption,
            crypt_shared_lib_path=given.crypt_shared_lib_path,
            crypt_shared_lib_required=given.crypt_shared_lib_required,
            key_expiration_ms=given.key_expiration_ms,
        )
        self._kms = KeyServices(given.kms_tls_options, given.kms_connect_callback)
        self._inner: AsyncMongoClient[Any] | None = None
        self._mongocryptd: Mongocryptd | None = None
        self._services: ClientServices | None = None

    def __repr__(self) -> str:
        return "<AutomaticEncryption>"

    async def encrypt(self, database: str, command: bytes, deadline: Deadline) -> bytes:
        """Return the encoded command with its fields encrypted where the schema says so."""
        contexts = self._library.contexts
        begin = lambda: contexts.encryption_context(database, command)  # noqa: E731
        found = await self._library.run(begin, self._services or self._open(), deadline)
        return command if found is None else found

    async def decrypt(self, reply: bytes, deadline: Deadline) -> bytes:
        """Return the encoded reply with all encrypted values decrypted."""
        contexts = self._library.contexts
        found = await self._library.run(
            lambda: contexts.decryption_context(reply), self._services or self._open(), deadline
        )
        return reply if found is None else found

    def _open(self) -> ClientServices:
        """Make the clients, with the first command."""
        given = self._given
        with warnings.catch_warnings():
            # The application's client has warned about its options already.
            warnings.simplefilter("ignore")
            options = replace(self._options, auto_encryption_opts=None, min_pool_size=0)
            inner = self._inner = inner_client(options, self._world)
        if self.encrypts and not given.bypass_query_analysis and not self._library.has_query_analysis:
            self._mongocryptd = Mongocryptd(given, self._world)
        keys = key_vault(given.key_vault_client or inner, given.key_vault_namespace)
        self._services = ClientServices(inner._core, keys, self._kms, inner, self._mongocryptd)
        return self._services

    async def close(self, grace: float) -> None:
        """Erase the keys from memory, and close what belongs to it, also if this is cancelled.

        What is in flight there gets `grace` seconds.
        """
        self.erase_keys()
        try:
            if self._mongocryptd is not None:
                await self._mongocryptd.close(grace)
        finally:
            if self._inner is not None:
                await self._inner._core.close(grace)

    def erase_keys(self) -> None:
        """Erase the keys from memory."""
        self._library.close()


def _encoded_map(by_namespace: Mapping[str, Any] | None) -> bytes | None:
    return None if by_namespace is None else encoded(by_namespace)
