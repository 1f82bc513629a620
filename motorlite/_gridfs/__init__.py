"""Pure: GridFS, files in two collections, on top of the API."""

from __future__ import annotations
