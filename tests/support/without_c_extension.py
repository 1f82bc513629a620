"""A pytest plugin (`-p tests.support.without_c_extension`): the tests run without the C extension of `bson`.

So does the driver where PyMongo was installed without it, and in subinterpreters, which refuse to load it.
"""

from __future__ import annotations

import sys

assert "bson" not in sys.modules
# An import of it fails now.
sys.modules["bson._cbson"] = None  # type: ignore[assignment]
