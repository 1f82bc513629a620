"""Shell: loads the packages of the extra ``arrow``, or says which extra is missing."""

from __future__ import annotations

import warnings

__all__ = ["BuilderManager", "Schema"]

try:
    with warnings.catch_warnings():
        # Releases of pyarrow add fields at the end of structures, about which the compiled decoder warns.
        warnings.filterwarnings("ignore", r"pyarrow\.lib\.\w+ size changed", RuntimeWarning)
        from pymongoarrow.lib import BuilderManager
    from pymongoarrow.schema import Schema
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"motorlite.arrow needs pymongoarrow ({error.name} is not installed): pip install 'motorlite[arrow]'",
        name=error.name,
    ) from error
