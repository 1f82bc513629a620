"""Pure: the command that finds out why a client does not connect: ``python -m motorlite.doctor URI``.

The shell `_examination` collects facts with the driver's own parts. The pure modules judge them: their functions take
facts and return findings. What prints findings (`_rendering`) knows nothing about servers.
"""

from __future__ import annotations

__all__ = ()
