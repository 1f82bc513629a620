"""docs/retries.md says what the operations declare."""

from __future__ import annotations

import re

import pytest

from tests.support.handles import HANDLES, methods, sends
from tests.support.public_calls import ELSEWHERE, SECTIONS, Call, sent_by
from tests.unit._api.retries_document import FILE, document

CALLS = [call for calls in SECTIONS.values() for call in calls]


@pytest.mark.anyio
async def test_it_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == await document(), "run: python -m tests.unit._api.retries_document"


@pytest.mark.anyio
@pytest.mark.parametrize("call", [call for call in CALLS if "rewind" not in call.text], ids=lambda call: call.text)
async def test_each_call_sends_something(call: Call) -> None:
    assert await sent_by(call)


@pytest.mark.anyio
async def test_every_exception_to_the_ordinary_rule_is_named() -> None:
    _, _, text = FILE.read_text(encoding="utf-8").partition("## Exceptions to the ordinary rule")
    named = text.partition("\n## ")[0]
    exceptions = {
        (call.text, sent.name)
        for title, calls in SECTIONS.items()
        for call in calls
        if title != "Administration"
        for sent in await sent_by(call)
        if not sent.operation.is_retryable
    }
    assert len(exceptions) > 10
    missing = [
        text
        for text, command in exceptions
        if not any(word in named for word in (f"`{command}`", *re.findall(r"\w+(?=\()|w=0|\$out", text)))
    ]
    assert missing == []


def test_every_method_that_sends_is_in_it() -> None:
    sending = {
        f"{kind.__name__}.{name}"
        for kind in HANDLES
        for name, method in methods(kind).items()
        if sends(kind, name, method)
    }
    assert sending - {call.method for call in CALLS} == set(ELSEWHERE)
