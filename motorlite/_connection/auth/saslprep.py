"""Pure: SASLprep, which prepares passwords for SCRAM-SHA-256 (RFC 4013, a profile of RFC 3454)."""

from __future__ import annotations

import stringprep
from typing import TYPE_CHECKING, Final
from unicodedata import ucd_3_2_0

from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

# RFC 4013 section 2.3, and section 2.5 for unassigned code points, because RFC 5802 prepares "stored strings".
_PROHIBITED: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (stringprep.in_table_c12, "a space other than U+0020"),
    (stringprep.in_table_c21_c22, "a control character"),
    (stringprep.in_table_c3, "a private use character"),
    (stringprep.in_table_c4, "a non-character code point"),
    (stringprep.in_table_c5, "a surrogate"),
    (stringprep.in_table_c6, "a character that is unfit for plain text"),
    (stringprep.in_table_c7, "a character that is unfit for canonical representation"),
    (stringprep.in_table_c8, "a character that changes display properties, or a deprecated one"),
    (stringprep.in_table_c9, "a tagging character"),
    (stringprep.in_table_a1, "a code point that Unicode 3.2 does not assign"),
)


def saslprep(text: str) -> str:
    """Prepare `text` for key derivation.

    Raises:
        ConfigurationError: The text contains a prohibited character. The error names the rule but never the text.
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    # stringprep is defined on Unicode 3.2. A newer normalization would derive keys that differ from the server's.
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    for is_prohibited, name in _PROHIBITED:
        if any(map(is_prohibited, prepared)):
            raise ConfigurationError(f"SASLprep: the password contains {name} (RFC 4013)")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """Check RFC 3454 section 6: right-to-left text has no left-to-right characters, and begins and ends as such."""
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ConfigurationError("SASLprep: the password mixes right-to-left and left-to-right text (RFC 4013)")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ConfigurationError(
            "SASLprep: a right-to-left password must begin and end with a right-to-left character (RFC 4013)"
        )
