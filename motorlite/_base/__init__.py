"""Pure: values and checks that import nothing else from the driver."""

from __future__ import annotations
