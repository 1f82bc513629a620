"""Pure: Motor's classes where no import shows what they are: attributes, strings and comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import libcst as cst
from libcst import matchers

from motorlite.port._finding import Mark
from motorlite.port._names import is_code
from motorlite.port._source import text_of

if TYPE_CHECKING:
    from motorlite.port._names import Clients, Names
    from motorlite.port._report import Report
    from motorlite.port._source import Source
    from motorlite.port._table import Table

_MOTORS: Final = re.compile(r"\bAsyncIOMotor[A-Z]\w*")
_IN_COMMENT: Final = re.compile(r"#.*\bAsyncIOMotor[A-Z]")
_NO_COUNTERPART: Final = "motorlite has no counterpart"


class Mentions:
    """Reports what nothing else has reported, so that a program which still names Motor is never without a finding."""

    def __init__(self, table: Table, source: Source, names: Names, clients: Clients, report: Report) -> None:
        self._table = table
        self._source = source
        self._clients = clients
        self._report = report
        # What the imports have settled.
        self._settled = {use.node for local in names.locals.values() for use in local.uses}

    def run(self) -> None:
        """Report everything."""
        for node in self._source.nodes:
            if isinstance(node, cst.Attribute):
                self._attribute(node)
            elif isinstance(node, cst.Name):
                self._name(node)
            elif isinstance(node, cst.SimpleString):
                if node not in self._settled and not self._is_reported(node):
                    self._text(node, node.value)
            elif isinstance(node, cst.FormattedStringText):
                self._text(node, node.value)
        if _IN_COMMENT.search(self._source.module.code):
            for comment in matchers.findall(self._source.module, matchers.Comment()):
                assert isinstance(comment, cst.Comment)
                self._text(comment, comment.value)

    def _instead(self, name: str) -> str:
        """The name of motorlite's class; "" if `name` is none of Motor's."""
        target = self._table.target(f"a_module.{name}")
        if target is not None:
            return target.path.rpartition(".")[2] or target.reason
        return _NO_COUNTERPART if _MOTORS.fullmatch(name) and not self._clients.is_own_name(name) else ""

    def _attribute(self, node: cst.Attribute) -> None:
        instead = self._instead(node.attr.value)
        if instead and not self._is_settled(node):
            self._report.hand(node, instead)

    def _is_settled(self, node: cst.BaseExpression) -> bool:
        """Whether the imports say what a chain means, or a longer one that it begins."""
        found: cst.CSTNode | None = node
        while isinstance(found, cst.Attribute | cst.Name):
            if found in self._settled:
                return True
            found = self._source.parent(found)
        return isinstance(found, cst.ImportFrom | cst.ImportAlias)

    def _name(self, node: cst.Name) -> None:
        """A name that nothing in the file defines: it may come from ``import *``."""
        parent = self._source.parent(node)
        if isinstance(parent, cst.Attribute | cst.ImportAlias | cst.AsName) or not _MOTORS.fullmatch(node.value):
            return
        is_keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if is_keyword or self._is_settled(node) or node.value in self._source.scope(node):
            return
        instead = self._instead(node.value)
        if instead:
            self._report.hand(node, instead)

    def _is_reported(self, node: cst.SimpleString) -> bool:
        """Whether another finding is about the whole string: the path of a class, or its name."""
        return self._report.has_finding(node) or (is_code(node, self._source) and self._is_known(text_of(node), node))

    def _is_known(self, code: str, node: cst.SimpleString) -> bool:
        """Whether the file says what each of Motor's names in a string means, which is code."""
        return all(self._source.import_paths(name, node) for name in _MOTORS.findall(code))

    def _text(self, node: cst.CSTNode, text: str) -> None:
        for found in _MOTORS.finditer(text):
            instead = self._instead(found[0])
            if instead:
                self._report.add_within(node, text[: found.start()], found[0], instead, Mark.HAND)
