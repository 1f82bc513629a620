"""Pure: the command that ports a program from PyMongo Async or Motor: ``python -m motorlite.port PATH``.

It needs the extra `port`: ``pip install 'motorlite[port]'``. Nothing else in motorlite imports this package.
"""

from __future__ import annotations

__all__ = ()
