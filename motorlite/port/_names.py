"""Pure: the imported names of PyMongo and Motor in a file, where they are used, and what becomes of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._source import captured, children, dotted, text_of, walk
from motorlite.port._table import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite.port._kinds import Kinds
    from motorlite.port._source import Source
    from motorlite.port._table import Table, Target

_BOTH_ERRORS: Final = (
    "this {where} also uses the synchronous client, which raises PyMongo's: catch both, {ours} and {theirs}, or keep "
    "the two in files of their own"
)
_BOTH_RESULTS: Final = (
    "this {where} also uses the synchronous client, whose results are PyMongo's: write {ours} where the asynchronous "
    "one returned it"
)
_FOREIGN: Final = "a package outside of the project exports Motor's class"
# The asynchronous classes, in a file that may not import them by a statement.
_ASYNCHRONOUS: Final = re.compile(r"\b(?:AsyncIOMotor[A-Z]\w*|AsyncMongoClient|motor\.motor_\w+)\b")
# Where a string is code.
_CODE_CALLS: Final = frozenset({"cast", "TypeVar", "ForwardRef"})


@dataclass(frozen=True, slots=True)
class Name:
    """What becomes of one name: it moves to a path in motorlite, or stays where it is."""

    # What it means, ``pymongo.errors.AutoReconnect``.
    path: str
    # Its path in motorlite; empty if it stays.
    ours: str
    # What a person has to do, or to know.
    advice: str = ""
    is_synchronous: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A chain of names that begins with an imported one."""

    # A Name, an Attribute, or the string that has it.
    node: cst.BaseExpression
    chain: str
    name: Name


@dataclass(slots=True)
class Local:
    """A local name that was imported, and its uses."""

    name: str
    # What it means itself: a module, or a name.
    path: str
    is_module: bool
    uses: list[Use] = field(default_factory=list)


class Names:
    """The names of a file."""

    def __init__(self, table: Table, source: Source, kinds: Kinds, clients: Clients) -> None:
        self._table = table
        self._source = source
        self._kinds = kinds
        self._clients = clients
        found = clients.chains(source)
        self.statements: list[cst.Import | cst.ImportFrom] = found.statements
        paths = [(node, chain, path) for node, chain in found.chains for path in [self._path(chain, node)] if path]
        # The synchronous API, and the asynchronous one, which may be in the same file.
        apis = clients.of(source)
        self._is_synchronous = Api.SYNC in apis
        self._is_asynchronous = Api.ASYNC in apis
        # By local name and what it means: two functions may import different things under one name.
        self.locals: dict[tuple[str, str], Local] = {}
        for node, chain, path in paths:
            root = chain.partition(".")[0]
            own = self._path(root, node)
            # Without a path of its own, it is a module of the project that exports such a name.
            local = self.locals.setdefault((root, own), Local(root, own, not own or table.is_module(own)))
            local.uses.append(Use(node, chain, self.decided(path)))

    def _path(self, chain: str, node: cst.CSTNode) -> str:
        """What a chain means, if it is of these packages, or Motor's class from a module of the project."""
        for path in self._source.import_paths(chain, node):
            if _is_theirs(path) or (self._table.target(path) and not path.startswith("motorlite")):
                return path
        return ""

    def decided(self, path: str) -> Name:
        """Return what becomes of `path`."""
        target = self._table.target(path)
        if target is None:
            return Name(path, "")
        if not target.path:
            return Name(path, "", target.reason, target.is_synchronous)
        if not _is_theirs(path) and self._kinds.module(path.rpartition(".")[0], self._source) is None:
            return Name(path, "", _FOREIGN)
        if self._clients.are_both and self._table.is_value(target.path):
            # Modules hand them to each other; the synchronous client takes only PyMongo's, and motorlite both.
            return Name(path, "")
        if self._is_synchronous and not self._clients.is_asynchronous(path):
            # The synchronous client takes PyMongo's objects, and motorlite takes them too.
            return Name(path, "", self._advice_of_both(path, target) if self._is_asynchronous else "")
        return Name(path, target.path)

    def _advice_of_both(self, path: str, target: Target) -> str:
        where = "file" if self._clients.own(self._source) else "project"
        if target.path.startswith("motorlite.errors") or ".errors" in path:
            return _BOTH_ERRORS.format(where=where, ours=target.path, theirs=path)
        if target.path.startswith("motorlite.results."):
            return _BOTH_RESULTS.format(where=where, ours=target.path)
        return ""


