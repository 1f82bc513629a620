"""Pages of the API reference: one for each public module, from its `__all__`.

A name that several modules export is described once, in the module that is about it, and listed in the others.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import griffe

from scripts.site.docstrings import all_keys, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "motorlite"
# Classes whose methods fill a page.
LARGE: Final = ("AsyncMongoClient", "AsyncDatabase", "AsyncCollection")
# Types that signatures name and that are in no public module, since programs rarely need them.
TYPES: Final = (
    *("_api.typings.DocumentT", "_api.typings.OtherDocumentT", "_api.typings.ClientT_co", "_api.typings.Filter"),
    *("_api.typings.Projection", "_api.typings.TimeoutMode", "_base.arguments.Bounds"),
    *("_base.arguments.Hint", "_base.arguments.IndexKeys"),
    *("_base.arguments.Pipeline", "_base.values.Address", "_base.values.Document", "read_preferences.TagSets"),
    "testing.server.local_server.Topology",
)
# The modules of the typed dictionaries whose keys are keyword arguments.
OPTIONS: Final = ("_api.arguments.find_options", "_api.arguments.method_options")
_OVERVIEW: Final = """\
# API reference

Names, parameters and behaviour are those of PyMongo's asynchronous API, as far as it has them; a port
changes the import. Everything without an underscore is public, and the [policy of versions](../versions.md)
applies to it.

{large}

| module | contents |
|---|---|
{modules}
| [types in signatures](types.md) | What stands for a type in the signatures of methods. |
"""
_TYPES: Final = """\
# Types in signatures

Names that signatures use and no module exports. Type checkers know them; programs write what they stand for.
"""


class Page(NamedTuple):
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
    own = {name: each for name, each in module.members.items() if not (each.is_alias or each.is_module)}
    return [name for name, each in own.items() if not name.startswith("_") and each.has_docstring]


def _target(module: griffe.Module, name: str) -> str:
    """The path of the definition behind a name. What another package defines is not looked at: it may be missing."""
    member: griffe.Object | griffe.Alias = module.members[name]
    while isinstance(member, griffe.Alias):
        if not member.target_path.startswith(f"{PACKAGE}."):
            return member.target_path
        member = package()[member.target_path.removeprefix(f"{PACKAGE}.")]
    return member.path


@cache
def public_modules() -> dict[str, griffe.Module]:
    """The modules that have a page: all but parts of packages that export the same names (`motorlite.retry.budget`)."""
    found: dict[str, griffe.Module] = {}
    for module in _modules(package()):
        above = found.get(module.path.rpartition(".")[0])
        shown = set() if above is None or above.path == PACKAGE else {_target(above, name) for name in _names(above)}
        own = {_target(module, name) for name in _names(module) if name in module.members}
        # The helpers of the test server have no names for others, and only LocalServer is public.
        if not module.path.startswith(f"{PACKAGE}.testing.server") and not (own and own <= shown):
            found[module.path] = module
    return found


def _described(module: griffe.Module) -> dict[str, str]:
    """What the reference describes, by name: modules have pages of their own, and other packages documentation."""
    own = {name: _target(module, name) for name in _names(module) if name in module.members}
    return {
        name: target
        for name, target in own.items()
        if target.startswith(f"{PACKAGE}.") and not module.members[name].is_module
    }


@cache
def homes() -> dict[str, str]:
    """The module that describes each definition: the first but the package itself."""
    top, *others = public_modules()
    found: dict[str, str] = {}
    for path in (*others, top):
        for target in _described(public_modules()[path]).values():
            found.setdefault(target, path)
    return found


def _docstring(thing: griffe.Object | griffe.Alias) -> str:
    return readable(thing.docstring.value).strip() if thing.docstring else ""


def _line(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def _entry(module: griffe.Module, name: str, **options: str) -> str:
    """What mkdocstrings replaces by the description of a name.

    Members of a base class are listed if the base class has no description of its own: methods of a collection are in
    private classes, while all errors share the attributes of `PyMongoError`.
    """
    member = module.members[name]
    found = member.final_target if isinstance(member, griffe.Alias) else member
    inherited = []
    for key, each in found.inherited_members.items() if isinstance(found, griffe.Class) else ():
        base = each.final_target.parent
        if base is not None and base.path not in homes() and not key.startswith("_"):
            inherited.append(key)
    options["inherited_members"] = f"[{', '.join(inherited)}]" if inherited else "false"
    lines = [f"      {option}: {value}" for option, value in options.items()]
    return "\n".join([f"::: {module.path}.{name}", "    options:", *lines, ""])


def _page(path: str, module: griffe.Module) -> Page:
    """The page of a module."""
    described = {name: home for name, target in _described(module).items() for home in [homes()[target]]}
    if path == PACKAGE:
        described = {name: home for name, home in described.items() if name not in LARGE}
    parts = [f"# {path}\n", f"{_docstring(module)}\n", *([f"{_list_of_large()}\n"] if path == PACKAGE else [])]
    elsewhere = [f"- [`{name}`][{home}.{name}]" for name, home in described.items() if home != path]
    if elsewhere:
        parts += ["Described with the module that they belong to:\n", *elsewhere, ""]
    parts += [_entry(module, name) for name, home in described.items() if home == path]
    return Page(f"{path}.md", path.removeprefix(f"{PACKAGE}."), "\n".join(parts))


def _list_of_large() -> str:
    return "\n".join(f"- [`{name}`]({PACKAGE}.{name}.md)" for name in LARGE)


def _types() -> Page:
    """The page of the types that have none of their own: signatures link to its headings."""
    parts = [_TYPES]
    for found in (package()[path] for path in TYPES):
        parts.append(f"[](){{ #{found.canonical_path} }}\n\n## {found.name}\n\n{_line(_docstring(found))}\n")
        if found.value is not None and not found.name.endswith(("T", "_co")):
            parts.append(f"```python\n{found.name} = {found.value}\n```\n")
    classes = {found.name: found for module in OPTIONS for found in package()[module].classes.values()}
    for name, found in sorted(classes.items()):
        if name.endswith("Options"):
            listed = "\n".join(map(readable, all_keys(found, classes))) or _line(_docstring(found))
            parts.append(f"[](){{ #{found.canonical_path} }}\n\n## {name}\n\n{listed}\n")
    return Page("types.md", "Types in signatures", "\n".join(parts))


@cache
def pages() -> list[Page]:
    """All pages, the overview first."""
    # Their methods come from several base classes, so the order of the source is not one that a reader knows.
    look = {"heading_level": "1", "members_order": "alphabetical"}
    large = [Page(f"{PACKAGE}.{name}.md", name, _entry(package(), name, **look)) for name in LARGE]
    rows = [f"| [`{path}`]({path}.md) | {_line(_docstring(module))} |" for path, module in public_modules().items()]
    overview = _OVERVIEW.format(large=_list_of_large(), modules="\n".join(rows))
    modules = [_page(path, module) for path, module in public_modules().items()]
    return [Page("index.md", "Overview", overview), *large, *modules, _types()]
