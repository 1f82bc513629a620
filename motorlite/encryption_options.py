"""Pure: the options of client-side encryption; docs/encryption.md describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from bson.int64 import Int64

from motorlite._base.arguments import wrong
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    # It returns a `socket.socket`.
    AsyncKMSConnectCallback: TypeAlias = Callable[["KMSConnectContext"], Awaitable[Any]]

__all__ = [
    "AutoEncryptionOpts",
    "KMSConnectContext",
    "PrefixOpts",
    "RangeOpts",
    "StringOpts",
    "SubstringOpts",
    "SuffixOpts",
    "TextOpts",
]


@dataclass(frozen=True)
class KMSConnectContext:
    """The connection that `kms_connect_callback` should open.

    Attributes:
        host: The key management service.
        port: Its port.
        timeout: Seconds until the driver gives up: ten, or what the time limit of the operation leaves.
    """

    host: str
    port: int
    timeout: float


_IDLE_SHUTDOWN: Final = "idleShutdownTimeoutSecs"


class AutoEncryptionOpts:
    """How a client encrypts commands and decrypts replies: the option `auto_encryption_opts` of `AsyncMongoClient`.

    Args:
        kms_providers: The credentials of the key management services, by provider: ``"local"``, ``"aws"``,
            ``"azure"``, ``"gcp"`` or ``"kmip"``, each also with a name of its own (``"aws:reports"``). An empty mapping
            for AWS, Azure or GCP: the credentials come from the environment or from the cloud's metadata service.
        key_vault_namespace: ``"database.collection"`` of the data keys.
        key_vault_client: The client of their deployment; None: the same as the data's.
        schema_map: JSON schemas by namespace, instead of those that the server has.
        bypass_auto_encryption: Only decrypt.
        mongocryptd_uri: The address of mongocryptd.
        mongocryptd_bypass_spawn: Do not start mongocryptd.
        mongocryptd_spawn_path: The program to start as mongocryptd.
        mongocryptd_spawn_args: Its arguments.
        kms_tls_options: TLS options (`tlsCAFile`, `tlsCertificateKeyFile` and others) by provider.
        crypt_shared_lib_path: The crypt_shared library.
        crypt_shared_lib_required: Fail without it, and never use mongocryptd.
        bypass_query_analysis: Do not analyse commands: the application encrypts their values itself.
        encrypted_fields_map: The fields of queryable encryption by namespace.
        key_expiration_ms: How long a data key stays in memory; None: one minute, 0: as long as the client.
        kms_connect_callback: A coroutine function that gets a `KMSConnectContext`, and returns a connected
            `socket.socket`, for example through a proxy. The driver uses TLS on it, and checks the certificate for the
            host of the context. None: connections are direct.

    Raises:
        TypeError, ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        kms_providers: Mapping[str, Any],
        key_vault_namespace: str,
        key_vault_client: Any | None = None,
        schema_map: Mapping[str, Any] | None = None,
        bypass_auto_encryption: bool = False,
        mongocryptd_uri: str = "mongodb://localhost:27020",
        mongocryptd_bypass_spawn: bool = False,
        mongocryptd_spawn_path: str = "mongocryptd",
        mongocryptd_spawn_args: list[str] | None = None,
        kms_tls_options: Mapping[str, Any] | None = None,
        crypt_shared_lib_path: str | None = None,
        crypt_shared_lib_required: bool = False,
        bypass_query_analysis: bool = False,
        encrypted_fields_map: Mapping[str, Any] | None = None,
        key_expiration_ms: int | None = None,
        kms_connect_callback: AsyncKMSConnectCallback | None = None,
    ) -> None:
        arguments = [] if mongocryptd_spawn_args is None else mongocryptd_spawn_args
        if not isinstance(arguments, list):
            raise TypeError(wrong("mongocryptd_spawn_args", arguments, "a list of strings"))
        if not any(_IDLE_SHUTDOWN in argument for argument in arguments):
            arguments = [*arguments, f"--{_IDLE_SHUTDOWN}=60"]
        self.kms_providers: Mapping[str, Any] = kms_providers
        self.key_vault_namespace: tuple[str, str] = split_namespace(key_vault_namespace)
        self.key_vault_client: Any | None = key_vault_client
        self.schema_map: Mapping[str, Any] | None = schema_map
        self.bypass_auto_encryption: bool = bypass_auto_encryption
        self.mongocryptd_uri: str = mongocryptd_uri
        self.mongocryptd_bypass_spawn: bool = mongocryptd_bypass_spawn
        self.mongocryptd_command: list[str] = [mongocryptd_spawn_path, *arguments]
        self.kms_tls_options: Mapping[str, Any] | None = kms_tls_options
        self.crypt_shared_lib_path: str | None = crypt_shared_lib_path
        self.crypt_shared_lib_required: bool = crypt_shared_lib_required
        self.bypass_query_analysis: bool = bypass_query_analysis
        self.encrypted_fields_map: Mapping[str, Any] | None = encrypted_fields_map
        self.key_expiration_ms: int | None = key_expiration_ms
        if kms_connect_callback is not None and not callable(kms_connect_callback):
            raise TypeError(wrong("kms_connect_callback", kms_connect_callback, "a coroutine function"))
        self.kms_connect_callback: AsyncKMSConnectCallback | None = kms_connect_callback

    def __repr__(self) -> str:
        # Without the credentials.
        return f"<AutoEncryptionOpts of {'.'.join(self.key_vault_namespace)!r}>"