class Api(Enum):
    """Which of PyMongo's two interfaces a module uses."""

    SYNC = auto()
    ASYNC = auto()


class Clients:
    """Which modules of a project use the synchronous client, and which the asynchronous one.

    Errors and write requests belong to both. A module that only has such names follows the modules that it imports,
    and then the rest of the project.
    """

    def __init__(self, table: Table, kinds: Kinds, sources: Iterable[Source]) -> None:
        self._table = table
        self._kinds = kinds
        self._chains = {source: _Chains(source) for source in sources}
        self._own = {source: self._known(source) for source in self._chains}
        self._all = frozenset(api for apis in self._own.values() for api in apis)
        self._own_names = frozenset(name for source in self._chains for name in self._names_of(source))
        self._neighbours: dict[Source, list[Source]] = {}

    @staticmethod
    def _names_of(source: Source) -> set[str]:
        try:
            return source.own_names()
        except RecursionError:
            # The file will be reported.
            return set()

    @property
    def are_both(self) -> bool:
        """Whether the project uses both clients."""
        return len(self._all) > 1

    @cached_property
    def is_any_asynchronous(self) -> bool:
        """Whether a module of the project uses the asynchronous client, or motorlite, under whatever name."""
        return Api.ASYNC in self._all or any(_ASYNCHRONOUS.search(source.module.code) for source in self._chains)

    @cached_property
    def is_synchronous(self) -> bool:
        """Whether the project uses the synchronous client alone."""
        return Api.SYNC in self._all and not self.is_any_asynchronous

    def is_own_name(self, name: str) -> bool:
        """Whether a module of the project defines `name`."""
        return name in self._own_names

    def chains(self, source: Source) -> _Chains:
        """Return the chains of names of a module."""
        return self._chains[source]

    def own(self, source: Source) -> frozenset[Api]:
        """Return what a module itself names."""
        return self._own[source]

    def of(self, source: Source) -> frozenset[Api]:
        """Return what the clients of a module are; both, or none, if that cannot be seen."""
        if self._own[source] or len(self._all) < 2:
            return self._own[source] or self._all
        imported = self._imported(source)
        if len(imported) == 1:
            return imported
        is_asynchronous = any(isinstance(node, cst.Await | cst.Asynchronous) for node in source.nodes)
        return frozenset({Api.ASYNC}) if is_asynchronous else self._all

    def is_asynchronous(self, path: str) -> bool:
        """Whether `path` belongs to the asynchronous API alone."""
        return path.startswith(("motor.", "pymongo.asynchronous")) or bool(self._table.kind(path))

    def _known(self, source: Source) -> frozenset[Api]:
        try:
            return self._named(source)
        except RecursionError:
            # The file will be reported.
            return frozenset()

    def _named(self, source: Source) -> frozenset[Api]:
        found = self._chains[source]
        imported = {path for paths in source.imported_names().values() for path in paths}
        used = {path for node, chain in found.chains for path in source.import_paths(chain, node)}
        paths = [path for path in imported | used if not self._table.is_module(path)]
        targets = [target for path in paths if _is_theirs(path) for target in [self._table.target(path)] if target]
        is_asynchronous = any(self.is_asynchronous(path) for path in paths)
        is_ported = any(path.startswith("motorlite") for path in imported)
        return frozenset(
            api
            for api, is_there in (
                (Api.SYNC, any(target.is_synchronous for target in targets)),
                (Api.ASYNC, is_asynchronous or is_ported),
            )
            if is_there
        )

    def _imported(self, source: Source) -> frozenset[Api]:
        """What the modules of the project name that a module imports, and those that they import."""
        seen, left = {source}, [source]
        while left:
            for each in self._imports(left.pop()):
                if each not in seen:
                    seen.add(each)
                    left.append(each)
        return frozenset(api for each in seen for api in self._own[each])

    def _imports(self, source: Source) -> list[Source]:
        if source not in self._neighbours:
            paths = {path for each in source.imported_names().values() for path in each}
            places = {place for path in paths for place in (path, path.rpartition(".")[0]) if place.strip(".")}
            found = [self._kinds.module(place, source) for place in sorted(places)]
            self._neighbours[source] = [each for each in found if each is not None]
        return self._neighbours[source]


