"""What MkDocs needs to make the documentation site (mkdocs.yml): hooks, the pages of the reference, and checks."""

from __future__ import annotations
