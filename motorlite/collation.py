"""Pure: collations, the rules by which the server compares text (CRUD specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from motorlite._base.arguments import check_boolean, check_integer, check_string, is_like

__all__ = [
    "Collation",
    "CollationAlternate",
    "CollationCaseFirst",
    "CollationLike",
    "CollationMaxVariable",
    "CollationStrength",
]


class CollationStrength:
    """Levels of comparison, for `strength`.

    Attributes:
        PRIMARY: Compare base characters.
        SECONDARY: Also compare accents.
        TERTIARY: Also compare case; the server's default.
        QUATERNARY: Also compare punctuation, where `alternate` is "shifted".
        IDENTICAL: Compare every code point.
    """

    PRIMARY: Final = 1
    SECONDARY: Final = 2
    TERTIARY: Final = 3
    QUATERNARY: Final = 4
    IDENTICAL: Final = 5


class CollationAlternate:
    """Whether spaces and punctuation are compared, for `alternate`.

    Attributes:
        NON_IGNORABLE: Compare them like any other character; the server's default.
        SHIFTED: Compare them only where `strength` is above TERTIARY.
    """

    NON_IGNORABLE: Final = "non-ignorable"
    SHIFTED: Final = "shifted"


class CollationMaxVariable:
    """The characters affected by "shifted", for `maxVariable`.

    Attributes:
        PUNCT: Spaces and punctuation.
        SPACE: Spaces.
    """

    PUNCT: Final = "punct"
    SPACE: Final = "space"


class CollationCaseFirst:
    """Which case sorts first, for `caseFirst`.

    Attributes:
        UPPER: Upper case.
        LOWER: Lower case.
        OFF: The locale's default.
    """

    UPPER: Final = "upper"
    LOWER: Final = "lower"
    OFF: Final = "off"


class Collation:
    """Rules for comparing text; see the server's manual, "Collation".

    Args:
        locale: The ICU locale, such as ``"en_US"``, or ``"simple"`` for plain binary comparison.
        caseLevel: Whether to compare case where `strength` is PRIMARY or SECONDARY.
        caseFirst: One of `CollationCaseFirst`.
        strength: One of `CollationStrength`.
        numericOrdering: Whether "10" sorts after "2".
        alternate: One of `CollationAlternate`.
        maxVariable: One of `CollationMaxVariable`.
        normalization: Whether to normalize text before comparing it.
        backwards: Whether to compare accents from the end, as in some French dictionaries.
        **kwargs: Options of later servers, by their names.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ("_document",)

    def __init__(
        self,
        locale: str,
        caseLevel: bool | None = None,
        caseFirst: str | None = None,
        strength: int | None = None,
        numericOrdering: bool | None = None,
        alternate: str | None = None,
        maxVariable: str | None = None,
        normalization: bool | None = None,
        backwards: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_string("locale", locale)
        document: dict[str, Any] = {"locale": locale}
        for name, value, check in (
            ("caseLevel", caseLevel, check_boolean),
            ("caseFirst", caseFirst, check_string),
            ("strength", strength, check_integer),
            ("numericOrdering", numericOrdering, check_boolean),
            ("alternate", alternate, check_string),
            ("maxVariable", maxVariable, check_string),
            ("normalization", normalization, check_boolean),
            ("backwards", backwards, check_boolean),
        ):
            if value is not None:
                check(name, value)
                document[name] = value
        self._document = {**document, **kwargs}

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the collation document for commands."""
        return dict(self._document)

    def __eq__(self, other: object) -> bool:
        if is_like(other, Collation):  # PyMongo's has a document too
            return self._document == cast("Collation", other).document
        return NotImplemented

    def __repr__(self) -> str:
        return f"Collation({', '.join(f'{name}={value!r}' for name, value in self._document.items())})"


CollationLike: TypeAlias = Collation | Mapping[str, Any]
"""A `Collation`, which may be PyMongo's, or its document."""
