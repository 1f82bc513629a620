"""Shell: explicit encryption and decryption of values, and the management of data keys."""

from __future__ import annotations

import uuid
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, Self, cast

import bson
from bson.binary import UUID_SUBTYPE, Binary
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from motorlite._api.handles import AsyncDatabase, AsyncMongoClient
from motorlite._api.time_limits import deadline
from motorlite._api.turns import give_way
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import instance, wrong
from motorlite._encryption.kms import KeyServices
from motorlite._encryption.library import Library, failures
from motorlite._encryption.names import RewrapManyDataKeyResult
from motorlite._encryption.services import ClientServices, all_keys, key_vault, own_operations
from motorlite.encryption_options import split_namespace
from motorlite.errors import ConfigurationError, EncryptedCollectionError, InvalidOperation, PyMongoError
from motorlite.operations import UpdateOne

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from motorlite._api.cursors.cursor import AsyncCursor
    from motorlite._api.handles import AsyncCollection
    from motorlite._base.deadline import Deadline
    from motorlite.encryption_options import AsyncKMSConnectCallback, RangeOpts, StringOpts
    from motorlite.results import DeleteResult

_ENCRYPTED = 6


class AsyncClientEncryption(Generic[DocumentT]):
    """Encrypts and decrypts single values, and manages the data keys for it. Use it in ``async with``.

    The limits of `key_vault_client` and of `motorlite.timeout` cover all that a call needs together: look-ups of keys,
    requests to key management services, and writes to the key vault. All these are outside of the sessions and
    transactions that `AsyncClientSession.bind` sets, and of `motorlite.call_options`.

    Args:
        kms_providers: The credentials of the key management services, as those of `AutoEncryptionOpts`.
        key_vault_namespace: ``"database.collection"`` of the data keys.
        key_vault_client: The client of their deployment.
        codec_options: For encoding values before they are encrypted, and decoding them after decryption.
        kms_tls_options: TLS options (`tlsCAFile`, `tlsCertificateKeyFile` and others) by provider.
        key_expiration_ms: How long a data key stays in memory; None: one minute, 0: until `close`.
        kms_connect_callback: Connects sockets to key management services, as of `AutoEncryptionOpts`.

    Raises:
        TypeError: An argument has the wrong type.
        ConfigurationError: An argument is wrong, or `pymongocrypt` is not installed.
        EncryptionError: The encryption library refuses an argument.
    """

    __module__ = "motorlite.encryption"

    def __init__(
        self,
        kms_providers: Mapping[str, Any],
        key_vault_namespace: str,
        key_vault_client: AsyncMongoClient[Any],
        codec_options: CodecOptions[DocumentT],
        kms_tls_options: Mapping[str, Any] | None = None,
        key_expiration_ms: int | None = None,
        kms_connect_callback: AsyncKMSConnectCallback | None = None,
    ) -> None:
        instance("codec_options", codec_options, CodecOptions)
        instance("key_vault_client", key_vault_client, AsyncMongoClient)
        self._library = Library(kms_providers, key_expiration_ms=key_expiration_ms, bypass_encryption=True)
        self._client: AsyncMongoClient[Any] = key_vault_client
        self._codec_options: CodecOptions[Any] = codec_options
        self._namespace = split_namespace(key_vault_namespace)
        self._keys = key_vault(key_vault_client, self._namespace)
        self._services = ClientServices(
            key_vault_client._core, self._keys, KeyServices(kms_tls_options, kms_connect_callback)
        )
        self._is_closed = False

    def __repr__(self) -> str:
        # Without the credentials.
        return f"<AsyncClientEncryption with the keys in {'.'.join(self._namespace)!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Erase the data keys from memory. The client of the key vault stays open."""
        self._is_closed = True
        self._library.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidOperation("the AsyncClientEncryption is closed")

    async def _check_ready(self) -> None:
        """As `_check_open`, but let other tasks run before it raises."""
        if self._is_closed:
            await give_way()
        self._check_open()

    async def _limit(self) -> Deadline:
        """Return the deadline of a call that starts now: one for all that it needs."""
        await self._check_ready()
        core = self._client._core
        try:
            scope = core.enter()
        except PyMongoError:
            await give_way()
            raise
        return deadline(core, self._client._settings.timeout, None, scope)

    async def _run(self, begin: Callable[[], Any], limit: Deadline) -> bytes | None:
        return await self._library.run(begin, self._services, limit)

    # --- data keys ---

    async def create_data_key(
        self,
        kms_provider: str,
        master_key: Mapping[str, Any] | None = None,
        key_alt_names: Sequence[str] | None = None,
        key_material: bytes | None = None,
    ) -> Binary:
        """Create a data key, store it in the key vault, and return its id.

        Args:
            kms_provider: The provider whose master key encrypts it, for example ``"local"`` or ``"aws:reports"``.
            master_key: The master key, as the provider names it; not for ``"local"``.
            key_alt_names: Names for it beside its id.
            key_material: Its 96 bytes; random ones by default.

        Raises:
            EncryptionError: It was not created, or not stored (a DuplicateKeyError as `cause`: a name is taken).
        """
        library, limit = self._library, await self._limit()
        begin = lambda: library.data_key(kms_provider, master_key, key_alt_names, key_material)  # noqa: E731
        encoded = await self._run(begin, limit)
        assert encoded is not None
        document = RawBSONDocument(encoded)
        with failures(), own_operations(limit):
            await self._keys.insert_one(document)
        return cast("Binary", document["_id"])

    async def rewrap_many_data_key(
        self, filter: Mapping[str, Any], provider: str | None = None, master_key: Mapping[str, Any] | None = None
    ) -> RewrapManyDataKeyResult:
        """Encrypt data keys anew, with the same or another master key. The encrypted data stays as it is.

        Args:
            filter: Which data keys.
            provider: The provider of the new master key; None: each key's own.
            master_key: The new master key, as the provider names it.

        Raises:
            ConfigurationError: There is a master key without a provider.
            EncryptionError: A key could not be decrypted or encrypted; the key vault is unchanged.
            PyMongoError: The new keys were not stored.
        """
        if master_key is not None and provider is None:
            raise ConfigurationError("master_key needs a provider")
        contexts, limit = self._library.contexts, await self._limit()
        encoded = await self._run(lambda: contexts.rewrap_many_data_key_context(filter, provider, master_key), limit)
        if encoded is None:
            return RewrapManyDataKeyResult()
        updates = [
            UpdateOne(
                {"_id": key["_id"]},
                {
                    "$set": {"keyMaterial": key["keyMaterial"], "masterKey": key["masterKey"]},
                    "$currentDate": {"updateDate": True},
                },
            )
            for key in bson.decode(encoded)["v"]
        ]
        if not updates:
            return RewrapManyDataKeyResult()
        with own_operations(limit):
            return RewrapManyDataKeyResult(await self._keys.bulk_write(updates))

    async def get_key(self, id: Binary) -> RawBSONDocument | None:
        """Return a data key, still encrypted; None if there is none with this id."""
        await self._check_ready()
        with own_operations():
            return await self._keys.find_one({"_id": id})

    def get_keys(self) -> AsyncCursor[RawBSONDocument]:
        """Return a cursor over all data keys, still encrypted."""
        self._check_open()
        return all_keys(self._keys)

    async def get_key_by_alt_name(self, key_alt_name: str) -> RawBSONDocument | None:
        """Return the data key with this name, still encrypted, or None."""
        await self._check_ready()
        with own_operations():
            return await self._keys.find_one({"keyAltNames": key_alt_name})

    async def delete_key(self, id: Binary) -> DeleteResult:
        """Delete a data key. What it has encrypted cannot be decrypted any more."""
        await self._check_ready()
        with own_operations():
            return await self._keys.delete_one({"_id": id})

    async def add_key_alt_name(self, id: Binary, key_alt_name: str) -> Any:
        """Add a name to a data key. Return the key as it was before, or None if there is none with this id."""
        await self._check_ready()
        with own_operations():
            return await self._keys.find_one_and_update({"_id": id}, {"$addToSet": {"keyAltNames": key_alt_name}})

    async def remove_key_alt_name(self, id: Binary, key_alt_name: str) -> RawBSONDocument | None:
        """Remove a name from a data key. Return the key as it was before, or None if there is none with this id."""
        await self._check_ready()
        others = {"$filter": {"input": "$keyAltNames", "cond": {"$ne": ["$$this", key_alt_name]}}}
        # The names have a unique index, for which an empty list would be a value.
        names = {"$cond": [{"$eq": ["$keyAltNames", [key_alt_name]]}, "$$REMOVE", others]}
        with own_operations():
            return await self._keys.find_one_and_update({"_id": id}, [{"$set": {"keyAltNames": names}}])

    # --- values ---

    async def encrypt(
        self,
        value: Any,
        algorithm: str,
        key_id: Binary | uuid.UUID | None = None,
        key_alt_name: str | None = None,
        query_type: str | None = None,
        contention_factor: int | None = None,
        range_opts: RangeOpts | None = None,
        string_opts: StringOpts | None = None,
    ) -> Binary:
        """Encrypt a value with the data key of `key_id` or `key_alt_name`.

        Args:
            value: The value.
            algorithm: See `Algorithm`.
            key_id: The id of the data key.
            key_alt_name: A name of the data key, instead of its id.
            query_type: For a value in a query: see `QueryType`.
            contention_factor: For the indexed algorithms, as the field's description has it.
            range_opts: For `Algorithm.RANGE`.
            string_opts: For `Algorithm.STRING`.

        Raises:
            TypeError: `key_id` is not a UUID.
            EncryptionError: The value was not encrypted.
        """
        options = {"query_type": query_type, "contention_factor": contention_factor, "is_expression": False}
        found = await self._encrypted(value, algorithm, key_id, key_alt_name, range_opts, string_opts, options)
        return cast("Binary", bson.decode(found)["v"])

    async def encrypt_expression(
        self,
        expression: Mapping[str, Any],
        algorithm: str,
        key_id: Binary | uuid.UUID | None = None,
        key_alt_name: str | None = None,
        query_type: str | None = None,
        contention_factor: int | None = None,
        range_opts: RangeOpts | None = None,
    ) -> RawBSONDocument:
        """Encrypt the values in an expression of a query for a range. The arguments are those of `encrypt`.

        Raises:
            TypeError: `key_id` is not a UUID.
            EncryptionError: The expression was not encrypted.
        """
        options = {"query_type": query_type, "contention_factor": contention_factor, "is_expression": True}
        found = await self._encrypted(expression, algorithm, key_id, key_alt_name, range_opts, None, options)
        return cast("RawBSONDocument", RawBSONDocument(found)["v"])

    async def _encrypted(
        self,
        value: Any,
        algorithm: str,
        key_id: Binary | uuid.UUID | None,
        key_alt_name: str | None,
        range_opts: RangeOpts | None,
        string_opts: StringOpts | None,
        options: dict[str, Any],
    ) -> bytes:
        """Return the encrypted value, encoded as ``{"v": value}``."""
        if isinstance(key_id, uuid.UUID):
            key_id = Binary.from_uuid(key_id)
        given_id: object = key_id
        if given_id is not None and not (isinstance(given_id, Binary) and given_id.subtype == UUID_SUBTYPE):
            raise TypeError(wrong("key_id", key_id, "a uuid.UUID or a bson.Binary of subtype 4"))
        library, codec_options = self._library, self._codec_options
        for name, given in (("range_opts", range_opts), ("string_opts", string_opts)):
            options[name] = None if given is None else bson.encode(given.document, codec_options=codec_options)
        encoded = bson.encode({"v": value}, codec_options=codec_options)
        options |= {"algorithm": algorithm, "key_id": key_id, "key_alt_name": key_alt_name}
        found = await self._run(lambda: library.explicit(encoded, **options), await self._limit())
        assert found is not None
        return found

    async def decrypt(self, value: Binary) -> Any:
        """Decrypt a value.

        Raises:
            TypeError: It is not an encrypted value, a Binary of subtype 6.
            EncryptionError: It was not decrypted.
        """
        given: object = value
        if not (isinstance(given, Binary) and given.subtype == _ENCRYPTED):
            raise TypeError(f"the value to decrypt must be a bson.Binary of subtype 6, not a {type(value).__name__}")
        encoded, contexts = bson.encode({"v": value}), self._library.contexts
        found = await self._run(lambda: contexts.explicit_decryption_context(encoded), await self._limit())
        assert found is not None
        return bson.decode(found, self._codec_options)["v"]

    # --- collections ---

    async def create_encrypted_collection(
        self,
        database: AsyncDatabase[Any],
        name: str,
        encrypted_fields: Mapping[str, Any],
        kms_provider: str | None = None,
        master_key: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> tuple[AsyncCollection[Any], Mapping[str, Any]]:
        """Create a collection with encrypted fields, and the data keys that they lack.

        Args:
            database: The database to create it in.
            name: Its name.
            encrypted_fields: Its fields. One with a `keyId` of None gets a new data key.
            kms_provider: The provider for new data keys.
            master_key: The master key for new data keys, as the provider names it.
            kwargs: As for `AsyncDatabase.create_collection`.

        Returns:
            The collection, and its fields with their keys: for the `encrypted_fields_map` of a new client.

        Raises:
            EncryptedCollectionError: A key or the collection was not created; the error has the keys that were.
        """
        instance("database", database, AsyncDatabase)
        limit = await self._limit()
        fields: Any = deepcopy(dict(encrypted_fields))
        lacking = [each for each in fields["fields"] if isinstance(each, dict) and each.get("keyId") is None]
        try:
            with own_operations(limit):
                for field in lacking:
                    field["keyId"] = await self.create_data_key(cast("str", kms_provider), master_key)
            options: Any = {**kwargs, "encryptedFields": fields, "check_exists": False}
            return await database.create_collection(name, **options), fields
        except Exception as error:
            raise EncryptedCollectionError(error, fields) from error
