"""Pure: strings with names of PyMongo and Motor: loggers, paths for patching, and exported names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._finding import Mark
from motorlite.port._names import is_code
from motorlite.port._source import dotted, is_dotted, text_of
from motorlite.port._table import PACKAGES

if TYPE_CHECKING:
    from motorlite.port._names import Names
    from motorlite.port._report import Report
    from motorlite.port._source import Source
    from motorlite.port._table import Table

# PyMongo's loggers, which motorlite has under its own name.
_LOGGERS: Final = frozenset(
    f"pymongo{end}" for end in ("", ".client", ".command", ".connection", ".serverSelection", ".topology")
)


class Texts:
    """Reports the strings of a file."""

    def __init__(self, table: Table, source: Source, names: Names, report: Report) -> None:
        self._table = table
        self._source = source
        self._names = names
        self._report = report

    def run(self) -> None:
        """Report everything."""
        for node in self._source.nodes:
            if isinstance(node, cst.SimpleString):
                self._string(node)

    def _string(self, node: cst.SimpleString) -> None:
        text = text_of(node)
        if text in _LOGGERS and self._names_a_logger(node):
            self._report.write(node, _with_text(node, "motorlite" + text.removeprefix("pymongo")))
        elif not is_dotted(text) or is_code(node, self._source):
            return
        elif self._is_exported(node):
            self._exported(node, text)
        elif text in _LOGGERS and "." in text:
            self._hand(node, f'"motorlite{text.removeprefix("pymongo")}", if it names a logger')
        elif "." in text and text.partition(".")[0] in PACKAGES:
            self._path(node, text)
        elif isinstance(self._source.parent(node), cst.Arg):
            # Motor's class in a module of the project, as `patch` and `patch.object` take it: only the name changes.
            module, dot, name = text.rpartition(".")
            target = self._table.target(f"a_module.{name}")
            if target is not None:
                self._hand(node, f'"{module}{dot}{target.path.rpartition(".")[2]}"')

    def _path(self, node: cst.SimpleString, text: str) -> None:
        """The path of something in PyMongo or Motor, for `patch` or `import_module`."""
        target = self._table.target(text)
        if target is None or not self._table.is_known(text):
            return
        if target.path:
            self._hand(node, f'"{target.path}"')
        else:
            mark = Mark.NOTE if target.is_synchronous else Mark.HAND
            self._report.add(node, self._source.code(node), target.reason, mark)

    def _hand(self, node: cst.SimpleString, instead: str) -> None:
        self._report.add(node, self._source.code(node), instead, Mark.HAND)

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


def _with_text(node: cst.SimpleString, text: str) -> cst.SimpleString:
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")
