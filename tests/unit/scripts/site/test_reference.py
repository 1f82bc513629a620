"""The API reference describes each public name once, with words that a reader needs."""

from __future__ import annotations

import importlib
import pkgutil

import griffe
import pytest

import motorlite
from scripts.site import reference
from scripts.site.docstrings import Readable, keys, readable, with_options
from scripts.site.links import REPOSITORY

PAGES = {page.file: page for page in reference.pages()}
TEXT = "\n".join(page.text for page in PAGES.values())


def public_modules() -> list[str]:
    names = [info.name for info in pkgutil.walk_packages(motorlite.__path__, "motorlite.")]
    return ["motorlite", *(name for name in names if not any(part.startswith("_") for part in name.split(".")))]


def test_every_public_name_is_described_once() -> None:
    described = [line.removeprefix("::: ") for line in TEXT.splitlines() if line.startswith("::: ")]
    assert len(described) == len(set(described)) > 150
    shown = {path.rpartition(".")[2] for path in described}
    modules = [importlib.import_module(name) for name in public_modules()]
    exported = {
        name
        for module in modules
        for name in getattr(module, "__all__", ())
        if f"{module.__name__}.{name}" not in public_modules()
    }
    # bson's own, which PyMongo re-exports, too.
    assert exported - shown == {"InvalidDocument"}


def test_every_module_has_a_page_or_is_part_of_one() -> None:
    assert {
        "motorlite",
        "motorlite.errors",
        "motorlite.operations",
        "motorlite.retry",
        "motorlite.testing",
    } <= reference.public_modules().keys()
    left_out = set(public_modules()) - reference.public_modules().keys()
    for name in left_out:
        above = name.rpartition(".")[0]
        assert above in reference.public_modules() or above in left_out, name
    assert "motorlite.retry.budget" in left_out


def test_the_overview_has_a_line_for_each_module() -> None:
    overview = PAGES["index.md"].text
    for path in reference.public_modules():
        assert f"| [`{path}`]({path}.md) | " in overview
        assert f"]({path}.md) |  |" not in overview, f"{path} has no docstring"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pure: the budget.", "The budget."),
        ("Shell: `find`.", "`find`."),
        ("Use it::\n\n    a = 1", "Use it:\n\n    a = 1"),
        ("``a`` and `b`", "`a` and `b`"),
        ("Ends.\n\nRetries: none.", "Ends.\n\n**Retries:** none."),
        ("`docs/retries.md` says", "[What is retried when](../retries.md) says"),
        ("(docs/limits.md)", "([Breakers and limits](../limits.md))"),
        ("[limits](docs/limits.md)", "[limits](docs/limits.md)"),
    ],
)
def test_docstrings(text: str, expected: str) -> None:
    assert readable(text) == expected


OPTIONS = """\
Some options.

Keys:
    a: The first.
    b, c: The others, in
        two lines.

More.
"""


def test_options_that_methods_share_are_listed_with_each() -> None:
    found = keys(OPTIONS)
    assert found == ["- `a`: The first.", "- `b`, `c`: The others, in two lines."]
    text = "Args:\n    x: One.\n    options: See `Some`; without `a`.\n\nRaises:\n"
    assert with_options(text, {"Some": found}) == (
        "Args:\n    x: One.\n    options: Further options; without `a`:\n\n"
        "        - `a`: The first.\n        - `b`, `c`: The others, in two lines.\n\n\nRaises:\n"
    )
    with pytest.raises(KeyError):
        with_options(text, {})


def test_the_options_of_find_and_of_what_it_inherits() -> None:
    package = griffe.load("motorlite", search_paths=[str(REPOSITORY)], extensions=griffe.Extensions(Readable()))
    text = package["_api.collection.reads.AsyncCollection.find"].docstring.value
    for key in ("batch_size", "cursor_type", "timeoutMode"):
        assert f"`{key}`" in text
