"""Inputs by their structure, as hypothesis makes them: BSON of all types, and valid messages with a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from hypothesis import strategies as st

from tests.fuzz.mutation import Mutator, decoded, documents
from tests.fuzz.target import MAX_INPUT, Form
from tests.support.malformed import ABSENT, VALUES

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from tests.fuzz.target import Target

_SCALARS: Final = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.sampled_from([value for value in VALUES.values() if value is not ABSENT])
)


def values(keys: SearchStrategy[str]) -> SearchStrategy[Any]:
    """Values of all BSON types, with these keys in documents."""
    return st.recursive(
        _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
    )


@st.composite
def _documents(draw: DrawFn, target: Target) -> bytes:
    """Documents of a seed with some fields replaced, or removed, or with others."""
    keys = st.sampled_from(Mutator.keys_of(target) or ["x"]) | st.text(max_size=5).filter(lambda key: "\0" not in key)
    found = b""
    for body in documents(draw(st.sampled_from(target.seeds))[target.prefix :]):
        document = decoded(body)
        if document is None:
            found += body
            continue
        for key in draw(st.lists(st.sampled_from([*document, None]), max_size=2)):
            if key is None:
                document |= draw(st.dictionaries(keys, values(keys), max_size=2))
            elif draw(st.booleans()):
                document[key] = draw(values(keys))
            else:
                document.pop(key, None)
        found += bson.encode(document)
    return found


@st.composite
def _bytes(draw: DrawFn, target: Target) -> bytes:
    """A seed with a part replaced."""
    seed = draw(st.sampled_from(target.seeds))[target.prefix :]
    start, size = draw(st.integers(0, len(seed))), draw(st.integers(0, 8))
    return seed[:start] + draw(st.binary(max_size=12)) + seed[start + size :]


@st.composite
def inputs(draw: DrawFn, target: Target) -> bytes:
    """Inputs of a target."""
    prefix = draw(st.binary(min_size=target.prefix, max_size=target.prefix))
    body = _documents(target) if target.form is Form.DOCUMENTS else _bytes(target)
    return (prefix + draw(body | st.binary(max_size=200)))[: 2 * MAX_INPUT]
