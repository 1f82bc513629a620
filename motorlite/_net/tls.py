"""Net: makes TLS contexts from a client's options; verifies certificates and host names unless configured otherwise."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, TypeAlias

from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._options.parts import TLSOptions


TLSContext: TypeAlias = ssl.SSLContext


def make_context(options: TLSOptions) -> ssl.SSLContext:
    """Return the context for all connections of a client.

    Raises:
        ConfigurationError: a file cannot be read or has the wrong content.
    """
    try:
        # A client with a CA file trusts only that file; without one it trusts the system's authorities.
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=options.ca_file)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _unusable("tlsCAFile", options.ca_file, error) from error
    # Python does so too, unless its build leaves the choice to OpenSSL and its configuration, as Debian's does.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    # Host names can be checked only in verified certificates.
    verified = not options.allow_invalid_certificates
    context.check_hostname = verified and not options.allow_invalid_hostnames
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    if options.crl_file is not None:
        try:
            context.load_verify_locations(options.crl_file)
        except (OSError, ValueError) as error:
            raise _unusable("tlsCRLFile", options.crl_file, error) from error
        if not context.cert_store_stats()["crl"]:
            raise _unusable("tlsCRLFile", options.crl_file, "it has no revocation list")
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if options.certificate_key_file is not None:
        password = options.certificate_key_file_password
        try:
            context.load_cert_chain(options.certificate_key_file, password=password or _no_password)
        except (OSError, ValueError) as error:
            reason = f"{error} (is tlsCertificateKeyFilePassword right?)" if password else error
            raise _unusable("tlsCertificateKeyFile", options.certificate_key_file, reason) from error
    return context


def _unusable(option: str, path: str | None, reason: object) -> ConfigurationError:
    return ConfigurationError(f"{option} {path!r} cannot be used: {reason}")


def _no_password() -> str:
    """Raise; without this callback OpenSSL prompts on the terminal and blocks the event loop."""
    raise ConfigurationError("the private key is encrypted: set tlsCertificateKeyFilePassword")
