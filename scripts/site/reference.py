"""Pages of the API reference: one for each public module, from its `__all__`.

A name that several modules export is described once, in the module that is about it, and listed in the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import griffe

from scripts.site.docstrings import all_keys, readable
from scripts.site.links import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = "motorlite"
# Classes whose methods fill a page.
LARGE: Final = ("AsyncMongoClient", "AsyncDatabase", "AsyncCollection")
# Types that signatures name and that are in no public module, since programs rarely need them.
TYPES: Final = (
    "_api.typings.DocumentT",
    "_api.typings.OtherDocumentT",
    "_api.typings.ClientT_co",
    "_api.typings.Filter",
    "_api.typings.Projection",
    "_api.typings.TimeoutMode",
    "_base.arguments.Hint",
    "_base.arguments.IndexKeys",
    "_base.arguments.Pipeline",
    "_base.values.Address",
    "_base.values.Document",
    "read_preferences.TagSets",
    "testing.server.local_server.Topology",
)
# The modules of the typed dictionaries whose keys are keyword arguments.
OPTIONS: Final = ("_api.arguments.find_options", "_api.arguments.method_options")
_TYPES_FILE: Final = "types.md"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the reference: its file in the folder `reference`, its title, and its text."""

    file: str
    title: str
    text: str


@cache
def package() -> griffe.Module:
    """The driver, read but not imported."""
    loaded = griffe.load(PACKAGE, search_paths=[str(REPOSITORY)], resolve_aliases=True, resolve_implicit=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for name, member in sorted(module.members.items()):
        if isinstance(member, griffe.Module) and not name.startswith("_"):
            yield from _modules(member)


def _names(module: griffe.Module) -> list[str]:
    """The names in its ``__all__``; of a module without one, which is not imported by name, what has no underscore."""
    if module.exports is not None:
        return [str(name) for name in module.exports]
    return [name for name, member in module.members.items() if _is_own(name, member)]


def _is_own(name: str, member: griffe.Object | griffe.Alias) -> bool:
    return not name.startswith("_") and not member.is_alias and not member.is_module and member.has_docstring


def _target(module: griffe.Module, name: str) -> str:
    """The path of the definition behind a name."""
    member = module.members[name]
    if not isinstance(member, griffe.Alias):
        return member.path
    is_ours = member.target_path.partition(".")[0] == PACKAGE
    return member.final_target.path if is_ours else member.target_path


@cache
def public_modules() -> dict[str, griffe.Module]:
    """The modules that have a page: all but parts of packages that export the same names (`motorlite.retry.budget`)."""
    found: dict[str, griffe.Module] = {}
    for module in _modules(package()):
        above = found.get(module.path.rpartition(".")[0])
        shown = set() if above is None or above.path == PACKAGE else {_target(above, name) for name in _names(above)}
        own = {_target(module, name) for name in _names(module) if name in module.members}
        # The helpers of the test server have no names for others, and only LocalServer is public.
        if module.path.startswith(f"{PACKAGE}.testing.server") or (own and own <= shown):
            continue
        found[module.path] = module
    return found


@cache
def homes() -> dict[str, str]:
    """The module that describes each definition: the first but the package itself."""
    found: dict[str, str] = {}
    for path, module in [*list(public_modules().items())[1:], *list(public_modules().items())[:1]]:
        for name in _names(module):
            if _is_described(module, name):
                found.setdefault(_target(module, name), path)
    return found


def _is_described(module: griffe.Module, name: str) -> bool:
    """Whether the reference describes it: modules have pages of their own, and other packages documentation."""
    if name not in module.members or not _target(module, name).startswith(f"{PACKAGE}."):
        return False
    return not module.members[name].is_module


def _summary(module: griffe.Module) -> str:
    text = readable(module.docstring.value if module.docstring else "").strip()
    return " ".join(text.partition("\n\n")[0].split())


def _listed(module: griffe.Module, names: list[str]) -> str:
    rows = [f"- [`{name}`][{homes()[_target(module, name)]}.{name}]" for name in names]
    return "\n".join(["", "Described with the module that they belong to:", "", *rows, ""])


def _entry(module: griffe.Module, name: str, **options: str) -> str:
    """What mkdocstrings replaces by the description of a name.

    Members of a base class are listed if the base class has no description of its own: methods of a collection are in
    private classes, while all errors share the attributes of `PyMongoError`.
    """
    member = module.members[name]
    found = member.final_target if isinstance(member, griffe.Alias) else member
    inherited = []
    if isinstance(found, griffe.Class):
        bases = {key: each.final_target.parent for key, each in found.inherited_members.items()}
        inherited = [
            key
            for key, base in bases.items()
            if base is not None and base.path not in homes() and not key.startswith("_")
        ]
    options["inherited_members"] = f"[{', '.join(inherited)}]" if inherited else "false"
    lines = [f"      {option}: {value}" for option, value in options.items()]
    return "\n".join([f"::: {module.path}.{name}", "    options:", *lines])


def _page(path: str, module: griffe.Module) -> Page:
    """The page of a module."""
    described: list[str] = []
    elsewhere: list[str] = []
    for name in _names(module):
        if not _is_described(module, name) or (path == PACKAGE and name in LARGE):
            continue
        (described if homes()[_target(module, name)] == path else elsewhere).append(name)
    lines = [f"# {path}", "", readable(module.docstring.value if module.docstring else "").strip(), ""]
    if path == PACKAGE:
        lines += [f"- [`{name}`]({_file_of(name)})" for name in LARGE] + [""]
    if elsewhere:
        lines.append(_listed(module, elsewhere))
    for name in described:
        lines += [_entry(module, name), ""]
    return Page(f"{path}.md", path.removeprefix(f"{PACKAGE}."), "\n".join(lines))


def _types() -> Page:
    """The page of the types that have none of their own: signatures link to its headings."""
    lines = [
        "# Types in signatures",
        "",
        "Names that signatures use and no module exports. Type checkers know them; programs write what they stand for.",
        "",
    ]
    for path in TYPES:
        found = package()[path]
        lines += [f"[](){{ #{found.canonical_path} }}", "", f"## {found.name}", "", readable(_meaning(found)), ""]
        if found.value is not None and not found.name.endswith(("T", "_co")):
            lines += ["```python", f"{found.name} = {found.value}", "```", ""]
    classes = {found.name: found for module in OPTIONS for found in package()[module].classes.values()}
    for name, found in sorted(classes.items()):
        if name.endswith("Options"):
            listed = all_keys(found, classes)
            lines += [f"[](){{ #{found.canonical_path} }}", "", f"## {name}", ""]
            lines += [*map(readable, listed or [_meaning(found)]), ""]
    return Page(_TYPES_FILE, "Types in signatures", "\n".join(lines))


def _meaning(found: griffe.Object | griffe.Alias) -> str:
    return " ".join(found.docstring.value.split()) if found.docstring else ""


def _file_of(name: str) -> str:
    return f"{PACKAGE}.{name}.md"


def pages() -> list[Page]:
    """All pages, the overview first."""
    # Their methods come from several base classes, so the order of the source is not one that a reader knows.
    look = {"heading_level": "1", "members_order": "alphabetical"}
    large = [Page(_file_of(name), name, f"{_entry(package(), name, **look)}\n") for name in LARGE]
    modules = [_page(path, module) for path, module in public_modules().items()]
    rows = [f"| [`{path}`]({path}.md) | {_summary(module)} |" for path, module in public_modules().items()]
    rows.append(f"| [types in signatures]({_TYPES_FILE}) | What stands for a type in the signatures of methods. |")
    overview = [
        "# API reference",
        "",
        "Names, parameters and behaviour are those of PyMongo's asynchronous API, as far as it has them; a port",
        "changes the import. Everything without an underscore is public, and the [policy of versions](../versions.md)",
        "applies to it.",
        "",
        *(f"- [`{name}`]({_file_of(name)})" for name in LARGE),
        "",
        "| module | contents |",
        "|---|---|",
        *rows,
        "",
    ]
    return [Page("index.md", "Overview", "\n".join(overview)), *large, *modules, _types()]