def _is_theirs(path: str) -> bool:
    return path.partition(".")[0] in PACKAGES


def chains_in(node: cst.SimpleString) -> list[str]:
    """Return the chains of names in a string that is an expression."""
    try:
        parsed = cst.parse_expression(text_of(node))
    except (cst.ParserSyntaxError, ValueError, RecursionError):
        return []
    parents = {child: node for node in walk(parsed) for child in children(node)}
    chains = [
        dotted(node)
        for node in walk(parsed)
        if isinstance(node, cst.Name | cst.Attribute) and _is_whole(node, parents.get(node))
    ]
    # An annotation may have quotes within quotes.
    values = {
        part
        for node in walk(parsed)
        if isinstance(node, cst.Subscript) and dotted(node.value).rpartition(".")[2] == "Literal"
        for part in walk(node)
    }
    inner = [each for each in walk(parsed) if isinstance(each, cst.SimpleString) and each not in values]
    return [chain for chain in chains if chain] + [chain for each in inner for chain in chains_in(each)]


class _Chains:
    """The import statements of a file, and its chains of names, with those in strings that are code."""

    def __init__(self, source: Source) -> None:
        self.statements: list[cst.Import | cst.ImportFrom] = []
        self.chains: list[tuple[cst.BaseExpression, str]] = []
        for node in source.nodes:
            if isinstance(node, cst.Import | cst.ImportFrom):
                self.statements.append(node)
            elif isinstance(node, cst.Name | cst.Attribute):
                chain = dotted(node)
                if chain and _is_whole(node, source.parent(node)):
                    self.chains.append((node, chain))
            elif isinstance(node, cst.SimpleString) and is_code(node, source):
                self.chains += [(node, chain) for chain in chains_in(node)]


def _is_whole(node: cst.Name | cst.Attribute, parent: cst.CSTNode | None) -> bool:
    """Whether a chain of names is an expression: no part of a longer one, no keyword, no name of something new."""
    if isinstance(parent, cst.Arg):
        return parent.value is node
    if isinstance(parent, cst.Param | cst.FunctionDef | cst.ClassDef):
        return parent.name is not node
    if isinstance(parent, cst.MatchKeywordElement):
        return parent.key is not node
    if parent is not None and captured(parent) is node:
        return False
    return not isinstance(parent, cst.Attribute | cst.ImportAlias | cst.ImportFrom | cst.AsName)


def is_code(node: cst.SimpleString, source: Source) -> bool:
    """Whether a string is an annotation, or a type in another place."""
    inner: cst.CSTNode = node
    for parent in source.parents(node):
        if isinstance(parent, cst.Annotation):
            return True
        if isinstance(parent, cst.Call):
            return dotted(parent.func).rpartition(".")[2] in _CODE_CALLS
        if isinstance(parent, cst.Subscript):
            name = dotted(parent.value).rpartition(".")[2]
            if name == "Literal":
                return False
            if inner is not parent.value and (name[:1].isupper() or name in ("list", "dict", "tuple", "set", "type")):
                return True
        if isinstance(parent, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return False
        inner = parent
    return False
