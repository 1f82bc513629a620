"""An extension of Griffe, which reads the docstrings of the API reference: their words as a reader needs them.

The first line of a module's docstring names its kind, for contributors, and docstrings mark literal blocks as
reStructuredText does. A reader of the site needs neither. Keyword arguments that several methods share are described by
a private TypedDict, to which docstrings refer (``options: See `FindOptions`.``); on the site, each method lists them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import griffe

from scripts.site.examples import CLASSES, examples, introduction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from griffe import Class, Module, Object

_KIND: Final = re.compile(r"\A(?:Pure|Shell|Net): (\S)")
_LITERAL: Final = re.compile(r"::$", re.MULTILINE)
_LABEL: Final = re.compile(r"^(Retries|Source): ", re.MULTILINE)
_OPTIONS: Final = re.compile(r"^( *)options: See `(\w+)`([^\n.]*)\.$", re.MULTILINE)
_KEY: Final = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n      .*)*)", re.MULTILINE)
_RAISED: Final = re.compile(r"^ +(\w+(?:, \w+)*): ", re.MULTILINE)
_DOUBLE: Final = re.compile(r"``([^`\n]+)``")
# A page of the documentation, with or without quotes, and not the target of a link.
_PAGE: Final = re.compile(r"(?<![\w/])(?<!\]\()`?docs/([a-z-]+\.md)`?")


def readable(text: str) -> str:
    """A docstring as Markdown."""
    text = _KIND.sub(lambda match: match[1].upper(), text)
    text = _LITERAL.sub(":", text)
    text = _DOUBLE.sub(r"`\1`", text)
    text = _LABEL.sub(r"**\1:** ", text)
    return _PAGE.sub(lambda match: f"[{_title(match[1])}](../{match[1]})", text)


@cache
def _title(page: str) -> str:
    """The heading of a page of docs/."""
    with Path(__file__).parents[2].joinpath("docs", page).open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def raised(text: str) -> set[str]:
    """The names of the errors in the section ``Raises:`` of a docstring."""
    section = text.partition("Raises:\n")[2].partition("\n\n")[0]
    return {name for names in _RAISED.findall(section) for name in names.split(", ")}


def keys(text: str) -> list[str]:
    """The items of the section ``Keys:`` of a docstring, as items of a list."""
    _, _, section = text.partition("\nKeys:\n")
    items = _KEY.findall(section.partition("\n\n")[0])
    return [f"- `{names.replace(', ', '`, `')}`: {' '.join(meaning.split())}" for names, meaning in items]


def with_options(text: str, known: Mapping[str, list[str]]) -> str:
    """A docstring that lists the options to which it only refers."""

    def listed(match: re.Match[str]) -> str:
        indent, name, rest = match.groups()
        items = "\n".join(f"{indent}    {item}" for item in known[name])
        return f"{indent}options: Further options{rest or ''}:\n\n{items}\n"

    return _OPTIONS.sub(listed, text)


class Readable(griffe.Extension):
    """Makes every docstring readable, when its module has been loaded."""

    def on_package(self, *, pkg: Module, **options: Any) -> None:
        """The whole package is loaded."""
        del options
        classes = {found.name: found for found in _classes(pkg)}
        self._options = {name: all_keys(found, classes) for name, found in classes.items()}
        self._errors = {name: f"{pkg.path}.errors.{name}" for name in pkg["errors"].classes}
        self._examples: dict[str, str] = {}
        for file, name in CLASSES.items():
            self._examples[exported(pkg, name).canonical_path] = f"\n\nIn the examples, {introduction(file)}\n"
        for example in examples():
            found = exported(pkg, CLASSES[example.file]).all_members[example.method]
            # Classes share methods: then there is an example for each of them.
            before = self._examples.get(found.canonical_path, "\n\n**Example:**\n")
            self._examples[found.canonical_path] = f"{before}\n```python\n{example.text}```\n"
        self._change(pkg)

    def _change(self, thing: Object) -> None:
        if thing.docstring is not None:
            self._know(thing, raised(thing.docstring.value))
            text = readable(with_options(thing.docstring.value, self._options))
            thing.docstring.value = text + self._examples.get(thing.path, "")
        for member in [*thing.members.values()]:
            if not isinstance(member, griffe.Alias):
                self._change(member)

    def _know(self, thing: Object, errors: set[str]) -> None:
        """Let a module find the errors that its docstrings name, so that the site links them."""
        for name in errors & (self._errors.keys() - thing.module.members.keys()):
            thing.module.set_member(name, griffe.Alias(name, self._errors[name], parent=thing.module))


def exported(pkg: Module, name: str) -> Any:
    """A public class that has examples."""
    return pkg[name if name in pkg.members else f"encryption.{name}"]


def _classes(thing: Object) -> Iterator[Class]:
    """All classes that have keys."""
    for member in thing.members.values():
        if isinstance(member, griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from _classes(member)


def all_keys(found: Class, classes: Mapping[str, Class]) -> list[str]:
    """The keys of a class and of its bases, which come first."""
    inherited = [key for base in found.bases if str(base) in classes for key in all_keys(classes[str(base)], classes)]
    return [*inherited, *keys(found.docstring.value if found.docstring else "")]
