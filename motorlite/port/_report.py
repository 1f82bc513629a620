"""Pure: the findings in a file, and the changes that go with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import libcst as cst

from motorlite.port._finding import Finding, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from motorlite.port._source import Source

    Edit = Callable[[cst.CSTNode], cst.CSTNode]

# A person looked at the line and wants no word about it.
_KEEP: Final = re.compile(r"#\s*port:\s*keep\b")


class Report:
    """Collects findings and changes of one file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept = {
            number
            for number, line in enumerate(source.module.code.splitlines(), start=1)
            if "port" in line and _KEEP.search(line)
        }
        self.findings: set[Finding] = set()
        # The nodes that findings are about.
        self._found: set[cst.CSTNode] = set()
        self._edits: dict[cst.CSTNode, Edit] = {}
        # Import statements, and what replaces them.
        self._statements: dict[cst.CSTNode, Sequence[cst.BaseSmallStatement]] = {}

    def is_kept(self, node: cst.CSTNode) -> bool:
        """Whether the line of `node` says ``# port: keep``."""
        return bool(self._kept) and self._source.position(node)[0] in self._kept

    def add(self, node: cst.CSTNode, found: str, instead: str, mark: Mark, edit: Edit | None = None) -> None:
        """Add a finding, unless its line is kept; `edit` makes the change."""
        if self.is_kept(node):
            return
        self.findings.add(Finding(*self._source.position(node), found, instead, mark))
        self._found.add(node)
        if edit is not None:
            self.edit(node, edit)

    def add_within(self, node: cst.CSTNode, before: str, found: str, instead: str, mark: Mark) -> None:
        """Add a finding about a part of a string or a comment; `before` is the node's code in front of it."""
        line, column = self._source.position(node)
        skipped, _, last = before.rpartition("\n")
        if before != last:
            line, column = line + skipped.count("\n") + 1, 1
        if line not in self._kept:
            self.findings.add(Finding(line, column + len(last), found, instead, mark))

    def has_finding(self, node: cst.CSTNode) -> bool:
        """Whether a finding is about `node`."""
        return node in self._found

    def edit(self, node: cst.CSTNode, edit: Edit) -> None:
        """Change a node; several changes of one follow each other."""
        before = self._edits.get(node)
        self._edits[node] = edit if before is None else (lambda updated: edit(before(updated)))

    def hand(self, node: cst.CSTNode, instead: str) -> None:
        """Add a finding that only a person can change."""
        self.add(node, self._source.code(node), instead, Mark.HAND)

    def write(self, node: cst.CSTNode, new: cst.CSTNode, edit: Edit | None = None) -> None:
        """Add a finding, and replace `node` with `new`, or with the result of `edit`."""
        self.add(node, self._source.code(node), self._source.code(new), Mark.WRITE, edit or (lambda _: new))

    def replace_statement(self, node: cst.CSTNode, new: Sequence[cst.BaseSmallStatement]) -> None:
        """Replace an import statement with others."""
        self._statements[node] = new
        text = "; ".join(self._source.code(each) for each in new)
        self.add(node, self._source.code(node), text, Mark.WRITE)

    @property
    def has_changes(self) -> bool:
        """Whether anything can be changed."""
        return bool(self._edits or self._statements)

    def changed(self) -> cst.Module:
        """Return the file with all changes."""
        found = self._source.module.visit(_Changes(self._edits, self._statements))
        assert isinstance(found, cst.Module)
        return found


class _Changes(cst.CSTTransformer):
    """Makes the changes, from the inside out: an edit gets its node with what changed in it."""

    def __init__(
        self, edits: dict[cst.CSTNode, Edit], statements: dict[cst.CSTNode, Sequence[cst.BaseSmallStatement]]
    ) -> None:
        super().__init__()
        self._edits = edits
        self._statements = statements

    def on_leave(  # type: ignore[override]  # one method for all nodes
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        if isinstance(original_node, cst.SimpleStatementLine):
            assert isinstance(updated_node, cst.SimpleStatementLine)
            return self._line(original_node, updated_node)
        if isinstance(original_node, cst.SimpleStatementSuite):
            assert isinstance(updated_node, cst.SimpleStatementSuite)
            body = self._body(original_node.body, updated_node.body)
            return updated_node if body is None else updated_node.with_changes(body=body)
        edit = self._edits.get(original_node)
        return updated_node if edit is None else edit(updated_node)

    def _line(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.CSTNode]:
        body = self._body(original.body, updated.body)
        if body is None:
            return updated
        if len(original.body) > 1 or len(body) == 1:
            return updated.with_changes(body=body)
        first, *others = body
        return cst.FlattenSentinel(
            [updated.with_changes(body=[first]), *(cst.SimpleStatementLine([each]) for each in others)]
        )

    def _body(
        self, original: Sequence[cst.BaseSmallStatement], updated: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement] | None:
        """The statements of a line, with what replaces some of them; None if nothing does."""
        if not any(each in self._statements for each in original):
            return None
        body: list[cst.BaseSmallStatement] = []
        for before, after in zip(original, updated, strict=True):
            body += self._statements.get(before, [after])
        return body
