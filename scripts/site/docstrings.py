"""An extension of Griffe, which reads the docstrings of the API reference: their words as a reader needs them.

The first line of a module's docstring names its kind, for contributors, and docstrings mark literal blocks as
reStructuredText does. A reader of the site needs neither.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import griffe

from scripts.site.links import REPOSITORY

if TYPE_CHECKING:
    from griffe import Module, Object

_KIND: Final = re.compile(r"\A(?:Pure|Shell|Net): (\S)")
_LITERAL: Final = re.compile(r"::$", re.MULTILINE)
_DOUBLE: Final = re.compile(r"``([^`\n]+)``")
# A page of the documentation, with or without quotes, and not the target of a link.
_PAGE: Final = re.compile(r"(?<![\w/])(?<!\]\()`?docs/([a-z-]+\.md)`?")


def readable(text: str) -> str:
    """A docstring as Markdown."""
    text = _KIND.sub(lambda match: match[1].upper(), text)
    text = _LITERAL.sub(":", text)
    text = _DOUBLE.sub(r"`\1`", text)
    return _PAGE.sub(lambda match: f"[{_title(match[1])}](../{match[1]})", text)


@cache
def _title(page: str) -> str:
    """The heading of a page of docs/."""
    with (REPOSITORY / "docs" / page).open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


class Readable(griffe.Extension):
    """Makes every docstring readable, when its module has been loaded."""

    def on_package(self, *, pkg: Module, **options: Any) -> None:
        """The whole package is loaded."""
        del options
        self._change(pkg)

    def _change(self, thing: Object) -> None:
        if thing.docstring is not None:
            thing.docstring.value = readable(thing.docstring.value)
        for member in thing.members.values():
            if not isinstance(member, griffe.Alias):
                self._change(member)
