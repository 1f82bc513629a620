"""The API reference describes each public name once, with words that a reader needs."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from typing import Any

import griffe
import pytest

import motorlite
from scripts.site import reference
from scripts.site.docstrings import Readable, exported, keys, raised, readable, with_options
from scripts.site.examples import CLASSES, examples

PAGES = {page.file: page for page in reference.pages()}


@cache
def package() -> Any:
    """The package with the docstrings of the site."""
    paths = [str(reference.REPOSITORY)]
    return griffe.load("motorlite", search_paths=paths, extensions=griffe.Extensions(Readable()))


TEXT = "\n".join(page.text for page in PAGES.values())


def public_modules() -> list[str]:
    names = [info.name for info in pkgutil.walk_packages(motorlite.__path__, "motorlite.")]
    return ["motorlite", *(name for name in names if not any(part.startswith("_") for part in name.split(".")))]


def test_every_public_name_is_described_once() -> None:
    described = [line.removeprefix("::: ") for line in TEXT.splitlines() if line.startswith("::: ")]
    assert len(described) == len(set(described)) > 150
    shown = {path.rpartition(".")[2] for path in described}
    names = [name for name in public_modules() if name != "motorlite.arrow" or find_spec("pymongoarrow")]
    modules = [importlib.import_module(name) for name in names]
    exported = {
        name
        for module in modules
        for name in getattr(module, "__all__", ())
        if f"{module.__name__}.{name}" not in public_modules()
    }
    # bson's own, which PyMongo re-exports, too; and pymongoarrow's.
    assert exported - shown - {"Schema"} == {"InvalidDocument"}


def test_a_name_from_another_package_is_not_looked_up() -> None:
    """pymongoarrow may be missing, and has documentation of its own."""
    assert reference._target(reference.package()["arrow"], "Schema") == "pymongoarrow.schema.Schema"
    page = PAGES["motorlite.arrow.md"].text
    assert "::: motorlite.arrow.find_arrow\n" in page
    assert "Schema" not in page.partition(":::")[2]


def test_every_module_has_a_page_or_is_part_of_one() -> None:
    described = reference.public_modules().keys()
    assert described >= {f"motorlite{name}" for name in ("", ".errors", ".operations", ".retry", ".testing")}
    left_out = set(public_modules()) - described
    for name in left_out:
        above = name.rpartition(".")[0]
        assert above in described or above in left_out, name
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
        ("`docs/retries.md` says", "[What is retried, and when](../retries.md) says"),
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
    text = package()["_api.collection.reads.AsyncCollection.find"].docstring.value
    for key in ("batch_size", "cursor_type", "timeoutMode"):
        assert f"`{key}`" in text


def test_errors_that_docstrings_name_are_found_from_their_modules() -> None:
    """A name that a module does not import would be a word without a link."""
    assert raised("Does.\n\nRaises:\n    TypeError, A: One: A.\n        A.\n    B: Two.\n\nA: three.\n") == {
        "TypeError",
        "A",
        "B",
    }
    (section,) = [
        each
        for each in griffe.parse_google(package()["_api.handles.AsyncCollection"].docstring)
        if each.kind is griffe.DocstringSectionKind.raises
    ]
    (found,) = [each.annotation for each in section.value if "InvalidName" in str(each.annotation)]
    assert isinstance(found, griffe.ExprName)
    assert found.canonical_path == "motorlite.errors.InvalidName"


def test_types_of_signatures_have_a_page_and_say_what_they_are() -> None:
    text = PAGES["types.md"].text
    for heading in (
        "[](){ #motorlite._api.typings.Filter }\n\n## Filter\n",
        "[](){ #motorlite._base.values.Address }\n\n## Address\n",
    ):
        assert heading in text
    assert "Filter = Mapping[str, Any]" in text
    assert "## FindOptions\n\n- `" in text
    assert "\n\n\n" not in text, "a type has no docstring"


def test_no_type_of_a_public_signature_is_left_without_a_page() -> None:
    """Of those that the driver defines; the standard library and bson have documentation of their own."""
    reader = reference.package()
    described = {reader[path].canonical_path for path in reference.TYPES} | set(reference.homes())
    described |= {found.canonical_path for module in reference.OPTIONS for found in reader[module].classes.values()}
    missing: set[str] = set()
    for name in (*reference.LARGE, "AsyncCursor", "AsyncCommandCursor", "AsyncChangeStream"):
        handle = reader[name].final_target
        for method in handle.all_members.values():
            if method.name.startswith("_") or not method.is_function:
                continue
            parts = [each.annotation for each in method.parameters] + [method.returns]
            for part in parts:
                if isinstance(part, griffe.Expr):
                    missing |= {each.canonical_path for each in part.iterate() if isinstance(each, griffe.ExprName)}
    ours = {reader[path.removeprefix("motorlite.")] for path in missing if path.startswith("motorlite.")}
    left = {each.canonical_path for each in ours if not each.is_module} - described
    assert left == set()


def test_methods_show_their_examples() -> None:
    text = package()["_api.collection.reads.AsyncCollection.find_one"].docstring.value
    assert "\n\n**Example:**\n\n```python\nprint(await parts.find_one(" in text
    for example in examples():
        path = exported(package(), CLASSES[example.file]).all_members[example.method].canonical_path
        found = package()[path.partition(".")[2]]
        assert f"```python\n{example.text}```\n" in found.docstring.value, example
    text = package()["_api.handles.AsyncCollection"].docstring.value
    assert text.endswith(
        "In the examples, `parts` is an `AsyncCollection` with three documents, such as "
        '`{"_id": 1, "name": "bolt", "stock": 10}`.\n'
    )
