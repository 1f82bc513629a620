"""Net: TLS contexts from a client's options; certificates and host names are verified unless told otherwise."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, TypeAlias

from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite.options import TLSOptions


TLSContext: TypeAlias = ssl.SSLContext


def make_context(options: TLSOptions) -> ssl.SSLContext:
    """The context for all connections of a client.

    Raises:
        ConfigurationError: a file cannot be read or does not hold what it should.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    # Host names can only be checked on verified certificates.
    verified = not options.allow_invalid_certificates
    context.check_hostname = verified and not options.allow_invalid_hostnames
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    for option, path in (("tlsCAFile", options.ca_file), ("tlsCRLFile", options.crl_file)):
        if path is not None:
            try:
                context.load_verify_locations(path)
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(f"{option} {path!r} cannot be used: {error}") from error
    if options.crl_file is not None:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if options.certificate_key_file is not None:
        password = options.certificate_key_file_password
        try:
            context.load_cert_chain(options.certificate_key_file, password=password or _no_password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"tlsCertificateKeyFile {options.certificate_key_file!r} cannot be used: {error}",
            ) from error
    return context


def _no_password() -> str:
    """Without this OpenSSL would ask on the terminal and block the event loop."""
    raise ConfigurationError("the private key is encrypted: set tlsCertificateKeyFilePassword")
