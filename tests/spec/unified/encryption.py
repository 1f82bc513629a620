"""Client-side encryption in tests: its entities and options, and what they need besides the driver."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from bson.codec_options import CodecOptions

from motorlite.encryption import AsyncClientEncryption
from motorlite.encryption_options import AutoEncryptionOpts
from tests.spec.unified.arguments import renamed, selected
from tests.spec.unified.outcomes import SkipKind, Skipped
from tests.spec.unified.schema import version

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient

# What stands for a $$placeholder: with these, a provider can be configured; only the local one also works.
_PLACEHOLDERS: Final = {
    "key": base64.b64encode(bytes(range(96))).decode(),
    "privateKey": base64.b64encode(b"private key").decode(),
    "endpoint": "localhost:5698",
}
_OPTIONS: Final = renamed(
    "keyVaultNamespace kmsProviders bypassAutoEncryption schemaMap encryptedFieldsMap bypassQueryAnalysis "
    "keyExpirationMS=key_expiration_ms"
)


def unmet(requirement: object) -> str | None:
    """What a `csfle` requirement lacks, or None. The server's version is the caller's to check.

    Encryption of single values needs no mongocryptd: a test that does skips when its client is created.
    """
    is_installed = find_spec("pymongocrypt") is not None
    if requirement is False:
        return "a driver without client-side encryption" if is_installed else None
    if not is_installed:
        return "pymongocrypt"
    lowest = requirement.get("minLibmongocryptVersion") if isinstance(requirement, Mapping) else None
    if lowest is None:
        return None
    # Without what follows the numbers: "1.18.2-20260301+git".
    found = import_module("pymongocrypt").libmongocrypt_version().partition("-")[0].partition("+")[0]
    return None if version(found) >= version(lowest) else f"libmongocrypt {lowest} or newer"


def _providers(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {field: _credential(field, value) for field, value in fields.items()} for name, fields in given.items()
    }


def _credential(field: str, value: Any) -> Any:
    is_placeholder = isinstance(value, Mapping) and "$$placeholder" in value
    return _PLACEHOLDERS.get(field, "placeholder") if is_placeholder else value


def client_encryption(options: Mapping[str, Any], key_vault: AsyncMongoClient[Any]) -> AsyncClientEncryption[Any]:
    """The entity that `clientEncryptionOpts` describes."""
    return AsyncClientEncryption(
        _providers(options["kmsProviders"]),
        options["keyVaultNamespace"],
        key_vault,
        CodecOptions(),
        key_expiration_ms=options.get("keyExpirationMS"),
    )


def auto_encryption(options: Mapping[str, Any]) -> AutoEncryptionOpts:
    """The options that `autoEncryptOpts` describes.

    Raises:
        BadTest: There is an unknown one.
        Skipped: Commands have to be analysed, and there is nothing that can.
    """
    analyses = not (options.get("bypassAutoEncryption") or options.get("bypassQueryAnalysis"))
    library = options.get("extraOptions", {}).get("cryptSharedLibPath")
    if analyses and library is None and shutil.which("mongocryptd") is None:
        raise Skipped(SkipKind.ENCRYPTION, "needs mongocryptd or crypt_shared")
    given = selected(
        {name: value for name, value in options.items() if name != "extraOptions"}, _OPTIONS, "autoEncryptOpts"
    )
    given["kms_providers"] = _providers(given["kms_providers"])
    if library is not None:
        given["crypt_shared_lib_path"] = library
    return AutoEncryptionOpts(**given)