def split_namespace(namespace: str) -> tuple[str, str]:
    """Return the database and the collection of the data keys.

    Raises:
        TypeError, ConfigurationError: It is not a namespace.
    """
    if not isinstance(namespace, str):
        raise TypeError(wrong("key_vault_namespace", namespace, "'database.collection'"))
    database, _, collection = namespace.partition(".")
    if not database or not collection:
        raise ConfigurationError(wrong("key_vault_namespace", namespace, "'database.collection'"))
    return database, collection


def _arguments(attributes: Mapping[str, Any]) -> str:
    """Return the arguments of a constructor that are set, for a repr."""
    return ", ".join(f"{name}={value!r}" for name, value in attributes.items() if value is not None)


class RangeOpts:
    """The index of a field with range queries; as its description in `encrypted_fields` has it.

    Args:
        sparsity: How sparse the index is: more makes queries slower and inserts faster.
        trim_factor: How many top levels of the index are left out.
        min: The smallest value.
        max: The largest value.
        precision: Decimal places, for doubles and decimals.
    """

    def __init__(
        self,
        sparsity: int | None = None,
        trim_factor: int | None = None,
        min: Any | None = None,
        max: Any | None = None,
        precision: int | None = None,
    ) -> None:
        self.sparsity: int | None = sparsity
        self.trim_factor: int | None = trim_factor
        self.min: Any | None = min
        self.max: Any | None = max
        self.precision: int | None = precision

    def __repr__(self) -> str:
        return f"RangeOpts({_arguments(vars(self))})"

    @property
    def document(self) -> dict[str, Any]:
        """The options that are set, as the encryption library reads them."""
        found = {
            "sparsity": Int64(self.sparsity) if self.sparsity else None,
            "trimFactor": self.trim_factor,
            "precision": self.precision,
            "min": self.min,
            "max": self.max,
        }
        return {name: value for name, value in found.items() if value is not None}


class PrefixOpts(TypedDict):
    """The lengths of a query for a prefix, in characters; longer and shorter ones fail."""

    strMinQueryLength: int
    strMaxQueryLength: int


class SuffixOpts(TypedDict):
    """The lengths of a query for a suffix, in characters; longer and shorter ones fail."""

    strMinQueryLength: int
    strMaxQueryLength: int


class SubstringOpts(TypedDict):
    """The length of a value that is queried for substrings, and the lengths of a query, in characters."""

    strMaxLength: int
    strMinQueryLength: int
    strMaxQueryLength: int


class StringOpts:
    """The index of a text field with queries for prefixes, suffixes or substrings.

    Args:
        substring: For queries for substrings.
        prefix: For queries for prefixes.
        suffix: For queries for suffixes.
        case_sensitive: Whether upper and lower case differ.
        diacritic_sensitive: Whether letters with and without diacritics differ.
    """

    def __init__(
        self,
        substring: SubstringOpts | None = None,
        prefix: PrefixOpts | None = None,
        suffix: SuffixOpts | None = None,
        case_sensitive: bool | None = None,
        diacritic_sensitive: bool | None = None,
    ) -> None:
        self.substring: SubstringOpts | None = substring
        self.prefix: PrefixOpts | None = prefix
        self.suffix: SuffixOpts | None = suffix
        self.case_sensitive: bool | None = case_sensitive
        self.diacritic_sensitive: bool | None = diacritic_sensitive

    def __repr__(self) -> str:
        return f"StringOpts({_arguments(vars(self))})"

    @property
    def document(self) -> dict[str, Any]:
        """The options that are set, as the encryption library reads them."""
        found = {
            "substring": self.substring,
            "prefix": self.prefix,
            "suffix": self.suffix,
            "caseSensitive": self.case_sensitive,
            "diacriticSensitive": self.diacritic_sensitive,
        }
        return {name: value for name, value in found.items() if value is not None}


TextOpts = StringOpts
"""The name of `StringOpts` in PyMongo 4.15."""
