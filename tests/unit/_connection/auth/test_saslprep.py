from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._connection.auth.scram import saslprep
from motorlite.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        # RFC 4013 section 3.
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        # Mapped spaces, the authentication specification's example, right-to-left text, and nothing at all.
        ("a\u00a0b\u3000c", "a b c"),
        ("I\u00adV", "IV"),
        ("\u2163", "IV"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("", ""),
        ("\u00ad", ""),
        # Unicode 4.0 changed this normalization; stringprep stays with 3.2.
        ("\U0002f868", "\U0002136a"),
    ],
)
def test_prepared(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("pw\u0007", "a control character"),
        ("pw\u0085", "a control character"),
        ("pw\ue000", "private use"),
        ("pw\ufdd0", "non-character"),
        ("pw\ud800", "surrogate"),
        ("pw\ufffd", "unfit for plain text"),
        ("pw\u2ff0", "unfit for canonical"),
        ("pw\u200e", "display properties"),
        ("pw\U000e0041", "tagging"),
        ("pw\u0221", "does not assign"),
        ("pw\U0001f600", "does not assign"),
        ("\u0627\u0031", "begin and end"),
        ("\u0031\u0627", "begin and end"),
        ("\u0627pw\u0628", "mixes"),
    ],
)
def test_prohibited(text: str, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule) as raised:
        saslprep(text)
    assert "pw" not in str(raised.value)


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_printable_ascii_stays(text: str) -> None:
    assert saslprep(text) == text
