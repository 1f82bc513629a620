"""Pure: strings with names of PyMongo and Motor: packages, modules, loggers, paths for patching, exported names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._finding import Mark
from motorlite.port._names import is_code
from motorlite.port._source import dotted, is_dotted, text_of
from motorlite.port._table import PACKAGES

if TYPE_CHECKING:
    from motorlite.port._names import Clients, Names
    from motorlite.port._report import Report
    from motorlite.port._source import Source
    from motorlite.port._table import Table

# PyMongo's loggers, which motorlite has under its own name.
_LOGGERS: Final = frozenset(
    f"pymongo{end}" for end in ("", ".client", ".command", ".connection", ".serverSelection", ".topology")
)
# A package, as it is imported or required.
_PACKAGE: Final = re.compile(
    rf"({'|'.join(PACKAGES)})(?P<detail>(?:\s*\[[\w\s,-]*\])?\s*(?:(?:[<>=!~]=?|@).*)?)", re.IGNORECASE
)
# The beginning of a module's path, whose end the program adds.
_MODULE: Final = re.compile(rf"({'|'.join(PACKAGES)})\.[\w.]*")
_IMPORT: Final = re.compile(rf"^(?:.*[\s;:])?(?:from|import)\s+(?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
_INSTALL: Final = re.compile(r"\b(?:pip|uv|conda|poetry|pdm)3?\s.*\b(?:install|add)\b.*\b(?:motor|pymongo)(?![\w-])")
# Names of what takes the name of a package: functions, arguments, variables, keys.
_TAKES_PACKAGES: Final = re.compile(
    r"modules?$|packages?|import|depend|requir|install|find_spec|version|distribution|extras", re.IGNORECASE
)
_OUR_PACKAGES: Final = {"gridfs": "motorlite.gridfs"}
# A docstring may have pages.
_LONG: Final = 100
_CODE: Final = "it imports Motor or PyMongo: write what the rest of the program has"
_COMMAND: Final = "it installs Motor or PyMongo: motorlite"
_PART: Final = "it names a module of Motor or PyMongo: motorlite's are in the table of the guide"


class Texts:
    """Reports the strings of a file."""

    def __init__(self, table: Table, source: Source, names: Names, clients: Clients, report: Report) -> None:
        self._table = table
        self._source = source
        self._names = names
        self._report = report
        # Whether PyMongo stays a dependency, and nothing else is wanted.
        self._is_synchronous = clients.is_synchronous

    def run(self) -> None:
        """Report everything."""
        for node in self._source.nodes:
            if isinstance(node, cst.SimpleString):
                self._string(node)
            elif isinstance(node, cst.FormattedStringText) and _MODULE.fullmatch(node.value) and self._is_first(node):
                self._report.hand(node, _PART)

    def _string(self, node: cst.SimpleString) -> None:
        text = text_of(node)
        if text in _LOGGERS and self._names_a_logger(node):
            self._report.write(node, _with_text(node, "motorlite" + text.removeprefix("pymongo")))
        elif is_code(node, self._source):
            return
        elif not is_dotted(text):
            self._other(node, text)
        elif self._is_exported(node):
            self._exported(node, text)
        elif text in _LOGGERS and "." in text:
            self._hand(node, f'"motorlite{text.removeprefix("pymongo")}", if it names a logger')
        elif text.partition(".")[0] in PACKAGES:
            self._path(node, text)
        else:
            # Motor's class in a module of the project, as `patch` and `patch.object` take it: only the name changes.
            module, dot, name = text.rpartition(".")
            target = self._table.target(f"a_module.{name}")
            if target is not None:
                self._hand(node, f'"{module}{dot}{target.path.rpartition(".")[2]}"')

    def _other(self, node: cst.SimpleString, text: str) -> None:
        """Requirements, code, and commands."""
        if _PACKAGE.fullmatch(text):
            self._package(node, text)
        elif _IMPORT.search(text):
            self._hand(node, _CODE)
        elif _INSTALL.search(text):
            self._hand(node, _COMMAND)
        elif _MODULE.fullmatch(text):
            self._hand(node, _PART)

    def _package(self, node: cst.SimpleString, text: str) -> None:
        """A package that is imported or required by its name; "motor" means other things, too."""
        name = text.partition("[")[0].strip().lower()
        if name in ("motor", "gridfs") and not self._takes_packages(node):
            return
        if self._is_synchronous and name != "motor":
            return
        self._hand(node, f'"{_OUR_PACKAGES.get(name, "motorlite")}", if it names the package')

    def _takes_packages(self, node: cst.SimpleString) -> bool:
        """Whether what has the string, or is given it, takes names of packages and modules."""
        for parent in self._source.parents(node):
            if any(_TAKES_PACKAGES.search(name) for name in _names_of(parent)):
                return True
            if isinstance(parent, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                return False
        return False

    def _is_first(self, node: cst.FormattedStringText) -> bool:
        parent = self._source.parent(node)
        return isinstance(parent, cst.FormattedString) and parent.parts[0] is node

    def _path(self, node: cst.SimpleString, text: str) -> None:
        """The path of something in PyMongo or Motor, for `patch` or `import_module`."""
        if "." not in text:
            self._package(node, text)
            return
        target = self._table.target(text)
        if target is None or not (self._table.is_known(text) or self._takes_packages(node) or self._is_patched(node)):
            return
        if target.path:
            self._hand(node, f'"{target.path}"')
        else:
            mark = Mark.NOTE if target.is_synchronous else Mark.HAND
            self._report.add(node, self._source.code(node), target.reason, mark)

    def _hand(self, node: cst.SimpleString, instead: str) -> None:
        code = self._source.code(node)
        self._report.add(node, code if len(code) < _LONG else f"{code[:_LONG]}...", instead, Mark.HAND)

    def _names_a_logger(self, node: cst.SimpleString) -> bool:
        """Whether it is an argument of `getLogger`, or a key of the loggers of a `dictConfig`."""
        parent = self._source.parent(node)
        if isinstance(parent, cst.Arg):
            call = self._source.parent(parent)
            return isinstance(call, cst.Call) and dotted(call.func).rpartition(".")[2] == "getLogger"
        if isinstance(parent, cst.DictElement) and parent.key is node:
            dictionary = self._source.parent(parent)
            above = self._source.parent(dictionary) if dictionary else None
            key = above.key if isinstance(above, cst.DictElement) else None
            return isinstance(key, cst.SimpleString) and text_of(key) == "loggers"
        return False

    def _is_patched(self, node: cst.SimpleString) -> bool:
        """Whether it is the first argument of ``patch``, or of a method of that name."""
        parent = self._source.parent(node)
        call = self._source.parent(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and dotted(call.func).rpartition(".")[2] in ("patch", "setattr", "delattr")

    def _is_exported(self, node: cst.SimpleString) -> bool:
        """Whether it is an element of `__all__`."""
        for parent in self._source.parents(node):
            if isinstance(parent, cst.Assign):
                return any(dotted(each.target) == "__all__" for each in parent.targets)
            if isinstance(parent, cst.AugAssign | cst.AnnAssign):
                return dotted(parent.target) == "__all__"
            if isinstance(parent, cst.Call):
                return dotted(parent.func).startswith("__all__.")
        return False

    def _exported(self, node: cst.SimpleString, text: str) -> None:
        path = next(iter(sorted(self._source.imported_names().get(text, ()))), "")
        ours = self._names.decided(path).ours if path else ""
        new = ours.rpartition(".")[2]
        if ours and new != text and path.rpartition(".")[2] == text:
            self._report.write(node, _with_text(node, new))


def _names_of(node: cst.CSTNode) -> list[str]:
    """The last names of what a node calls, compares, subscripts, assigns or names."""
    found: list[cst.BaseExpression | None] = []
    if isinstance(node, cst.Call):
        found = [node.func, *(each.value for each in node.args)]
    elif isinstance(node, cst.Arg):
        found = [node.keyword]
    elif isinstance(node, cst.Subscript):
        found = [node.value]
    elif isinstance(node, cst.Comparison):
        found = [node.left, *(each.comparator for each in node.comparisons)]
    elif isinstance(node, cst.Assign):
        found = [each.target for each in node.targets]
    elif isinstance(node, cst.AnnAssign | cst.AugAssign):
        found = [node.target]
    elif isinstance(node, cst.Param):
        found = [node.name]
    elif isinstance(node, cst.For):
        found = [node.target]
    elif isinstance(node, cst.DictElement) and isinstance(node.key, cst.SimpleString):
        return [text_of(node.key)]
    return [name.rpartition(".")[2] for each in found if each is not None for name in [dotted(each)] if name]


def _with_text(node: cst.SimpleString, text: str) -> cst.SimpleString:
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")
