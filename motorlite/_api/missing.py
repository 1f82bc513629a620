"""Pure: PyMongo features that motorlite does not have yet, by attribute name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Listed here so that they do not become databases and collections. Otherwise the error would say "not callable".
CLIENT: Final[Mapping[str, str]] = {}
DATABASE: Final[Mapping[str, str]] = {}
COLLECTION: Final[Mapping[str, str]] = {}


class MissingFeature(AttributeError, NotImplementedError):
    """A feature of PyMongo that motorlite does not have yet. `hasattr` returns False for its name."""


def no_attribute(owner: str, name: str, features: Mapping[str, str], instead: str = "") -> AttributeError:
    """Return the error for an attribute that `owner` lacks. `instead` is a clause that suggests a replacement."""
    if name in features:
        return MissingFeature(f"{owner} has no {name!r} yet: motorlite does not support {features[name]}{instead}")
    return AttributeError(f"{owner} has no attribute {name!r}{instead}")
