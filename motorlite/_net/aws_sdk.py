"""Net: credentials from the AWS SDK for Python (botocore), which the extra `motorlite[aws]` installs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from motorlite.errors import ConfigurationError


def find_credentials() -> Any | None:
    """Return botocore's credentials from files, the environment or AWS endpoints, or None if it finds none. Blocks.

    The object refreshes itself when its credentials expire; call its `get_frozen_credentials()`.

    Raises:
        ConfigurationError: botocore is not installed.
    """
    if find_spec("botocore") is None:
        raise ConfigurationError(
            "MONGODB-AWS: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set in the environment, and other "
            "sources of credentials need botocore: pip install 'motorlite[aws]'"
        )
    # Imported by name: it has no types, and may be missing where this is type-checked.
    return import_module("botocore.session").get_session().get_credentials()
